"""`nostr-agent`: the service on the command line. stdout is data, stderr is talk."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from nostr_client import __version__
from nostr_client.cli.entry import CommandEntry, LazyGroup, run_command
from nostr_client.cli.gc_tuning import run_to_exit

if TYPE_CHECKING:
    from collections.abc import Sequence

COMMANDS = {
    "run": CommandEntry("agent.commands.run:run", "Run the agent in the foreground."),
    "init": CommandEntry("agent.commands.init:init", "Write a commented configuration."),
    "check": CommandEntry("agent.commands.init:check", "Say what is wrong with the configuration."),
    "status": CommandEntry("agent.commands.status:status", "Whether the agent runs and is ready."),
    "reload": CommandEntry("agent.commands.status:reload", "Read the configuration again."),
    "retention": CommandEntry(
        "agent.commands.status:retention", "What is removed when it gets old."
    ),
    "logs": CommandEntry("agent.commands.status:logs", "The newest lines of the log."),
    "backup": CommandEntry("agent.commands.backup:backup", "Copy the store, checked."),
    "restore": CommandEntry("agent.commands.backup:restore", "Put a backup in the store's place."),
    "archive": CommandEntry("agent.commands.archive:archive", "Events in files: JSONL or Parquet."),
    "reindex": CommandEntry(
        "agent.commands.reindex:reindex", "Rebuild all that is derived, in bulk."
    ),
    "install-service": CommandEntry(
        "agent.commands.install:install_service", "Have systemd or launchd run the agent."
    ),
    "demo": CommandEntry("agent.commands.demo:demo", "All of it in seconds, on local relays."),
    "relay": CommandEntry(
        "agent.relay.command:relay", "Serve a store as a relay, and nothing else."
    ),
}
"""One line per subcommand; its module is imported when the subcommand is run."""


@click.group(
    cls=LazyGroup,
    entries=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 80},
)
@click.version_option(__version__, prog_name="nostr-agent")
def cli() -> None:
    """Run the parts of nostr-tally that stay up.

    Exit codes: 0 ok, 1 failure, or nobody reads the output any more (| head), 2 wrong usage or
    input, 3 no agent is running, 124 the agent did not answer in time, 130 interrupted (Ctrl-C).
    Ctrl-C and SIGTERM end run and relay with 0.
    """


def run(args: Sequence[str] | None = None) -> int:
    """Run the command line `args` (default: this process's) and return its exit code."""
    return run_command(cli, "nostr-agent", args)


def main() -> None:
    """Run `nostr-agent` with the arguments of this process, and leave with its exit code."""
    run_to_exit(run)
