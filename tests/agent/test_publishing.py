"""Values of a stream as events: when there is a new one, when it is read, and what holds it up."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from agent import state
from agent.counters.publisher import PublishRecord
from nostr_client.codecs.event import EventTemplate
from nostr_client.codecs.filters import Filter
from nostr_client.codecs.keys import KeySigner
from tests.fleet_member import Member, member

if TYPE_CHECKING:
    from pathlib import Path

    from nostr_client.codecs.event import Event

LEAF, TOP = KeySigner(bytes(31) + b"\x51"), KeySigner(bytes(31) + b"\x52")


async def events(one: Member) -> list[Event]:
    return await one.store.query([Filter(kinds=[30078])])


async def test_a_new_event_only_where_values_changed(tmp_path: Path) -> None:
    path = tmp_path / "leaf.db"
    async with member(path, LEAF, "one") as leaf:
        link = await leaf.publish()
        assert (link.state, link.why) == ("waiting", "nothing has been counted yet")
        assert await events(leaf) == []
        await leaf.add("app.a", 1)
        assert (await leaf.publish()).state == "ok"
        (first,) = await events(leaf)
        await leaf.publish()
        assert await events(leaf) == [first]
        await leaf.add("app.a", 1)
        await leaf.add("app.a", -1)  # more messages, the same value
        await leaf.publish()
        assert await events(leaf) == [first]
    async with member(path, LEAF, "two") as leaf:
        await leaf.publish()
        assert await events(leaf) == [first]
        await leaf.add("app.a", 1)
        link = await leaf.publish()
        (second,) = await events(leaf)
        assert second.created_at > first.created_at
        assert (link.last_subject, link.last_value, link.subjects) == ("app.a", "2", 1)


async def test_an_event_far_ahead_holds_up_its_writer_and_its_readers(tmp_path: Path) -> None:
    async with member(":memory:", LEAF) as leaf, member(":memory:", TOP) as top:
        await leaf.add("app.a", 1)
        note = PublishRecord(created_at=int(time.time()) + 100_000)
        await leaf.store.database.write(lambda conn: state.note(conn, "publish:app", note))
        link = await leaf.publish()
        assert link.state == "failing"
        assert "ahead" in link.why
        ahead = EventTemplate(
            kind=30078, tags=(("d", "app"),), content="{}", created_at=int(time.time()) + 100_000
        )
        await top.store.save([LEAF.sign_now(ahead)])
        link = await top.source(leaf)
        assert (link.state, link.why) == ("failing", "its event is dated in the future")


async def test_a_source_reads_its_own_store_and_never_an_older_version(tmp_path: Path) -> None:
    async with member(":memory:", LEAF) as leaf, member(":memory:", TOP) as top:
        kept = []
        for n in range(3):
            await leaf.add("app.a", n + 1)
            await leaf.publish()
            kept.append(await leaf.publishing._kept(await leaf.publishing._note("app")))
        assert (await top.source(leaf)).state == "waiting"
        for one in (kept[1], kept[0], kept[2], kept[1]):
            assert one is not None
            await top.store.delete([Filter(kinds=[30078])])
            await top.store.save([one])
            link = await top.source(leaf)
            assert link.state == "ok"
        assert await top.value("app.a") == 6
        assert link.moved == 2
        assert link.last_value == "6"


async def test_what_cannot_be_read_is_told_and_passes(tmp_path: Path) -> None:
    async with member(":memory:", LEAF) as leaf, member(":memory:", TOP) as top:
        now = int(time.time()) - 100
        for n, content in enumerate(("", "{}", '{"keys":{},"parts":[]}', "\u0000")):
            broken = EventTemplate(
                kind=30078, tags=(("d", "app"),), content=content, created_at=now + n
            )
            await top.store.save([LEAF.sign_now(broken)])
            assert (await top.source(leaf)).state == "failing"
        await leaf.add("app.a", 5)
        await leaf.publish()
        (good,) = await events(leaf)
        kept = await leaf.publishing._kept(PublishRecord(id=good.id))
        assert kept is not None
        await top.store.save([kept])
        assert (await top.source(leaf)).state == "ok"
        assert await top.value("app.a") == 5
