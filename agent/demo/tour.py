"""Runs the tour of the demonstration: counts, a sync and an agent, each compared with the truth."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import msgspec

from agent.demo.running import EVERYTHING
from nostr_client import count
from nostr_client.cli.count.command import show, size
from nostr_client.cli.sync.commands import table as sync_table
from nostr_client.client import NostrClient
from nostr_client.codecs import kinds
from nostr_client.codecs.display import plural
from nostr_client.codecs.filters import Filter
from nostr_client.store.sqlite import SqliteStore

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import Console

    from agent.demo.running import Demonstration
    from agent.demo.world import Post
    from nostr_client.count import CountResult
    from nostr_client.count.figures import Figure

NEWCOMERS: Final = 20
PACE_S: Final = 0.1
"""Between two newcomers."""

TIMEOUT_S: Final = 10.0
"""Of one count or sync."""

PATIENCE_S: Final = 60.0
"""Until the agent must have caught up."""


class TourResult(msgspec.Struct, frozen=True, kw_only=True):
    """One number of the tour and the truth; `value` is None if unknown."""

    name: str
    value: int | None
    low: int | None
    high: int | None
    exact: bool
    truth: int
    right: bool


def holds(figure: Figure | None, truth: int) -> bool:
    """Whether a figure is true: the truth lies from low to high, and is equal where exact."""
    if figure is None or (figure.exact and figure.value != truth):
        return False
    return figure.low <= truth and (figure.high is None or truth <= figure.high)


def check(name: str, figure: Figure | None, truth: int) -> TourResult:
    """Compare a figure with the truth."""
    if figure is None:
        value, low, high, exact = None, None, None, False
    else:
        value, low, high, exact = figure.value, figure.low, figure.high, figure.exact
    right = holds(figure, truth)
    return TourResult(
        name=name, value=value, low=low, high=high, exact=exact, truth=truth, right=right
    )


def check_exact(name: str, value: int, truth: int) -> TourResult:
    """Compare an exact number with the truth."""
    right = value == truth
    return TourResult(
        name=name, value=value, low=value, high=value, exact=True, truth=truth, right=right
    )


async def tour(demo: Demonstration, out: Console) -> list[TourResult]:
    """Count, sync, then let people join while the agent watches; print each with the truth."""
    return [*await _counts(demo, out), *await _sync(demo, out), *await _agent(demo, out)]


async def _counts(demo: Demonstration, out: Console) -> list[TourResult]:
    found = []
    async with NostrClient(demo.names, timeout=TIMEOUT_S) as client:
        for query in (
            count.followers(demo.world.author),
            count.reactions(demo.world.thread.event.id),
        ):
            result = await client.count(query)
            show(result, out, demo.names)
            both = _checked_count(result, demo.world.matching(query.filters[0]))
            truth = f"{plural(both[0].truth, 'distinct author')}, {plural(both[1].truth, 'event')}"
            verdict(out, truth, both, "inside what the count says", "NOT what the count says")
            found += both
    return found


def _checked_count(result: CountResult, posts: Iterable[Post]) -> list[TourResult]:
    authors = [post.event.event.pubkey for post in posts]
    name = result.query.name
    return [
        check(f"{name}: distinct authors", result.authors, len(set(authors))),
        check(f"{name}: events", result.events, len(authors)),
    ]


async def _sync(demo: Demonstration, out: Console) -> list[TourResult]:
    """Sync the reactions into a store, then once more."""
    reactions = Filter(kinds=[kinds.REACTION], tags={"#e": [demo.world.thread.event.id]})
    async with await SqliteStore.open(":memory:") as store:
        async with NostrClient(demo.names, store=store, timeout=TIMEOUT_S) as client:
            first = await client.sync(reactions, direction="down")
            again = await client.sync(reactions, direction="down")
        stored = await store.count([reactions])
    out.print(sync_table(first, demo.names))
    what = f"{plural(stored, 'reaction')} in the store, each verified"
    kept = f"synced: {what}, {size(first.bytes_received)}"
    more = f"once more: {again.downloaded} new, {size(again.bytes_received)}"
    out.print(f"{kept}; {more}", soft_wrap=True)
    found = [
        check_exact("synced: events", stored, len(demo.world.matching(reactions))),
        check_exact("synced once more: events", again.downloaded, 0),
    ]
    verdict(out, plural(found[0].truth, "event"), found, "all are here", "NOT what is here")
    return found


async def _agent(demo: Demonstration, out: Console) -> list[TourResult]:
    """People join; wait, within a limit, until the agent's numbers hold the truth."""
    out.print(f"an agent watches the same relays at {demo.service.api.url}: people join", end="")
    for _ in range(NEWCOMERS):
        await demo.join()
        await asyncio.sleep(PACE_S)
    out.print(f", {NEWCOMERS} of them")
    await demo.client.run_sync(EVERYTHING)
    found = await _agent_numbers(demo)
    deadline = asyncio.get_running_loop().time() + PATIENCE_S
    while not all(one.right for one in found) and asyncio.get_running_loop().time() < deadline:
        await asyncio.sleep(0.25)
        found = await _agent_numbers(demo)
    for one in found:
        out.print(_line(one), soft_wrap=True)
    truth = plural(len(demo.world.posts), "event")
    verdict(out, truth, found, "all that the agent says holds", "NOT what the agent says")
    return found


async def _agent_numbers(demo: Demonstration) -> list[TourResult]:
    figures = {one.spec.name: one.figure for one in (await demo.client.watches()).watches}
    found = []
    for spec in demo.watches:
        posts = demo.world.matching(spec.question.filters[0])
        authors = {post.event.event.pubkey for post in posts}
        found.append(check(f"watch {spec.name}", figures.get(spec.name), len(authors)))
    stored = (await demo.client.store()).events
    found.append(check_exact("stored: events", stored, len(demo.world.posts)))
    return [*found, *await _counters(demo)]


async def _counters(demo: Demonstration) -> list[TourResult]:
    """The votes, and the agent's counter of contact lists that it stored."""
    votes = (await demo.client.counters("VOTES")).counters
    ingested = (await demo.client.counters("INGEST", f"events.{kinds.CONTACTS}")).counters
    contacts = len(demo.world.matching(Filter(kinds=[kinds.CONTACTS])))
    counted = sum(int(one.value) for one in ingested)
    return [
        check_exact("counter votes.>", sum(int(one.value) for one in votes), NEWCOMERS),
        check_exact(f"counter events.{kinds.CONTACTS}", counted, contacts),
    ]


def _line(one: TourResult) -> str:
    if one.value is None:
        return f"{one.name}: not counted; in truth {one.truth:,}"
    high = "" if one.high is None else f"{one.high:,}"
    bounds = "exact" if one.exact else f"{one.low:,}–{high}"
    return f"{one.name}: {one.value:,} ({bounds}); in truth {one.truth:,}"


def verdict(out: Console, truth: str, found: Iterable[TourResult], good: str, bad: str) -> None:
    """Print the truth and whether every number holds it."""
    right = all(one.right for one in found)
    style = "green" if right else "red"
    out.print(f"truth: {truth}: {good if right else bad}\n", style=style, soft_wrap=True)
