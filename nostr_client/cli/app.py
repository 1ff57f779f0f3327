"""The `nostr-client` command tree and its one place that turns errors into exit codes."""

from __future__ import annotations

import os
import re
import sys
from typing import TYPE_CHECKING

import click

from nostr_client._version import __version__
from nostr_client.cli.exitcodes import FAILURE, INTERRUPTED, OK, exit_code
from nostr_client.cli.lazy import Entry, LazyGroup
from nostr_client.errors import NostrTallyError, clip

if TYPE_CHECKING:
    from collections.abc import Sequence

COMMANDS = {
    "key": Entry("nostr_client.cli.key:key", "Make and show keys."),
    "completion": Entry("nostr_client.cli.completion:completion", "Print shell completion code."),
}
"""One line per subcommand; its module is imported when the subcommand is run."""

_SECRET = re.compile(r"nsec1[0-9a-z]*", re.IGNORECASE)


@click.group(
    cls=LazyGroup,
    entries=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="nostr-client")
def cli() -> None:
    """Count, read and publish over many Nostr relays.

    Exit codes: 0 ok, 1 failure, 2 wrong usage or input, 3 no relay answered, 124 every relay
    timed out.
    """


def run(args: Sequence[str] | None = None) -> int:
    """Run the command line `args` (default: this process's) and return its exit code.

    Every expected error becomes one line on stderr; a traceback is always a bug of ours.
    """
    try:
        code = cli.main(args, prog_name="nostr-client", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        return error.exit_code
    except click.ClickException as error:
        return fail(_where(error) + error.format_message(), error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        return fail("interrupted", INTERRUPTED)
    except NostrTallyError as error:
        return fail(str(error), exit_code(error))
    except BrokenPipeError:
        _mute_stdout()
        return FAILURE
    except OSError as error:
        return fail(str(error), FAILURE)
    return code if isinstance(code, int) else OK


def fail(message: str, code: int) -> int:
    """Say why in one line on stderr and return `code`."""
    line = _SECRET.sub("nsec1...", " ".join(message.split()))
    click.echo(f"nostr-client: {clip(line)}", err=True)
    return code


def _where(error: click.ClickException) -> str:
    ctx = error.ctx if isinstance(error, click.UsageError) else None
    path = ctx.command_path.split(" ", 1)[1:] if ctx is not None else []
    return f"{path[0]}: " if path else ""


def _mute_stdout() -> None:
    """The reader left (`| head`): the interpreter's last flush must not print a traceback."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
