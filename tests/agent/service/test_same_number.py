"""A watch gives one number, whoever asks it: the SDK, the command line, the agent."""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import msgspec
import pytest
from click.testing import CliRunner

from nostr_client.cli.app import cli
from nostr_client.client import NostrClient
from nostr_client.watch import Watch, WatchRepository
from nostr_client.watch.clock import SystemClock
from tests.agent.service.kit import an_agent, eventually
from tests.faults import COUNT_REFUSALS, RefusesCount
from tests.faulty_relay import FaultyRelay
from tests.worlds import TARGET, Sketches, follow

if TYPE_CHECKING:
    from pathlib import Path

    from nostr_client.count.figures import Figure
    from nostr_client.count.result import CountResult
    from tests.agent.service.kit import Running
    from tests.faulty_relay import Behaviour

Number = tuple[int | None, int | None, int | None, bool]

POLICIES = ("exclude", "flag", "off", None)
"""None: what whoever asks believes by default, which is `exclude` everywhere."""


def plain() -> Behaviour:
    """A relay that knows no COUNT."""
    return RefusesCount(COUNT_REFUSALS["notice, rnostr"])


class Relays:
    """Two honest relays that hold different people, one whose registers cannot be true."""

    def __init__(self) -> None:
        self.one = FaultyRelay(Sketches(), events=[follow(n) for n in range(300)])
        self.other = FaultyRelay(Sketches(), events=[follow(n) for n in range(200, 500)])
        self.liar = FaultyRelay(Sketches(hll="0c" * 256), events=[follow(1)])

    async def __aenter__(self) -> Relays:
        self._stack = AsyncExitStack()
        for one in (self.one, self.other, self.liar):
            await self._stack.enter_async_context(one)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    def watch(self, policy: str | None, *, excludes: bool, trusts: bool) -> Watch:
        urls = [self.one.url, self.other.url, self.liar.url]
        fields = {
            "name": "me",
            "query": "followers",
            "target": TARGET,
            "relays": urls,
            "policy": policy,
            "excluded": [self.other.url] if excludes else [],
            "trusted": [self.liar.url] if trusts else [],
            "live": False,
        }
        return msgspec.convert(fields, Watch)


def number(result: CountResult) -> Number:
    return result.value, result.low, result.high, result.exact


async def by_the_sdk(watch: Watch) -> Number:
    async with NostrClient(timeout=10) as client, client.watch(watch) as results:
        return number(await anext(results))


async def by_the_command_line(watch: Watch, folder: Path) -> tuple[Number, Number]:
    """What `run` says, and what `show` says then."""
    store = folder / "cli.db"
    async with await WatchRepository.open(store) as book:
        await book.add(watch)
    ran = json.loads(await called("watch", "run", "--once", "--json", "--store", str(store)))
    shown = json.loads(await called("watch", "show", "me", "--json", "--store", str(store)))
    return _of_json(ran["figure"]), _of_json(shown["counted"]["figure"])


async def called(*args: str) -> str:
    """What `nostr-client` writes to stdout; it ended well."""
    done = await asyncio.to_thread(CliRunner().invoke, cli, args)
    assert done.exit_code == 0, done.output
    return done.stdout


def _of_json(fields: dict[str, object]) -> Number:
    found = msgspec.convert(fields, _Number)
    return found.value, found.low, found.high, found.exact


class _Number(msgspec.Struct):
    value: int | None
    low: int | None
    high: int | None
    exact: bool


async def by_the_agent(watch: Watch, folder: Path) -> tuple[Number, Number]:
    """What the agent shows, and what it explains."""
    async with an_agent(folder) as agent:
        await agent.client.add_watch(watch)
        found = await agent.until(lambda w: w.figure is not None and w.answered == 3, "me")
        explained = await agent.client.explain("me")
    assert found.figure is not None
    assert explained.figure is not None
    return (
        (found.figure.value, found.figure.low, found.figure.high, found.figure.exact),
        (
            explained.figure.value,
            explained.figure.low,
            explained.figure.high,
            explained.figure.exact,
        ),
    )


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize(("excludes", "trusts"), [(False, False), (True, False), (False, True)])
async def test_a_watch_gives_the_same_number_in_sdk_cli_and_agent(
    tmp_path: Path, policy: str | None, excludes: bool, trusts: bool
) -> None:
    async with Relays() as relays:
        watch = relays.watch(policy, excludes=excludes, trusts=trusts)
        expected = await by_the_sdk(watch)
        ran, shown = await by_the_command_line(watch, tmp_path)
        told, explained = await by_the_agent(watch, tmp_path)
    assert {ran, shown, told, explained} == {expected}
    value, truth = expected[0], 300 if excludes else 500
    assert value is not None
    is_near = 0.8 * truth < value < 1.2 * truth
    assert is_near == (policy in ("exclude", None) and not trusts)  # else the liar is believed


class Later(SystemClock):
    """A clock that a test turns forward."""

    def __init__(self) -> None:
        self.passed = 0.0
        super().__init__(lambda: time.time() + self.passed)


async def pages(agent: Running, folder: Path) -> dict[str, Number]:
    """The number of a watch, wherever it is shown."""
    store = str(folder / "store.db")
    listed = json.loads(await called("watch", "list", "--json", "--store", store))[0]["newest"]
    shown = json.loads(await called("watch", "show", "me", "--json", "--store", store))
    digest = json.loads(await called("digest", "--format", "json", "--store", store))
    state = await agent.client.watch("me")
    explained = await agent.client.explain("me")
    told = await agent.client.digest(0)
    points = (await agent.client.history("me")).points
    assert state.figure is not None
    assert explained.figure is not None
    assert told.watches[0].now is not None
    return {
        "list": _of_json(listed),
        "show": _of_json(shown["counted"]["figure"]),
        "digest": _of_json(digest["watches"][0]["now"]),
        "API": _of_figure(state.figure),
        "relays": _of_figure(explained.figure),
        "API digest": _of_figure(told.watches[0].now.figure),
        "history": _of_figure(points[-1].figure),
    }


def _of_figure(figure: Figure) -> Number:
    return figure.value, figure.low, figure.high, figure.exact


async def test_all_pages_say_the_number_of_the_newest_round_however_long_ago_it_was(
    tmp_path: Path,
) -> None:
    clock = Later()
    events = [follow(n) for n in range(400)]
    async with FaultyRelay(plain(), events=events) as relay:
        watch = Watch(name="me", query="followers", target=TARGET, relays=(relay.url,), live=False)
        async with an_agent(tmp_path, clock=clock) as agent:
            await agent.client.add_watch(watch)
            await agent.until(lambda one: one.figure is not None, "me")
            first = await pages(agent, tmp_path)
            assert set(first.values()) == {(400, 400, 400, True)}
            clock.passed = 1_200.0  # before the next round
            assert await pages(agent, tmp_path) == first
        clock.passed = 1_500.0
        async with an_agent(tmp_path, clock=clock) as agent:
            await agent.until(lambda one: one.figure is not None, "me")
            assert await pages(agent, tmp_path) == first
        store = str(tmp_path / "store.db")
        shown = json.loads(await called("watch", "show", "me", "--json", "--store", store))
        assert _of_json(shown["counted"]["figure"]) == first["show"]


async def test_a_relay_that_is_excluded_changes_the_number_of_all_pages_at_once(
    tmp_path: Path,
) -> None:
    async with Relays() as relays, an_agent(tmp_path) as agent:
        await agent.client.add_watch(relays.watch(None, excludes=False, trusts=False))
        await agent.until(lambda one: one.answered == 3, "me")
        before = await pages(agent, tmp_path)
        assert len(set(before.values())) == 1
        await agent.client.change_watch("me", relays.watch(None, excludes=True, trusts=False))
        value = before["API"][0]

        async def is_other() -> bool:
            found = set((await pages(agent, tmp_path)).values())
            return len(found) == 1 and found != {before["API"]} and value is not None

        await eventually(is_other)
