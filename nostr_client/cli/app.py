"""The `nostr-client` command tree."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from nostr_client import __version__
from nostr_client.cli.entry import CommandEntry, LazyGroup, run_command

if TYPE_CHECKING:
    from collections.abc import Sequence

COMMANDS = {
    "count": CommandEntry(
        "nostr_client.cli.count.command:count", "Count one number over many relays."
    ),
    "watch": CommandEntry(
        "nostr_client.cli.watch.commands:watch", "Repeat questions and store their numbers."
    ),
    "digest": CommandEntry(
        "nostr_client.cli.watch.digest:digest", "Print what changed since a time."
    ),
    "req": CommandEntry("nostr_client.cli.req:req", "Print events as JSON lines."),
    "sync": CommandEntry(
        "nostr_client.cli.sync.commands:sync", "Bring the store and relays to the same events."
    ),
    "mirror": CommandEntry(
        "nostr_client.cli.sync.commands:mirror", "Copy both ways between two relays."
    ),
    "coverage": CommandEntry(
        "nostr_client.cli.sync.coverage:coverage", "Show which relay has which events."
    ),
    "publish": CommandEntry("nostr_client.cli.publish:publish", "Publish events to relays."),
    "relay": CommandEntry(
        "nostr_client.cli.relay.commands:relay", "Show a relay's description, or an agent's relays."
    ),
    "store": CommandEntry(
        "nostr_client.cli.store.commands:store", "Import, export and query the local store."
    ),
    "assertions": CommandEntry(
        "nostr_client.cli.assertions:assertions", "Publish counts as signed cards (NIP-85)."
    ),
    "counter": CommandEntry(
        "nostr_client.cli.counter.commands:counter", "Add to exact sums, and read them (ADR-49)."
    ),
    "key": CommandEntry("nostr_client.cli.key:key", "Make and show keys."),
    "encode": CommandEntry(
        "nostr_client.cli.identifiers:encode", "Write npub, note, nevent or naddr."
    ),
    "decode": CommandEntry(
        "nostr_client.cli.identifiers:decode", "Print the parts of an identifier."
    ),
    "hll": CommandEntry(
        "nostr_client.cli.sketches:sketches", "Compute HyperLogLog registers by hand."
    ),
    "completion": CommandEntry("nostr_client.cli.app:completion", "Print shell completion code."),
}
"""One line for each subcommand; its module is imported when the subcommand runs."""


@click.group(
    cls=LazyGroup,
    entries=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 80},
)
@click.version_option(__version__, prog_name="nostr-client")
def cli() -> None:
    """Count, read and publish over many Nostr relays.

    Exit codes: 0 ok, 1 failure, or nobody reads the output any more (| head), 2 wrong usage or
    input, 3 no relay answered, 124 every relay timed out, 130 interrupted (Ctrl-C).
    """


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print completion code for SHELL.

    bash: eval "$(nostr-client completion bash)"
    """
    from click.shell_completion import get_completion_class

    maker = get_completion_class(shell)
    if maker is None:
        raise click.UsageError(f"no completion for {shell}")
    click.echo(maker(cli, {}, "nostr-client", "_NOSTR_CLIENT_COMPLETE").source())


def run(args: Sequence[str] | None = None) -> int:
    """Run the command line `args` (default: this process's) and return its exit code."""
    return run_command(cli, "nostr-client", args)
