"""The one place that turns errors into one line on stderr and an exit code, for every program."""

from __future__ import annotations

import io
import os
import re
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

import click

from nostr_client.cli.exitcodes import FAILURE, INTERRUPTED, OK, exit_code
from nostr_client.errors import NostrTallyError, clip
from nostr_client.extras import wanted_extra

if TYPE_CHECKING:
    from collections.abc import Sequence

_SECRET = re.compile(r"nsec1[0-9a-z]*", re.IGNORECASE)


def run_command(command: click.Command, name: str, args: Sequence[str] | None = None) -> int:
    """Run `command` of program `name` with `args` (default: this process's); its exit code.

    Every expected error becomes one line on stderr; a traceback is always a bug of ours.
    """
    _open_streams()
    try:
        code = command.main(args, prog_name=name, standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        return error.exit_code
    except click.ClickException as error:
        return _fail(name, _where(error) + error.format_message(), error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        return _fail(name, "interrupted", INTERRUPTED)
    except NostrTallyError as error:
        return _fail(name, str(error), exit_code(error))
    except BrokenPipeError:
        _mute_stdout()
        return FAILURE
    except OSError as error:
        return _fail(name, str(error), FAILURE)
    except ModuleNotFoundError as error:
        return _fail(name, wanted_extra(error), FAILURE)
    return code if isinstance(code, int) else OK


def _fail(name: str, message: str, code: int) -> int:
    """Say why in one line on stderr and return `code`."""
    line = _SECRET.sub("nsec1...", " ".join(message.split()))
    with suppress(OSError):  # a full or closed stderr changes nothing about the exit code
        click.echo(f"{name}: {clip(line)}", err=True)
    return code


def _open_streams() -> None:
    """Make every stream usable: the caller may have closed it, or have an encoding of few letters.

    A closed stdin is empty; what goes to a closed stdout is lost, as the caller wanted.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _where(error: click.ClickException) -> str:
    ctx = error.ctx if isinstance(error, click.UsageError) else None
    path = ctx.command_path.split(" ", 1)[1:] if ctx is not None else []
    return f"{path[0]}: " if path else ""


def _mute_stdout() -> None:
    """The reader left (`| head`): the interpreter's last flush must not print a traceback."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
