"""`nostr-agent`: the service on the command line. stdout is data, stderr is talk."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from nostr_client import __version__
from nostr_client.cli.entry import Entry, LazyGroup, run_command

if TYPE_CHECKING:
    from collections.abc import Sequence

COMMANDS = {
    "run": Entry("agent.commands.run:run", "Run the agent in the foreground."),
    "init": Entry("agent.commands.init:init", "Write a commented configuration."),
    "check": Entry("agent.commands.init:check", "Say what is wrong with the configuration."),
    "status": Entry("agent.commands.status:status", "Whether the agent runs and is ready."),
    "reload": Entry("agent.commands.status:reload", "Read the configuration again."),
    "retention": Entry("agent.commands.status:retention", "What is removed when it gets old."),
    "logs": Entry("agent.commands.status:logs", "The newest lines of the log."),
    "backup": Entry("agent.commands.backup:backup", "Copy the store, checked."),
    "restore": Entry("agent.commands.backup:restore", "Put a backup in the store's place."),
    "archive": Entry("agent.commands.archive:archive", "Events in files: JSONL or Parquet."),
    "reindex": Entry("agent.commands.reindex:reindex", "Rebuild all that is derived, in bulk."),
    "install-service": Entry(
        "agent.commands.install:install_service", "Have systemd or launchd run the agent."
    ),
    "demo": Entry("agent.commands.demo:demo", "All of it in seconds, on local relays."),
    "relay": Entry("agent.relay.command:relay", "Serve a store as a relay, and nothing else."),
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

    Exit codes: 0 ok, 1 failure, 2 wrong usage or input, 3 no agent is running.
    """


def run(args: Sequence[str] | None = None) -> int:
    """Run the command line `args` (default: this process's) and return its exit code."""
    return run_command(cli, "nostr-agent", args)


def main() -> None:
    """Run `nostr-agent` with the arguments of this process, and leave with its exit code."""
    sys.exit(run())
