"""`[[coverage]]`: relays compared again and again, with history, gauges, alerts and repairs."""

from __future__ import annotations

import json
import sys
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families

from agent import state
from agent.api import schema
from agent.config.load import draft
from agent.specs import CoverageSpec
from nostr_client.codecs.event import EventTemplate
from nostr_client.codecs.keys import KeySigner
from nostr_client.codecs.nip19 import PublicKey
from nostr_client.options import ReconnectPolicy
from nostr_client.store.file.database import Database
from nostr_client.sync.coverage import history
from nostr_client.sync.coverage_report import HeldKind, KnownKind, RelayCoverage
from tests.agent.service.kit import Running, an_agent, config_text, eventually
from tests.faulty_relay import FaultyRelay
from tests.negrelay import Invents, SpeaksNeg
from tests.running import SOON, nostr_client

if TYPE_CHECKING:
    from pathlib import Path

    from nostr_client.codecs.event import Event

OWN = KeySigner(bytes(31) + b"\x81")
NPUB = PublicKey(OWN.pubkey).encode()


def made(kind: int, n: int, *tags: tuple[str, ...]) -> Event:
    template = EventTemplate(kind=kind, content=f"{n}", tags=tags, created_at=1_700_000_000 + n)
    return OWN.sign_now(template).event


NOTES = [made(1, n) for n in range(20)]
PRIVATE = made(4, 50, ("p", OWN.pubkey))


def section(*lines: str, name: str = "home") -> str:
    head = ["[[coverage]]", f'name = "{name}"', f'author = "{NPUB}"', "kinds = [1, 4]"]
    return "\n".join([*head, *lines]) + "\n"


def appends(path: Path) -> str:
    """A command, as TOML, that appends what it gets to a file."""
    code = f"import sys; open({str(path)!r}, 'ab').write(sys.stdin.buffer.read())"
    return json.dumps([sys.executable, "-c", code])


async def compared(agent: Running, runs: int = 1) -> schema.CoverageState:
    """The state once so many runs are stored and none is under way."""

    async def done() -> bool:
        found = (await agent.client.coverage_history("home")).runs
        return len(found) >= runs and not (await agent.client.coverage("home")).running

    await eventually(done)
    return await agent.client.coverage("home")


async def again(agent: Running) -> schema.CoverageState:
    before = len((await agent.client.coverage_history("home")).runs)
    await agent.client.run_coverage("home")
    return await compared(agent, before + 1)


def alerts(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """A relay that is away is tried again at once."""
    defaults = ReconnectPolicy.__init__.__kwdefaults__
    monkeypatch.setitem(defaults, "first", float(*SOON.values()))


@pytest.mark.usefixtures("soon")
async def test_an_agent_compares_and_sends_nothing_unless_told(tmp_path: Path) -> None:
    one = FaultyRelay(SpeaksNeg(), events=[*NOTES, PRIVATE])
    other = FaultyRelay(SpeaksNeg(), events=NOTES[:15])
    away = "ws://127.0.0.1:9"
    async with one, other, an_agent(tmp_path, [one.url, other.url, away], section()) as agent:
        found = await compared(agent)
        assert found.run is not None
        assert (found.running, found.why, found.run.known) == (False, "", 21)
        assert {each.relay: each.share for each in found.run.relays} == {
            one.url: 1.0, other.url: 15 / 21, away: None
        }  # fmt: skip
        held = {each.relay: [kind.held for kind in each.kinds] for each in found.run.relays}
        assert held[other.url] == [15, 0]
        gauges = {
            (sample.name, sample.labels.get("relay")): sample.value
            for family in text_string_to_metric_families(await agent.client.metrics())
            for sample in family.samples
            if "coverage_" in sample.name
        }
        assert gauges["nostr_agent_coverage_share", other.url] == 15 / 21
        assert ("nostr_agent_coverage_share", away) not in gauges
        assert gauges["nostr_agent_coverage_relays_not_compared", None] == 1
        assert not any(relay.verbs()["EVENT"] for relay in (one, other))
        opened = msgspec.structs.replace(agent.service.agent.config.api, open_metrics=True)
        agent.service.agent.config = msgspec.structs.replace(agent.service.agent.config, api=opened)
        assert other.url not in await agent.client.metrics()
        api = ("--api", agent.service.api.url, "--token-file", f"{tmp_path}/token")
        asked = [("--store", f"{tmp_path}/store.db"), api]
        shown = [await nostr_client("coverage", *place, "--json") for place in asked]
        assert [each.code for each in shown] == [0, 0]
        assert json.loads(shown[0].out) == json.loads(shown[1].out)
        assert json.loads(shown[0].out)[0]["name"] == "home"
        text = await nostr_client("coverage", *asked[0])
        assert "71.4 %" in text.out
        assert "was not read to the end" in text.err


async def test_a_repair_where_the_configuration_says_so_is_compared_again(tmp_path: Path) -> None:
    one = FaultyRelay(SpeaksNeg(), events=[*NOTES, PRIVATE])
    other = FaultyRelay(SpeaksNeg(), events=NOTES[:15])
    config = section("repair = true")
    async with one, other, an_agent(tmp_path, [one.url, other.url], config) as agent:
        found = await compared(agent)
        assert found.run is not None
        assert found.run.repaired is not None
        assert [(each.relay, each.taken) for each in found.run.repaired] == [(other.url, 5)]
        assert {event.id for event in other.events} == {event.id for event in NOTES}
        assert [each.share for each in found.run.relays] == [1.0, 20 / 21]  # the message stays
        found = await again(agent)
        assert found.run is not None
        assert found.run.repaired == ()
        assert other.verbs()["EVENT"] == 5


@pytest.mark.usefixtures("soon")
async def test_an_alert_comes_once_and_not_by_what_is_unknown(tmp_path: Path) -> None:
    full, short = FaultyRelay(SpeaksNeg(), events=NOTES), FaultyRelay(SpeaksNeg())
    out = tmp_path / "alerts"
    config = section(f'alerts = [{{ when = "< 95 % on 1 relay", command = {appends(out)} }}]')
    async with full:
        async with short, an_agent(tmp_path, [full.url, short.url], config) as agent:
            await compared(agent)

            async def came() -> bool:
                return len(alerts(out)) == 1

            await eventually(came)
            (alert,) = alerts(out)
            assert (alert["coverage"], alert["when"]) == ("home", "< 95 % on 1 relay")
            assert alert["below"] == [{"relay": short.url, "share": 0.0}]
            await again(agent)
        async with an_agent(tmp_path, [full.url, short.url], config) as agent:
            found = await again(agent)  # the short one is away: the line stays crossed
            assert found.run is not None
            assert [each.share for each in found.run.relays] == [1.0, None]
            database = agent.service.agent.parts.store.database
            crossed = await database.read(lambda conn: state.crossed(conn, "coverage:home"))
            assert crossed == {"< 95 % on 1 relay"}
            assert len(alerts(out)) == 1


async def test_where_no_event_is_known_no_share_is_and_no_alert_comes(tmp_path: Path) -> None:
    out = tmp_path / "alerts"
    line = f'alerts = [{{ when = "< 95 %", command = {appends(out)} }}]'
    one, other = FaultyRelay(SpeaksNeg()), FaultyRelay(SpeaksNeg())
    async with one, other, an_agent(tmp_path, [one.url, other.url], section(line)) as agent:
        run = (await compared(agent)).run
        assert run is not None
        assert (run.known, run.complete) == (0, True)
        assert [each.share for each in run.relays] == [None, None]
        metrics = await agent.client.metrics()
        assert "nostr_agent_coverage_share{" not in metrics
        assert 'nostr_agent_coverage_relays_not_compared{coverage="home"} 0.0' in metrics
        text = await nostr_client("coverage", "--store", f"{tmp_path}/store.db")
        assert (text.code, "%" in text.out, "no event is known" in text.err) == (0, False, True)
        digest = await agent.client.digest()
        assert digest.coverages[0].lines == ["home: no event is known"]
        one.events += NOTES
        run = (await again(agent)).run
        assert run is not None
        assert [each.share for each in run.relays] == [1.0, 0.0]

        async def came() -> bool:
            return len(alerts(out)) == 1

        await eventually(came)


async def test_an_event_that_may_not_be_moved_fires_no_alert(tmp_path: Path) -> None:
    protected, out = made(1, 90, ("-",)), tmp_path / "alerts"
    line = f'alerts = [{{ when = "< 100 %", command = {appends(out)} }}]'
    one = FaultyRelay(SpeaksNeg(), events=[*NOTES, protected])
    other = FaultyRelay(SpeaksNeg(), events=NOTES)
    async with one, other, an_agent(tmp_path, [one.url, other.url], section(line)) as agent:
        run = (await compared(agent)).run
        assert run is not None
        assert (run.known, run.protected) == (21, 1)
        assert [each.share for each in run.relays] == [1.0, 1.0]
        text = await nostr_client("coverage", "--store", f"{tmp_path}/store.db")
        assert "1 event protected by the author (NIP-70): not moved" in text.err
        other.events.pop()
        await again(agent)

        async def came() -> bool:
            return len(alerts(out)) == 1

        await eventually(came)
        assert alerts(out)[0]["below"] == [{"relay": other.url, "share": 19 / 20}]


@pytest.mark.usefixtures("soon")
async def test_a_relay_that_is_away_looks_the_same_live_and_stored(tmp_path: Path) -> None:
    """One form for what is not known: `?`, never `0?`."""
    away = "ws://127.0.0.1:9"
    async with FaultyRelay(SpeaksNeg(), events=NOTES) as one:
        async with an_agent(tmp_path, [one.url, away], section()) as agent:
            await compared(agent)
        stored = await nostr_client("coverage", "--store", f"{tmp_path}/store.db")
        args = ("-k", "1", "-k", "4", "-r", one.url, "-r", away)
        live = await nostr_client(
            "coverage", NPUB, *args, "--store", f"{tmp_path}/store.db", **SOON
        )

    def rows(text: str) -> list[list[str]]:
        return [line.split() for line in text.splitlines() if line.startswith("ws")]

    assert rows(stored.out) == rows(live.out) == [[one.url, "20", "100.0", "%"], [away, "?", "?"]]


async def test_a_stored_share_that_is_not_known_has_a_reason(tmp_path: Path) -> None:
    """A relay that was compared, of which it is not known what it should have; and one away."""
    held = (HeldKind(kind=1, held=0, whole=True),)
    run = schema.CoverageRun(
        at=7.0,
        author=OWN.pubkey,
        kinds=(KnownKind(kind=1, known=3),),
        relays=(
            RelayCoverage(relay="wss://asked.example", share=None, kinds=held),
            RelayCoverage(relay="wss://away.example", share=None, kinds=(), why="timed out"),
        ),
    )
    async with await Database.open(tmp_path / "x.db", migrations=[history.COVERAGES]) as database:
        await database.write(partial(history.add, name="home", run=run, question=""))
    done = await nostr_client("coverage", "--store", f"{tmp_path}/x.db")
    assert done.code == 0
    assert "asked.example: what it should have is not known" in done.err
    assert "away.example was not read to the end: timed out" in done.err
    assert done.err.count("not known") == 1


async def test_ids_that_one_relay_makes_up_fire_no_alert_about_another(tmp_path: Path) -> None:
    fakes = [msgspec.structs.replace(NOTES[0], id=f"{n:064x}") for n in range(300)]
    full, liar = FaultyRelay(SpeaksNeg(), events=NOTES), FaultyRelay(Invents(fakes))
    out = tmp_path / "alerts"
    line = f'alerts = [{{ when = "< 95 % on 2 relays", command = {appends(out)} }}]'
    async with full, liar, an_agent(tmp_path, [full.url, liar.url], section(line)) as agent:
        found = await compared(agent)
        assert found.run is not None
        assert found.run.known == 20
        assert [(one.share, one.unconfirmed) for one in found.run.relays] == [(1.0, 0), (0.0, 300)]
        text = await nostr_client("coverage", "--store", f"{tmp_path}/store.db")
        assert "names 300 events that nothing confirms: not counted" in text.err
    assert alerts(out) == []


async def test_a_coverage_that_was_removed_is_gone_and_its_history_bounded(tmp_path: Path) -> None:
    async with FaultyRelay(SpeaksNeg(), events=NOTES) as relay:
        async with an_agent(tmp_path, [relay.url], section()) as agent:
            found = await compared(agent)
            assert found.run is not None
            run, database = found.run, agent.service.agent.parts.store.database
            for n in range(history.MOST_RUNS + 5):
                later = schema.CoverageRun(at=run.at + n, author="", kinds=(), relays=())
                await database.write(partial(history.add, name="x", run=later, question=""))
            runs = await database.read(lambda conn: history.runs(conn, "x"))
            assert [len(runs), runs[-1].at] == [history.MOST_RUNS, run.at + history.MOST_RUNS + 4]
        async with an_agent(tmp_path, [relay.url]) as agent:
            assert (await agent.client.coverages()).coverages == ()


OTHER = KeySigner(bytes(31) + b"\x82")
OTHERS = PublicKey(OTHER.pubkey).encode()


async def test_a_run_is_of_what_its_coverage_compares(tmp_path: Path) -> None:
    async with FaultyRelay(SpeaksNeg(), events=NOTES) as relay, an_agent(tmp_path) as agent:
        runner, relays = agent.service.agent.coverages, agent.service.agent.config.relays
        spec = CoverageSpec(name="home", author=NPUB, relays=(relay.url,), kinds=(1, 4))
        runner.configure([spec], relays)
        assert await runner.run("home")
        run = runner.states["home"].run
        assert run is not None
        same = {"interval": "2d", "kinds": (4, 1), "author": OWN.pubkey, "max_events": 7}
        assert runner.configure([msgspec.structs.replace(spec, **same)], relays) == []
        assert runner.states["home"].run == run
        others = (
            {"author": OTHERS},
            {"kinds": (1,)},
            {"since": "1w"},
            {"relays": (relay.url, "wss://two.example")},
        )
        for other in others:
            changed = msgspec.structs.replace(spec, **other)
            assert runner.configure([changed], relays) == ["coverage home"]
            assert runner.states["home"] == schema.CoverageState(spec=changed)
            assert await runner.last() == {}
            assert runner.states["home"].run is None
            runner.configure([spec], relays)
            assert await runner.last() == {"coverage home": run.at}
            assert runner.states["home"].run == run


async def test_another_author_is_compared_at_once_after_a_reload_or_a_restart(
    tmp_path: Path,
) -> None:
    async with FaultyRelay(SpeaksNeg(), events=NOTES) as relay:
        others = section().replace(NPUB, OTHERS)

        async def of(agent: Running, pubkey: str) -> bool:
            run = (await agent.client.coverage("home")).run
            return run is not None and run.author == pubkey

        async with an_agent(tmp_path, [relay.url], section()) as agent:
            await eventually(lambda: of(agent, OWN.pubkey))
            text = config_text(tmp_path, [relay.url], others, {})
            await agent.service.reload(lambda: draft(text, "config"))
            await eventually(lambda: of(agent, OTHER.pubkey))
        third = KeySigner(bytes(31) + b"\x83")
        changed = section().replace(NPUB, PublicKey(third.pubkey).encode())
        async with an_agent(tmp_path, [relay.url], changed) as agent:
            await eventually(lambda: of(agent, third.pubkey))


@pytest.mark.parametrize("left", [(), ({"author": OTHERS},)])
async def test_a_run_is_discarded_if_its_coverage_goes_while_it_repairs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, left: tuple[dict[str, str], ...]
) -> None:
    one, other = FaultyRelay(SpeaksNeg(), events=NOTES), FaultyRelay(SpeaksNeg())
    async with one, other, an_agent(tmp_path) as agent:
        runner, relays = agent.service.agent.coverages, agent.service.agent.config.relays
        urls = (one.url, other.url)
        spec = CoverageSpec(name="home", author=NPUB, relays=urls, kinds=(1,), repair=True)
        runner.configure([spec], relays)
        assert runner.relays is not None
        carry_out = runner.relays.carry_out

        async def meanwhile(*given: Any) -> Any:
            report = await carry_out(*given)
            runner.configure([msgspec.structs.replace(spec, **new) for new in left], relays)
            return report

        monkeypatch.setattr(runner.relays, "carry_out", meanwhile)
        assert await runner.run("home")
        assert len(other.events) == len(NOTES)
        assert [state.run for state in runner.states.values()] == [None] * len(left)
        database = agent.service.agent.parts.store.database
        assert await database.read(history.last) == {}
