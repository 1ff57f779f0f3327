"""`nostr-agent demo`: local relays, made-up people and an agent; the truth beside each number."""

from __future__ import annotations

import asyncio
import random
import signal
from typing import TYPE_CHECKING, Final

import click

from agent.service.process.supervision import end_with_stdin
from nostr_client.cli.entry import run_async, run_async_until_sigterm
from nostr_client.cli.output import console, json_option, print_json, say, until_eof_option
from nostr_client.codecs.display import plural
from nostr_client.network.waiting import task_group

if TYPE_CHECKING:
    from agent.demo.running import Demonstration
    from agent.demo.tour import TourResult

PACE_S: Final = 1.5
"""Between two newcomers, on average."""


@click.command()
@until_eof_option
@json_option
@click.pass_context
def demo(ctx: click.Context, until_eof: bool, as_json: bool) -> None:
    """Start local relays and an agent; count, sync, watch; show the truth beside each number.

    People, follows and reactions are made up from a seed. Everything is local, in a folder that is
    removed. Exit code 1 when a number does not hold the truth. With --until-eof it prints where the
    agent is, as JSON, and lets people join until stdin ends.
    """
    if until_eof:
        end_with_stdin()
        run_async(_stay())
        return
    found = run_async_until_sigterm(_tour(quiet=as_json))
    right = all(one.right for one in found)
    if as_json:
        print_json({"right": right, "numbers": found})
    else:
        say(_END if right else "NOT all right")
    ctx.exit(0 if right else 1)


_END: Final = """all right; what to look at next:
  nostr-tui --demo                        the same people and relays, live
  nostr-agent init && nostr-agent run     an agent of your own
  nostr-client count followers npub1…     a question of your own"""


async def _tour(*, quiet: bool) -> list[TourResult]:
    from agent.demo.running import demonstration
    from agent.demo.tour import tour

    out = console()
    out.quiet = quiet
    async with demonstration(log="error") as demo:
        out.print(f"{plural(len(demo.names), 'relay')}: {', '.join(demo.names)}\n", soft_wrap=True)
        return await tour(demo, out)


async def _stay() -> None:
    """Print where the agent is, then let people join until SIGTERM or Ctrl-C."""
    from agent.demo.running import demonstration

    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    async with demonstration(log="debug") as demo:
        await demo.remember()
        print_json(demo.place())
        async with task_group() as group:
            joining = group.create_task(_join_for_ever(demo))
            await stopping.wait()
            joining.cancel()


async def _join_for_ever(demo: Demonstration) -> None:
    pace = random.Random(0)
    while True:
        await demo.join()
        await asyncio.sleep(PACE_S * pace.uniform(0.5, 1.5))
