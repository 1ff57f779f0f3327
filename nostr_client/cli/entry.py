"""Start and end every program: lazy commands, asyncio, errors as one line, exit codes."""

from __future__ import annotations

import asyncio
import codecs
import importlib
import io
import os
import signal
import sys
from contextlib import suppress
from functools import partial
from typing import IO, TYPE_CHECKING, Any, Final, NamedTuple, NoReturn, TypeVar

import click

from nostr_client.errors import (
    DeadlineExceeded,
    InvalidInput,
    NetworkError,
    NoRelays,
    NostrTallyError,
    StoreLocked,
    clip,
    holds_secret_key,
    innermost,
    wanted_extra,
    without_secret_keys,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping, Sequence


OK: Final = 0
FAILURE: Final = 1
USAGE: Final = 2
NO_RELAY: Final = 3
TIMEOUT: Final = 124
INTERRUPTED: Final = 130


def exit_code(error: NostrTallyError) -> int:
    """Return the exit code that stands for `error`."""
    if isinstance(error, InvalidInput):
        return USAGE
    if isinstance(error, DeadlineExceeded):
        return TIMEOUT
    if isinstance(error, (NetworkError, NoRelays)):
        return NO_RELAY
    return FAILURE


class CommandEntry(NamedTuple):
    """The location of a subcommand, as `module:attribute`, and its line in the group's help."""

    target: str
    help: str


class CommandGroup(click.Group):
    """A click group whose list has the complete first sentence of each command."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        names = self.list_commands(ctx)
        commands = {name: self.get_command(ctx, name) for name in names}
        rows = [(name, _sentence(one)) for name, one in commands.items() if one is not None]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


def _sentence(command: click.Command) -> str:
    return f"{command.get_short_help_str(200).rstrip('.')}."


class LazyGroup(CommandGroup):
    """A click group over a table of entries: `--help` and completion of names import nothing."""

    def __init__(
        self, *args: Any, entries: Mapping[str, CommandEntry] | None = None, **kw: Any
    ) -> None:
        super().__init__(*args, **kw)
        self._entries = dict(entries or {})

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*self._entries, *super().list_commands(ctx)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = self._entries.get(cmd_name)
        if entry is None:
            return super().get_command(ctx, cmd_name)
        module, _, attribute = entry.target.partition(":")
        command = getattr(importlib.import_module(module), attribute)
        if not isinstance(command, click.Command):
            raise TypeError(f"{entry.target} is not a click command")
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        rows = [(name, entry.help) for name, entry in self._entries.items()]
        rows += [(name, _sentence(self.commands[name])) for name in sorted(self.commands)]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


_STREAMS: Final = "its configuration says which streams there are"

_INSTEAD: Final = {
    "run": "it runs already, and `nostr-agent status` shows it: a second one needs another --store",
    "count": "leave --store out, or have it keep the number: `nostr-client watch add`",
    "sync run": "`nostr-client sync add NAME` has it keep a sync, and `sync run NAME` runs that",
    "store import": "import into another --store, and bring that to its relay (its address: "
    "`nostr-agent status`) by `nostr-client sync run --direction up --include-others`",
    "counter stream add": _STREAMS,
    "counter stream set": _STREAMS,
    "counter stream remove": _STREAMS,
    "counter source add": _STREAMS,
    "counter source remove": _STREAMS,
}
"""The alternative to a command that writes the file itself, while an agent holds it."""

_STOP: Final = "stop it first: it has no command for this"


def with_hint(error: StoreLocked) -> StoreLocked:
    """Return the error, with the agent's alternative to the running command."""
    if error.pid is None:
        return error
    context = click.get_current_context(silent=True)
    name = context.command_path.partition(" ")[2] if context is not None else ""
    text = _INSTEAD.get(name, _STOP)
    return StoreLocked(f"{error}; if that is the agent, {text}", pid=error.pid)


ERRORS: Final = "nostr-tally-plain"
"""The name of the error handler, for `errors=` of a stream."""

PLAIN: Final = {
    "–": "-",
    "—": "-",
    "−": "-",
    "≥": ">=",
    "≤": "<=",
    "≈": "~",
    "…": "...",
    "×": "x",
    "·": "|",
    "→": "->",
    "µ": "u",
    **dict(zip("▁▂▃▄▅▆▇█", "_.:-=+*#", strict=True)),
}
"""Replacement characters that JSON need not escape, as logs pass here.

A line of blocks keeps its eight levels. Every other sign is escaped.
"""


def replace(error: UnicodeError) -> tuple[str, int]:
    """Return the replacement of the letters that could not be encoded, as codecs ask for it."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(map(_plain, error.object[error.start : error.end])), error.end


def _plain(sign: str) -> str:
    return PLAIN.get(sign) or sign.encode("ascii", "backslashreplace").decode("ascii")


codecs.register_error(ERRORS, replace)


T = TypeVar("T")


def run_async(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a command's coroutine to its end; Ctrl-C cancels it and is raised again.

    If another process writes the store, the error names the agent's command for the same purpose.
    """
    try:
        return asyncio.run(coroutine)
    except StoreLocked as error:
        raise with_hint(error) from error


def run_async_until_sigterm(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run as `run_async`; SIGTERM cancels too, and is raised like Ctrl-C: exit code 130."""
    return run_async(_until_sigterm(coroutine))


async def _until_sigterm(coroutine: Coroutine[Any, Any, T]) -> T:
    task = asyncio.ensure_future(coroutine)
    with suppress(NotImplementedError):  # Windows has no signals of that kind
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    try:
        return await task
    except asyncio.CancelledError as error:
        raise KeyboardInterrupt from error


_EXPECTED = (
    click.ClickException,
    click.Abort,
    KeyboardInterrupt,
    NostrTallyError,
    OSError,
)


_KEY_PLACES = "name its file with --key-file or identity.key_file, or set NOSTR_TALLY_KEY"


def run_command(command: click.Command, name: str, args: Sequence[str] | None = None) -> int:
    """Run `command` of program `name` with `args` (default: this process's); return its exit code.

    Every expected error becomes one line on stderr; a traceback is always a bug of ours. A secret
    key among the arguments is refused first: no command takes one, and arguments go into events,
    filters and look-ups of names.
    """

    def run() -> object:
        given = sys.argv[1:] if args is None else args
        if any(map(holds_secret_key, given)):
            raise click.UsageError(f"a secret key (nsec) cannot be an argument: {_KEY_PLACES}")
        return command.main(args, prog_name=name, standalone_mode=False)

    return run_program(name, run)


def run_program(name: str, run: Callable[[], object]) -> int:
    """Run the program `name`; return its exit code, or what `run` returns if that is one.

    Output is flushed first: a full disk is one line on stderr and exit code 1. If the reader left
    (`| head`), the exit code is 1 without a line.
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
    """Return the text without its number; with the path, if the error names one."""
    why = error.strerror or str(error)
    return f"{error.filename}: {why}" if isinstance(error.filename, str) else why


def _first_of(group: BaseExceptionGroup[BaseException]) -> BaseException | None:
    """Return the first error of a task group; None if one of them is unexpected."""
    if group.split(_EXPECTED)[1] is not None:
        return None
    return innermost(group)


def _raise(error: BaseException) -> NoReturn:
    raise error


def _written_out(name: str, code: int) -> int:
    """Flush what is buffered while a failure can still be reported; return the exit code.

    The interpreter's own last flush would fail with its own message and exit code 120.
    """
    try:
        sys.stdout.flush()
    except OSError as error:
        _mute(sys.stdout)
        if code == OK and isinstance(error, BrokenPipeError):
            code = FAILURE
        elif code == OK:
            code = _fail(name, f"cannot write the output: {error.strerror}", FAILURE)
    try:
        sys.stderr.flush()
    except OSError:
        _mute(sys.stderr)
    return code


def _fail(name: str, message: str, code: int) -> int:
    """Print the reason in one line on stderr and return `code`."""
    line = without_secret_keys(" ".join(message.split()))
    with suppress(OSError):  # a full or closed stderr changes nothing about the exit code
        click.echo(f"{name}: {clip(line)}", err=True)
    return code


def _open_streams() -> None:
    """Make every stream usable: the caller may have closed it, or its encoding may have few
    letters.

    A closed stdin is empty; output to a closed stdout is lost, as the caller wanted.
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
    """Discard a stream's buffer, so that its last flush succeeds."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
