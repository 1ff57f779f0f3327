"""Defects of relays, planted one at a time into `tests.right_relay.Right`.

Each has the test of `nostr-client relay check` that must find it, and a word of its sentence.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from nostr_client import hll
from nostr_client.codecs.event import EventTemplate
from nostr_client.store.rules import expiration
from tests.right_relay import INFO, NOW, SIGNERS, Right, world

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nostr_client.codecs.event import Event
    from nostr_client.codecs.filters import Filter
    from nostr_client.codecs.keys import KeySigner
    from tests.faulty_relay import Peer


class Defect(NamedTuple):
    """What is wrong: a behaviour, or events, a document or a date beside a right one."""

    test: str
    word: str
    behaviour: type[Right] = Right
    events: Sequence[Event] = ()
    info: Any = INFO
    date: str | None = None
    writes: bool = False


DEFECTS: dict[str, Defect] = {}


def planted(test: str, word: str, *, writes: bool = False) -> Any:
    """Plant a behaviour; its docstring says what is wrong."""

    def plant(behaviour: type[Right]) -> type[Right]:
        name = (behaviour.__doc__ or "").rstrip(".")
        DEFECTS[name] = Defect(test, word, behaviour, writes=writes)
        return behaviour

    return plant


def made(kind: int, at: int, *tags: tuple[str, ...], by: KeySigner = SIGNERS[3]) -> Event:
    """A signed event."""
    return by.sign_now(EventTemplate(kind=kind, tags=tags, created_at=at)).event


# What a document, a clock or the store says.

DEFECTS |= {
    "the document is no JSON": Defect("document.form", "JSON", info=b'{"name":'),
    "the document has fields of other types": Defect(
        "document.form", "supported_nips", info=INFO | {"supported_nips": "all"}
    ),
    "the document says another page limit": Defect(
        "document.limits", "500", info=INFO | {"limitation": {"max_limit": 500}}
    ),
    "the document wants an AUTH that nobody needs": Defect(
        "document.auth", "auth_required", info=INFO | {"limitation": {"auth_required": True}}
    ),
    "the clock is an hour ahead": Defect("clock", "ahead", date="Sun, 29 Nov 2099 12:00:00 GMT"),
    "it keeps what was deleted": Defect(
        "read.deleted",
        "deleted",
        events=[(_note := made(1, NOW - 900)), made(5, NOW - 800, ("e", _note.id))],
    ),
    "it keeps two versions": Defect(
        "read.versions", "versions", events=[made(0, NOW - 900), made(0, NOW - 700)]
    ),
}


# REQ.


@planted("read.answer", "does not answer")
class NoEose(Right):
    """No EOSE."""

    async def send_page(
        self, peer: Peer, sub_id: str, page: Sequence[Event], *, whole: bool
    ) -> None:
        for event in page:
            await peer.send_event(sub_id, event)


@planted("read.answer", "after the EOSE")
class EarlyEose(Right):
    """EOSE before the events."""

    async def send_page(
        self, peer: Peer, sub_id: str, page: Sequence[Event], *, whole: bool
    ) -> None:
        await peer.send("EOSE", sub_id)
        for event in page:
            await peer.send_event(sub_id, event)


@planted("read.frames", "no NIP")
class Chats(Right):
    """Frames of its own."""

    async def send_page(
        self, peer: Peer, sub_id: str, page: Sequence[Event], *, whole: bool
    ) -> None:
        await peer.send("STATUS", sub_id, "busy")
        await super().send_page(peer, sub_id, page, whole=whole)


@planted("read.filter", "do not match")
class IgnoresKinds(Right):
    """Kinds of a filter are ignored."""

    def matches(self, filter: Filter, event: Event) -> bool:
        return filter.replace(kinds=None).matches(event)


@planted("read.filter", "do not come")
class ForgetsTags(Right):
    """Tags of reactions alone are indexed."""

    def matches(self, filter: Filter, event: Event) -> bool:
        return super().matches(filter, event) and not (filter.tags and event.kind == 1)


@planted("read.filter", "do not match")
class IgnoresTags(Right):
    """Tags of a filter are ignored."""

    def matches(self, filter: Filter, event: Event) -> bool:
        return filter.replace(tags={}).matches(event)


@planted("read.range", "until")
class UntilExclusive(Right):
    """`until` excludes its second."""

    def matches(self, filter: Filter, event: Event) -> bool:
        return super().matches(filter, event) and event.created_at != filter.until


@planted("read.range", "since")
class SinceExclusive(Right):
    """`since` excludes its second."""

    def matches(self, filter: Filter, event: Event) -> bool:
        return super().matches(filter, event) and event.created_at != filter.since


@planted("read.filter", "do not match")
class IgnoresSince(Right):
    """`since` is ignored."""

    def matches(self, filter: Filter, event: Event) -> bool:
        return filter.replace(since=None).matches(event)


@planted("read.limit", "sends 120")
class IgnoresLimit(Right):
    """`limit` is ignored."""

    def page(self, matching: Sequence[Event], filters: Sequence[Filter]) -> list[Event]:
        return list(matching[: self.cap])


@planted("read.limit", "holds more")
class LimitsBeforeHiding(Right):
    """`limit` is applied before events are hidden."""

    def page(self, matching: Sequence[Event], filters: Sequence[Filter]) -> list[Event]:
        return super().page(matching, filters)[1:]


@planted("read.order", "oldest")
class OldestFirst(Right):
    """The oldest events come, oldest first."""

    def matching(self, peer: Peer, filters: Sequence[Filter]) -> list[Event]:
        return super().matching(peer, filters)[::-1]


@planted("read.order", "newest")
class OldestPage(Right):
    """The oldest events come, newest first."""

    def page(self, matching: Sequence[Event], filters: Sequence[Filter]) -> list[Event]:
        return super().page(list(matching)[::-1], filters)[::-1]


@planted("read.order", "no order")
class Shuffled(Right):
    """Events come in no order."""

    def page(self, matching: Sequence[Event], filters: Sequence[Filter]) -> list[Event]:
        page = super().page(matching, filters)
        by_id = sorted(page, key=lambda one: one.id)
        return by_id[::-1] if by_id == page else by_id  # few events may be in order by chance


@planted("read.repeats", "twice")
class Repeats(Right):
    """An event comes twice."""

    async def send_page(
        self, peer: Peer, sub_id: str, page: Sequence[Event], *, whole: bool
    ) -> None:
        await super().send_page(peer, sub_id, [*page[:1], *page[:-1]], whole=whole)


@planted("read.signatures", "does not hold")
class Forges(Right):
    """A content is changed."""

    async def send_page(
        self, peer: Peer, sub_id: str, page: Sequence[Event], *, whole: bool
    ) -> None:
        other = [msgspec.structs.replace(one, content="no") for one in page[:1]]
        await super().send_page(peer, sub_id, [*other, *page[1:]], whole=whole)


@planted("read.ids", "by their ids")
class NoIds(Right):
    """Ids are not indexed."""

    def matches(self, filter: Filter, event: Event) -> bool:
        return filter.ids is None and super().matches(filter, event)


@planted("read.union", "both")
class FirstFilter(Right):
    """The first filter of a REQ alone."""

    async def on_req(self, peer: Peer, message: list[Any]) -> None:
        await super().on_req(peer, message[:3])


@planted("read.hint", "holds more")
class FalseFinish(Right):
    """`finish` is said of every page."""

    async def send_page(
        self, peer: Peer, sub_id: str, page: Sequence[Event], *, whole: bool
    ) -> None:
        await super().send_page(peer, sub_id, page, whole=True)


@planted("read.id", "64 characters")
class ShortIds(Right):
    """Long subscription ids are refused."""

    async def on_req(self, peer: Peer, message: list[Any]) -> None:
        if len(message[1]) > 32:
            await peer.send("NOTICE", "the subscription id is too long")
        else:
            await super().on_req(peer, message)


@planted("read.refusal", "NOTICE")
class NoticesRefusals(Right):
    """A filter that is none gets a NOTICE."""

    async def refuse(self, peer: Peer, message: list[Any], reason: str) -> None:
        await peer.send("NOTICE", "invalid client message")


@planted("read.refusal", "prefix")
class WordlessRefusals(Right):
    """A refusal has no prefix."""

    async def refuse(self, peer: Peer, message: list[Any], reason: str) -> None:
        await peer.send("CLOSED", message[1], "no such thing")


@planted("read.expired", "expired")
class ServesExpired(Right):
    """Expired events are served."""

    def visible(self, peer: Peer) -> Sequence[Event]:
        assert any(expiration(one) for one in peer.relay.events)
        return peer.relay.events


DEFECTS["Expired events are served"] = DEFECTS["Expired events are served"]._replace(
    events=[made(1, NOW - 950, ("expiration", str(NOW - 800)))]
)


# COUNT.


@planted("count.answer", "NOTICE")
class NoCount(Right):
    """COUNT is refused by a NOTICE."""

    async def on_count(self, peer: Peer, message: list[Any]) -> None:
        await peer.send("NOTICE", "could not parse command")


@planted("count.answer", "does not answer")
class SilentCount(Right):
    """COUNT gets no answer."""

    async def on_count(self, peer: Peer, message: list[Any]) -> None:
        return


@planted("document.nips", "45")
class ListsCount(Right):
    """COUNT is listed and refused."""

    async def on_count(self, peer: Peer, message: list[Any]) -> None:
        await peer.send("CLOSED", message[1], "unsupported: no COUNT")


@planted("count.exact", "serves")
class CountsMore(Right):
    """Counts are too high."""

    def count_body(self, peer: Peer, filters: Sequence[Filter]) -> dict[str, Any]:
        body = super().count_body(peer, filters)
        return body | {"count": body["count"] + (body["count"] > 2)}


@planted("count.exact", "approximate")
class CountsByRegisters(Right):
    """The estimate of the registers is the count."""

    def count_body(self, peer: Peer, filters: Sequence[Filter]) -> dict[str, Any]:
        body = super().count_body(peer, filters)
        if "hll" in body:
            body["count"] = round(hll.estimate(bytes.fromhex(body["hll"])))
        return body


@planted("count.zero", "NOTICE")
class NoticeThenZero(Right):
    """A COUNT of a tag is refused by a NOTICE, and counted as zero."""

    async def on_count(self, peer: Peer, message: list[Any]) -> None:
        if any(name.startswith("#") for name in message[2]):
            await peer.send("NOTICE", "auth-required: cannot count")
            await peer.send("COUNT", message[1], {"count": 0})
        else:
            await super().on_count(peer, message)


@planted("count.zero", "0")
class ZeroForNone(Right):
    """A filter that is none is counted as zero."""

    async def on_count(self, peer: Peer, message: list[Any]) -> None:
        if "no key" in message[2].get("authors", ()):
            await peer.send("COUNT", message[1], {"count": 0})
        else:
            await super().on_count(peer, message)


@planted("count.limit", "with `limit`")
class CountsWithLimit(Right):
    """`limit` breaks a count."""

    def count_body(self, peer: Peer, filters: Sequence[Filter]) -> dict[str, Any]:
        body = super().count_body(peer, filters)
        return body | ({"count": body["count"] - 1} if filters[0].limit else {})


@planted("count.union", "first")
class CountsFirst(Right):
    """The first filter of a COUNT alone."""

    def count_body(self, peer: Peer, filters: Sequence[Filter]) -> dict[str, Any]:
        return super().count_body(peer, filters[:1])


@planted("count.union", "last")
class CountsLast(Right):
    """The last filter of a COUNT alone."""

    def count_body(self, peer: Peer, filters: Sequence[Filter]) -> dict[str, Any]:
        return super().count_body(peer, filters[-1:])


@planted("count.union", "twice")
class CountsTwice(Right):
    """What both filters of a COUNT match counts twice."""

    def count_body(self, peer: Peer, filters: Sequence[Filter]) -> dict[str, Any]:
        each = [super(CountsTwice, self).count_body(peer, [one]) for one in filters]
        return each[0] | {"count": sum(one["count"] for one in each)}


@planted("count.registers", "offset")
class WrongOffset(Right):
    """Registers have another offset."""

    def registers(self, events: Sequence[Event], offset: int) -> bytes:
        return super().registers(events, 8 + (offset - 7) % 16)


@planted("count.registers", "event ids")
class SketchesIds(Right):
    """Registers are of event ids."""

    def registers(self, events: Sequence[Event], offset: int) -> bytes:
        return hll.from_pubkeys([one.id for one in events], offset)


@planted("count.registers", "all zero")
class EmptyRegisters(Right):
    """Registers are all zero."""

    def registers(self, events: Sequence[Event], offset: int) -> bytes:
        return hll.EMPTY


@planted("count.registers", "too high")
class InventsPeople(Right):
    """Registers have people whom nobody sees."""

    def registers(self, events: Sequence[Event], offset: int) -> bytes:
        strangers = random.Random(5).randbytes(32 * 40)
        return hll.merge(super().registers(events, offset), hll.from_raw(strangers, offset))


@planted("count.registers", "length")
class ShortRegisters(Right):
    """Registers are too few."""

    def registers(self, events: Sequence[Event], offset: int) -> bytes:
        return super().registers(events, offset)[:-1]


# NIP-77.


@planted("neg.refusal", "NEG-ERROR")
class NegError(Right):
    """NEG-ERROR for NEG-ERR."""

    async def neg_error(self, peer: Peer, sub_id: str, reason: str, *tail: Any) -> None:
        await peer.send("NEG-ERROR", sub_id, reason)


@planted("neg.refusal", "no NEG-ERR")
class NegNotice(Right):
    """A NOTICE for NEG-ERR."""

    async def neg_error(self, peer: Peer, sub_id: str, reason: str, *tail: Any) -> None:
        await peer.send("NOTICE", f"negentropy error: {reason}")


@planted("neg.snapshot", "newest")
class Snapshot(Right):
    """A session compares the newest events alone."""

    async def neg_items(self, peer: Peer, filters: list[Filter]) -> list[Event]:
        return (await super().neg_items(peer, filters))[:100]


@planted("neg.names", "leaves out")
class NegLeavesOut(Right):
    """A session leaves events out."""

    async def neg_items(self, peer: Peer, filters: list[Filter]) -> list[Event]:
        return (await super().neg_items(peer, filters))[::2]


@planted("neg.names", "does not serve")
class NegNamesMore(Right):
    """A session names what is never served."""

    async def neg_items(self, peer: Peer, filters: list[Filter]) -> list[Event]:
        found = await super().neg_items(peer, filters)
        return [*found, msgspec.structs.replace(found[0], id="cd" * 32)] if found else []


@planted("neg.version", "61")
class NegVersion(Right):
    """An unknown version is refused."""

    async def on_neg_open(self, peer: Peer, message: list[Any]) -> None:
        if message[3].startswith("62"):
            await self.neg_error(peer, message[1], "invalid: version")
        else:
            await super().on_neg_open(peer, message)


DEFECTS["An unknown version is refused"] = DEFECTS["An unknown version is refused"]._replace(
    word="names none"
)


@planted("neg.frame", "drops")
class DropsLong(Right):
    """A long message ends the connection."""

    async def on_message(self, peer: Peer, message: list[Any]) -> None:
        if message[0] == "NEG-OPEN" and len(message[3]) > 20_000:
            peer.abort()
        else:
            await super().on_message(peer, message)


@planted("neg.answer", "does not answer")
class NegSilent(Right):
    """NEG-OPEN gets no answer."""

    async def on_neg_open(self, peer: Peer, message: list[Any]) -> None:
        return


# AUTH.


@planted("auth.spelling", "and not for")
class SpelledAuth(Right):
    """AUTH is for one spelling of the URL."""

    async def on_auth(self, peer: Peer, message: list[Any]) -> None:
        said = dict(tag[:2] for tag in message[1]["tags"])["relay"]
        right = said == peer.relay.url
        await peer.send("OK", message[1]["id"], right, "" if right else "restricted: wrong relay")


# EVENT.


@planted("write.stored", "does not serve", writes=True)
class StoresNothing(Right):
    """OK is said of what is not stored."""

    def store(self, peer: Peer, event: Event) -> None:
        return


@planted("write.forged", "signature", writes=True)
class TakesForged(Right):
    """Signatures are not checked."""

    def why_not(self, peer: Peer, event: Event) -> str:
        why = super().why_not(peer, event)
        return "" if "signature" in why else why


@planted("write.repeated", "already", writes=True)
class RefusesKnown(Right):
    """A known event is refused."""

    def why_not(self, peer: Peer, event: Event) -> str:
        why = super().why_not(peer, event)
        return "error: not again" if why.startswith("duplicate") else why


@planted("write.versions", "older", writes=True)
class KeepsOlder(Right):
    """The version that came last stays."""

    def keep_newest(self, events: list[Event], event: Event) -> None:
        events[:] = [one for one in events if one.kind != event.kind or one is event]


@planted("write.expired", "expired", writes=True)
class StoresExpired(Right):
    """An expired event is stored and served."""

    def visible(self, peer: Peer) -> Sequence[Event]:
        return peer.relay.events

    def why_not(self, peer: Peer, event: Event) -> str:
        why = super().why_not(peer, event)
        return "" if "expired" in why else why


@planted("write.ephemeral", "ephemeral", writes=True)
class StoresEphemeral(Right):
    """An ephemeral event is stored."""

    def store(self, peer: Peer, event: Event) -> None:
        peer.relay.events.append(event) if event.kind == 20_078 else super().store(peer, event)


@planted("write.foreign", "another key", writes=True)
class DeletesForeign(Right):
    """A stranger's deletion counts."""

    def may_delete(self, request: Event, event: Event) -> bool:
        return True


@planted("write.deletion", "again", writes=True)
class TakesDeleted(Right):
    """What was deleted is taken again."""

    def is_deleted(self, peer: Peer, event: Event) -> bool:
        return False


@planted("write.deletion", "serves", writes=True)
class KeepsDeleted(Right):
    """A deletion deletes nothing."""

    def may_delete(self, request: Event, event: Event) -> bool:
        return False


def events_of(defect: Defect) -> list[Event]:
    """What the relay of a defect holds."""
    return [*world(), *defect.events]
