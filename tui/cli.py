"""`nostr-tui`: watch the numbers move."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
from contextlib import AsyncExitStack, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nostr_client import __version__
from nostr_client.cli.entry import run_command
from nostr_client.cli.gc_tuning import run_to_exit
from nostr_client.cli.parameters import UserPath
from nostr_client.paths import tui_path
from tui.ending import TERMINATED, Ending
from tui.link import StartedAgent

if TYPE_CHECKING:
    from tui.app import TallyApp
    from tui.embedded_agent import EmbeddedAgent
    from tui.link import Locate


def _known_theme(ctx: click.Context, param: click.Parameter, name: str) -> str:
    """A theme's name. Raises BadParameter with the known names."""
    from textual.theme import BUILTIN_THEMES

    from tui.themes import OWN

    names = sorted({one.name for one in OWN} | BUILTIN_THEMES.keys())
    if name not in names:
        raise click.BadParameter(f"there are: {', '.join(names)}")
    return name


@click.command(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 80})
@click.option(
    "--api", metavar="URL", help="Use the agent's API at this URL. Default: the running agent's."
)
@click.option(
    "--token-file",
    type=UserPath(path_type=Path, dir_okay=False),
    help="Read the API's token from this file. Default: the running agent's.",
)
@click.option("--demo", is_flag=True, help="Bring local relays, people and an agent to look at.")
@click.option("--embedded", is_flag=True, help="Run the agent too, unless one is running.")
@click.option(
    "--read-only",
    is_flag=True,
    help="Look, and change nothing: with the agent's token that only reads.",
)
@click.option("--serve", is_flag=True, help="Show it in a browser, on this machine alone.")
@click.option("--port", type=click.IntRange(0, 65_535), default=4871, help="Of --serve; 0: any.")
@click.option(
    "--theme",
    default="tally-dark",
    show_default=True,
    callback=_known_theme,
    help="Colours to begin with.",
)
@click.option("--ascii", "ascii_only", is_flag=True, help="Draw with ASCII alone.")
@click.version_option(__version__, prog_name="nostr-tui")
def cli(**given: Any) -> None:
    """Show what the agent counts, live, in the terminal.

    NO_COLOR is honoured. Exit codes: 0 ok, 1 failure, 2 wrong usage, 3 no agent is running,
    143 ended by a signal, or the terminal is gone.
    """
    if given["demo"] and given["embedded"]:
        raise click.UsageError("--demo brings an agent: leave --embedded out")
    if given["demo"] and (given["api"] or given["token_file"]):
        raise click.UsageError("--demo brings an agent: leave --api and --token-file out")
    if not given["serve"] and not _is_seen():
        raise click.UsageError(
            "this needs a terminal: it reads stdin and draws on stderr (leave 2> out); or --serve "
            "and a browser"
        )
    if not given["serve"] and not _is_tab() and os.environ.get("TERM") == "dumb":
        raise click.UsageError("TERM=dumb: a terminal that can only add lines; try --serve")
    click.get_current_context().exit(asyncio.run(_run(given)))


def _is_seen() -> bool:
    """Whether there is a terminal to draw on and to type at, or a browser's tab in its place."""
    return _is_tab() or (sys.stdin.isatty() and sys.stderr.isatty())


def _is_tab() -> bool:
    """Whether a browser's tab shows this: it draws everything, whatever TERM its server has."""
    return "TEXTUAL_DRIVER" in os.environ


async def _run(given: dict[str, Any]) -> int:
    """The application, with the agent that it brings, to its end; the exit code."""
    async with AsyncExitStack() as stack:
        brought = None
        if given["demo"] or given["embedded"]:
            brought = await _brought(stack, demo=given["demo"], read_only=given["read_only"])
        if given["serve"]:
            return await _serve(given, brought)
        app = _app(given, brought, stack)
        Ending(asyncio.get_running_loop(), partial(app.end, TERMINATED)).watch()
        gc.freeze()  # modules never die: a full collection would look at them between two frames
        await app.run_async()
    return app.return_code or 0


def _locate(given: dict[str, Any]) -> Locate:
    from agent.api.address import reach

    return lambda: reach(given["api"], given["token_file"], read_only=given["read_only"])


async def _brought(stack: AsyncExitStack, *, demo: bool, read_only: bool) -> EmbeddedAgent | None:
    """Start an agent as a child; None where one is running already."""
    from tui import embedded_agent

    if not demo and embedded_agent.is_running():
        return None
    arguments = embedded_agent.DEMO if demo else embedded_agent.OWN
    process = embedded_agent.embedded_agent(arguments, read_only=read_only)
    return await stack.enter_async_context(process)


async def _own_agent(stack: AsyncExitStack, locate: Locate) -> StartedAgent:
    """Start an agent that ends with `stack`; or find by `locate` the one that runs by now.

    Raises NetworkError, with the agent's reason, as soon as an agent that was started ends.
    """
    brought = await _brought(stack, demo=False, read_only=False)
    if brought is None:
        return StartedAgent(locate)
    with suppress(TimeoutError):  # a slow one may still come: the caller waits for it
        await brought.place()
    return StartedAgent(brought.locate, brought.notes)


async def _serve(given: dict[str, Any], brought: EmbeddedAgent | None) -> int:
    """The application in browsers, each tab a process, until a signal ends it."""
    from tui.browser import serve

    where = (given["api"], given["token_file"])
    if brought is not None:
        where = await brought.place()
        for note in brought.notes():
            click.echo(note, err=True)
    else:
        _locate(given)()  # a missing agent is reported here, not in the browser
    until = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, until.set)
    click.echo("open this address on this machine; Ctrl-C ends", err=True)
    await serve(_command(given, *where), given["port"], click.echo, until)
    return 0


def _command(given: dict[str, Any], api: str | None, token_file: Path | None) -> list[str]:
    """What a tab runs."""
    words = [sys.executable, "-m", "tui", "--theme", given["theme"]]
    words += ["--api", api] if api else []
    words += ["--token-file", str(token_file)] if token_file else []
    words += ["--ascii"] if given["ascii_only"] else []
    return words + (["--read-only"] if given["read_only"] else [])


def _app(
    given: dict[str, Any], brought: EmbeddedAgent | None, stack: AsyncExitStack | None = None
) -> TallyApp:
    """The application; an agent that it starts itself ends with `stack`."""
    from tui.app import TallyApp
    from tui.glyphs import speaks_unicode

    is_free = brought is None and not (given["api"] or given["token_file"] or _is_tab())
    return TallyApp(
        _locate(given) if brought is None else brought.locate,
        notes=tuple if brought is None else brought.notes,
        brings="" if brought is None else "demo" if given["demo"] else "agent",
        read_only=given["read_only"],
        ascii_only=given["ascii_only"] or not (_is_tab() or speaks_unicode(os.environ)),
        no_color="NO_COLOR" in os.environ,
        settings=None if given["demo"] else tui_path(),
        own_agent=partial(_own_agent, stack, _locate(given))
        if is_free and stack is not None
        else None,
        theme=given["theme"],
    )


def main() -> None:
    """Run `nostr-tui` with the arguments of this process, and leave with its exit code."""
    run_to_exit(partial(run_command, cli, "nostr-tui"))
