"""The one place that turns errors into one line on stderr and an exit code, for every program."""

from __future__ import annotations

import io
import os
import re
import sys
from contextlib import suppress
from functools import partial
from typing import IO, TYPE_CHECKING, NoReturn

import click

from nostr_client.cli.exitcodes import FAILURE, INTERRUPTED, OK, exit_code
from nostr_client.cli.plainsigns import ERRORS
from nostr_client.errors import NostrTallyError, clip, innermost
from nostr_client.extras import wanted_extra

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_SECRET = re.compile(r"nsec1[0-9a-z]*", re.IGNORECASE)


_EXPECTED = (
    click.ClickException,
    click.Abort,
    KeyboardInterrupt,
    NostrTallyError,
    OSError,
)


def run_command(command: click.Command, name: str, args: Sequence[str] | None = None) -> int:
    """Run `command` of program `name` with `args` (default: this process's); its exit code.

    Every expected error becomes one line on stderr; a traceback is always a bug of ours.
    """
    return run_program(name, partial(command.main, args, prog_name=name, standalone_mode=False))


def run_program(name: str, run: Callable[[], object]) -> int:
    """Run what program `name` does; its exit code, which is what `run` returns where that is one.

    What was printed is written out before: a full disk is one line on stderr and exit code 1, and
    a reader that left (`| head`) is exit code 1 alone.
    """
    _open_streams()
    return _written_out(name, _code_of(name, run))


def _code_of(name: str, run: Callable[[], object]) -> int:
    try:
        code = run()
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
        return FAILURE
    except OSError as error:
        return _fail(name, _in_words(error), FAILURE)
    except ModuleNotFoundError as error:
        return _fail(name, wanted_extra(error), FAILURE)
    except BaseExceptionGroup as group:
        first = _first_of(group)
        if first is None:
            raise
        return _code_of(name, partial(_raise, first))
    return code if isinstance(code, int) else OK


def _in_words(error: OSError) -> str:
    """Without its number; with the path, where it names one."""
    why = error.strerror or str(error)
    return f"{error.filename}: {why}" if isinstance(error.filename, str) else why


def _first_of(group: BaseExceptionGroup[BaseException]) -> BaseException | None:
    """The first error of a task group; None where one of them is none of those expected."""
    if group.split(_EXPECTED)[1] is not None:
        return None
    return innermost(group)


def _raise(error: BaseException) -> NoReturn:
    raise error


def _written_out(name: str, code: int) -> int:
    """Write out what is buffered, while its failure can still be told; the exit code.

    The interpreter's own last flush would fail with a message of its own and exit code 120.
    """
    try:
        sys.stdout.flush()
    except OSError as error:
        _mute(sys.stdout)
        if code == OK and isinstance(error, BrokenPipeError):
            code = FAILURE
        elif code == OK:
            code = _fail(name, f"cannot write what was asked for: {error.strerror}", FAILURE)
    try:
        sys.stderr.flush()
    except OSError:
        _mute(sys.stderr)
    return code


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
            stream.reconfigure(errors=ERRORS)


def _where(error: click.ClickException) -> str:
    ctx = error.ctx if isinstance(error, click.UsageError) else None
    path = ctx.command_path.split(" ", 1)[1:] if ctx is not None else []
    return f"{path[0]}: " if path else ""


def _mute(stream: IO[str]) -> None:
    """Lose what a stream still holds, so that its last flush succeeds."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
