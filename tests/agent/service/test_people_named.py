"""Profiles of the people whom watches show: who asks whom for them, and what the store takes."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import msgspec

from agent.api import schema
from nostr_client.codecs.event import EventTemplate
from nostr_client.codecs.filters import Filter
from nostr_client.codecs.nip19 import PublicKey
from nostr_client.watch.engine import NAMES
from tests.agent.service.kit import an_agent, eventually
from tests.agent.service.test_alerts_delivered import Receiver
from tests.faulty_relay import Behaviour, FaultyRelay, Peer
from tests.worlds import NOTE, reaction, signer

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from nostr_client.codecs.event import Event
    from tests.agent.service.kit import Running


def watching(*names: str, more: str = "") -> str:
    """Watches of one question, as TOML."""
    return "".join(
        f'[[watches]]\nname = "{name}"\nquery = "reactions"\ntarget = "{NOTE}"\n'
        f'interval = "1h"\n{more}\n'
        for name in names
    )


def profile(i: int, name: str = "", *, content: str | None = None, tags: Any = ()) -> Event:
    text = json.dumps({"name": name}) if content is None else content
    return signer(i).sign_now(EventTemplate(kind=0, content=text, tags=tags, created_at=9)).event


def likes(*people: int) -> list[Event]:
    """Reactions of the last minute."""
    now = int(time.time())
    return [reaction(i, at=now - i) for i in people]


def asked_about(relay: FaultyRelay) -> list[set[str]]:
    """The authors of each question for profiles."""
    asked = [one[2] for one in relay.received if one[0] == "REQ" and one[2].get("kinds") == [0]]
    return [set(one["authors"]) for one in asked]


def keys(*people: int) -> set[str]:
    return {signer(i).pubkey for i in people}


async def looked(agent: Running, name: str = "likes") -> None:
    """Ask the relays of a watch, and then for profiles."""
    work = agent.service.agent.worker
    await agent.service.agent.engine.asked(name)
    await work.settled({f"{NAMES} {name}"})


async def people(agent: Running, name: str = "likes") -> dict[str, schema.Person]:
    return {one.pubkey: one for one in (await agent.client.people(name)).people}


class Mute(Behaviour):
    """Answers no question for profiles."""

    async def on_req(self, peer: Peer, message: list[Any]) -> None:
        if message[2].get("kinds") != [0]:
            await super().on_req(peer, message)


async def test_a_watch_has_the_person_whom_it_is_about(tmp_path: Path) -> None:
    """Of a question about an event, its author as the stored event proves."""
    note, bo = (
        signer(2).sign_now(EventTemplate(kind=kind, content=text, created_at=9))
        for kind, text in ((1, "hi"), (0, '{"name":"Bo"}'))
    )
    npub = PublicKey(signer(1).pubkey).encode()
    questions = {
        "f": ("followers", npub),
        "r": ("reactions", note.event.id),
        "n": ("reactions", NOTE),
    }
    watches = "".join(
        f'[[watches]]\nname = "{name}"\nquery = "{query}"\ntarget = "{target}"\n'
        for name, (query, target) in questions.items()
    )
    async with (
        FaultyRelay(events=[profile(1, "Ann")]) as relay,
        an_agent(tmp_path, [relay.url], watches) as agent,
    ):
        await agent.service.agent.parts.store.save([bo, note])
        for name in [*questions, *questions]:  # a name comes after the number
            await looked(agent, name)
        found = [
            (await agent.until(lambda one: bool(one.person and one.person.name), name)).person
            for name in "fr"
        ]
        nobody = await agent.until(lambda one: one.updated_at is not None, "n")
    assert found == [
        schema.WatchPerson(pubkey=signer(1).pubkey, name="Ann"),
        schema.WatchPerson(pubkey=signer(2).pubkey, name="Bo"),
    ]
    assert nobody.person is None
    assert set().union(*asked_about(relay)) <= keys(1), "no relay learns of people"


async def test_people_have_names_with_the_key_behind_and_no_event_is_kept(tmp_path: Path) -> None:
    async with (
        FaultyRelay(events=[*likes(1, 2), profile(1, "Ann\u202e\u200b")]) as relay,
        an_agent(tmp_path, [relay.url], watching("likes")) as agent,
    ):
        await looked(agent)
        shown = await people(agent)
        kept = await agent.service.agent.parts.store.query([Filter()])
    ann, bo = (shown[signer(i).pubkey] for i in (1, 2))
    npub = PublicKey(ann.pubkey).encode()
    assert ann.person == f"Ann\\x202e\\x200b ({npub})"
    assert bo.name is None
    assert [one.kind for one in kept] == [0]
    assert asked_about(relay) == [keys(1, 2)]


async def test_a_person_without_a_profile_is_not_asked_about_in_the_next_turn(
    tmp_path: Path,
) -> None:
    async with (
        FaultyRelay(events=likes(1, 2)) as relay,
        an_agent(tmp_path, [relay.url], watching("likes")) as agent,
    ):
        await looked(agent)
        relay.events += [*likes(3), profile(3, "Cy")]
        await looked(agent)
        await looked(agent)
        shown = await people(agent)
    assert shown[signer(3).pubkey].name == "Cy"
    assert asked_about(relay) == [keys(1, 2), keys(3)]


async def test_a_relay_is_asked_only_about_people_whose_events_it_sent(tmp_path: Path) -> None:
    async with (
        FaultyRelay(events=[*likes(1, 2), profile(1, "Ann")]) as one,
        FaultyRelay(events=[*likes(2, 3), profile(3, "Cy")]) as two,
        FaultyRelay(events=[profile(2, "Bo")]) as three,
        an_agent(tmp_path, [one.url, two.url, three.url], watching("likes")) as agent,
    ):
        await looked(agent)
        await looked(agent)
        shown = await people(agent)
    assert set.union(*asked_about(one)) <= keys(1, 2)
    assert set.union(*asked_about(two)) <= keys(2, 3)
    assert asked_about(three) == []
    assert {shown[signer(i).pubkey].name for i in (1, 2, 3)} == {"Ann", None, "Cy"}


async def test_two_watches_share_what_was_found(tmp_path: Path) -> None:
    more = watching("likes", "again")
    async with (
        FaultyRelay(events=[*likes(1, 2), profile(1, "Ann")]) as relay,
        an_agent(tmp_path, [relay.url], more) as agent,
    ):
        for name in ("likes", "again"):
            await looked(agent, name)
        names = [(await people(agent, one))[signer(1).pubkey].name for one in ("likes", "again")]
    assert names == ["Ann", "Ann"]
    assert asked_about(relay) == [keys(1, 2)]


async def test_a_relay_that_sends_no_profiles_delays_neither_a_turn_nor_the_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stop that waited for it would take an hour; the number comes meanwhile."""
    monkeypatch.setattr("nostr_client.watch.naming.PROFILES_S", 3600.0)
    more = f'{watching("likes")}\n[service]\ndrain = "1h"\n'
    async with FaultyRelay(Mute(), events=likes(1)) as relay:
        async with an_agent(tmp_path, [relay.url], more) as agent:

            async def is_asked() -> bool:
                return asked_about(relay) == [keys(1)]

            await eventually(is_asked)
            relay.events += likes(2)
            await agent.service.agent.engine.asked("likes")
            watch = await agent.client.watch("likes")
            assert watch.figure is not None
            assert watch.figure.value == 2
            task = f"{NAMES} likes"
            assert agent.service.agent.worker.is_running(task)
        assert not agent.service.agent.worker.running


async def test_a_relay_that_failed_is_asked_again_before_a_day_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nostr_client.watch.naming.PROFILES_S", 0.2)
    monkeypatch.setattr("nostr_client.watch.naming.RETRY_S", 0.0)
    async with (
        FaultyRelay(Mute(), events=[*likes(1), profile(1, "Ann")]) as relay,
        an_agent(tmp_path, [relay.url], watching("likes")) as agent,
    ):
        await looked(agent)
        relay.behaviour = Behaviour()
        await looked(agent)
        shown = await people(agent)
    assert shown[signer(1).pubkey].name == "Ann"


async def test_a_profile_that_is_forged_or_too_long_is_not_taken(tmp_path: Path) -> None:
    """A name that is long or looks like a key is not shown as it is."""
    forged = msgspec.structs.replace(profile(1, "Ann"), sig=profile(2, "Bo").sig)
    long = profile(2, content=json.dumps({"name": "Bo", "about": "x" * 1_000_000}))
    tagged = profile(3, "Cy", tags=(("t", "x" * 1_000_000),))
    faked = profile(4, PublicKey(signer(9).pubkey).encode())
    stretched = profile(5, "E" * 60_000)
    async with (
        FaultyRelay(
            events=[*likes(1, 2, 3, 4, 5), forged, long, tagged, faked, stretched]
        ) as relay,
        an_agent(tmp_path, [relay.url], watching("likes")) as agent,
    ):
        await looked(agent)
        shown = await people(agent)
        kept = await agent.service.agent.parts.store.query([Filter(kinds=[0])])
    assert {one.pubkey for one in kept} == keys(4, 5)
    assert [shown[signer(i).pubkey].name for i in (1, 2, 3, 4)] == [None] * 4
    assert len(shown[signer(5).pubkey].name or "") <= 64


async def test_an_agent_that_reads_no_events_asks_for_no_profile(tmp_path: Path) -> None:
    async with (
        FaultyRelay(events=[profile(1, "Ann")]) as relay,
        an_agent(
            tmp_path, [relay.url], watching("likes"), sections={"relays": "read = false"}
        ) as agent,
    ):
        await relay.heard("REQ")  # it listens
        await relay.broadcast(reaction(1, at=int(time.time())))

        async def is_seen() -> bool:
            return bool(await people(agent))

        await eventually(is_seen)
        await looked(agent)
        assert (await people(agent))[signer(1).pubkey].name is None
    assert asked_about(relay) == []


async def alerted_person(folder: Path, serving: FaultyRelay) -> dict[str, Any]:
    """Return the one person in the first alert of an agent that watches a relay."""
    async with Receiver() as hook, serving as relay:
        alerts = f'alerts = [{{ when = ">= 1", webhook = "{hook.url}" }}]'
        async with an_agent(folder, [relay.url], watching("likes", more=alerts)):

            async def is_sent() -> bool:
                return bool(hook.taken)

            await eventually(is_sent)
    (person,) = json.loads(hook.taken[0].body)["people"]
    found: dict[str, Any] = person
    return found


async def test_an_alert_names_the_people_of_its_turn(tmp_path: Path) -> None:
    person = await alerted_person(tmp_path, FaultyRelay(events=[*likes(1), profile(1, "Ann")]))
    assert (person["pubkey"], person["name"]) == (signer(1).pubkey, "Ann")


async def test_an_alert_does_not_wait_for_a_relay_that_sends_no_profiles(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The relay would be waited for an hour, and the alert goes at once."""
    monkeypatch.setattr("nostr_client.watch.naming.PROFILES_S", 3600.0)
    monkeypatch.setattr("nostr_client.watch.naming.ALERT_S", 0.1)
    person = await alerted_person(tmp_path, FaultyRelay(Mute(), events=likes(1)))
    assert person["name"] is None


async def test_more_people_than_one_turn_asks_about_come_in_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nostr_client.watch.naming.MOST_ASKED", 2)
    monkeypatch.setattr("nostr_client.watch.naming.MORE_S", 0.0)
    profiles = [profile(i, f"P{i}") for i in range(1, 6)]
    async with (
        FaultyRelay(events=[*likes(1, 2, 3, 4, 5), *profiles]) as relay,
        an_agent(tmp_path, [relay.url], watching("likes")) as agent,
    ):
        await looked(agent)
        shown = await people(agent)
    assert {one.name for one in shown.values()} == {f"P{i}" for i in range(1, 6)}
    assert [len(one) for one in asked_about(relay)] == [2, 2, 1]
    assert asked_about(relay)[0] == keys(1, 2)  # the newest first


async def test_a_stored_profile_is_read_again_on_its_day(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    more = watching("likes")
    async with FaultyRelay(events=[*likes(1), profile(1, "Ann")]) as relay:
        async with an_agent(tmp_path, [relay.url], more) as agent:
            await looked(agent)
        newer = EventTemplate(kind=0, content='{"name":"Anna"}', created_at=99)
        relay.events.append(signer(1).sign_now(newer).event)
        for day, name in ((False, "Ann"), (True, "Anna")):
            monkeypatch.setattr("nostr_client.watch.naming._is_day_of", lambda *_, on=day: on)
            async with an_agent(tmp_path, [relay.url], more) as agent:
                await looked(agent)
                assert (await people(agent))[signer(1).pubkey].name == name
    assert len(asked_about(relay)) == 2
