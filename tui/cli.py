"""`nostr-tui`: watch the numbers move."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from nostr_client._version import __version__
from nostr_client.errors import InvalidInput, NostrTallyError

FAILURE, USAGE = 1, 2


@click.command(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option("--api", metavar="URL", help="The agent's API. Else where the running agent says.")
@click.option(
    "--token-file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The file with the API's token. Else where the running agent says.",
)
@click.option("--read-only", is_flag=True, help="Look, and change nothing.")
@click.option("--theme", default="tally-dark", show_default=True, help="Colours to begin with.")
@click.option("--ascii", "ascii_only", is_flag=True, help="Draw with ASCII alone.")
@click.version_option(__version__, prog_name="nostr-tui")
def cli(
    api: str | None, token_file: Path | None, read_only: bool, theme: str, ascii_only: bool
) -> None:
    """Show what the agent counts, live, in the terminal.

    NO_COLOR is honoured. Exit codes: 0 ok, 1 failure, 2 wrong usage.
    """
    from agent.api.address import reach
    from tui.app import TallyApp
    from tui.glyphs import speaks_unicode

    app = TallyApp(
        lambda: reach(api, token_file),
        read_only=read_only,
        ascii_only=ascii_only or not speaks_unicode(os.environ),
        no_color="NO_COLOR" in os.environ,
        theme=theme,
    )
    app.run()
    sys.exit(app.return_code or 0)


def main() -> None:
    """Run `nostr-tui` with the arguments of this process, and leave with its exit code."""
    try:
        cli(prog_name="nostr-tui")
    except NostrTallyError as error:
        click.echo(f"nostr-tui: {error}", err=True)
        sys.exit(USAGE if isinstance(error, InvalidInput) else FAILURE)
