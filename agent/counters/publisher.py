"""Publishes streams as events: one task for each stream, at most once an interval."""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Final

import msgspec

from agent import state
from agent.api import schema
from agent.counters.links import KIND
from agent.counters.reader import BUDGET, VERSIONS
from agent.specs import chosen
from nostr_client.codecs import nip19
from nostr_client.codecs.display import plural, seconds
from nostr_client.codecs.filters import Filter
from nostr_client.codecs.keys import KeySigner, stored_event
from nostr_client.counters import nostr
from nostr_client.counters.sealing import Sealer, is_sealed
from nostr_client.errors import InvalidInput, NostrTallyError, clip
from nostr_client.network.pool import PublishStatus
from nostr_client.watch import scheduler

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agent.config.model import PublishSection, RelaysSection
    from agent.counters.links import Links
    from agent.log import Log
    from nostr_client.codecs.event import Event
    from nostr_client.codecs.keys import Signer, VerifiedEvent
    from nostr_client.counters.sqlite.remotes import Remotes, Values
    from nostr_client.network.pool import PublishResult, RelayPool
    from nostr_client.store.sqlite import SqliteStore
    from nostr_client.watch.clock import Clock

OFFER_AGAIN: Final = 10
"""Turns after which an unchanged event is offered to every relay again: they lose some."""


class PublishRecord(msgspec.Struct, frozen=True):
    """What the store has of a stream's newest event; `created_at` is written before it is sent."""

    created_at: int = -1
    digest: str = ""
    id: str = ""
    at: float = 0.0
    took: tuple[str, ...] = ()


class StreamPublisher:
    """One stream at work."""

    def __init__(self, section: PublishSection, relays: list[str]) -> None:
        self.section = section
        self.relays = relays
        self.readers = tuple(dict.fromkeys(map(nip19.decode_pubkey, section.readers)))
        self.turns = 0
        self.looked = False
        """Whether this run has asked the relays for an existing event."""


class PublishRunner:
    """All streams that are published, by the name of their links."""

    def __init__(
        self,
        clock: Clock,
        log: Log,
        remotes: Remotes,
        links: Links,
        store: SqliteStore,
        pool: RelayPool,
        signer: Signer | None,
    ) -> None:
        self.streams: dict[str, StreamPublisher] = {}
        self.published = 0
        self._clock = clock
        self._log = log
        self._remotes = remotes
        self._links = links
        self._store = store
        self._pool = pool
        self._signer = signer
        self._confirmed: set[str] = set()

    def configure(self, sections: Sequence[PublishSection], relays: RelaysSection) -> None:
        """Replace all published streams by these."""
        before, self.streams = self.streams, {}
        for section in sections:
            name = link_name(section)
            urls = chosen(section.relays, relays.default, relays.denied)
            one = before.get(name)
            if one is None or (one.section, one.relays) != (section, urls):
                one = StreamPublisher(section, urls)
                self._links.put(self._link(one))
            self.streams[name] = one
        self._links.keep({("nostr", "out")}, self.streams)

    def _link(self, one: StreamPublisher) -> schema.CounterLink:
        return schema.CounterLink(
            name=link_name(one.section),
            direction="out",
            via="nostr",
            stream=one.section.stream,
            peer=plural(len(one.relays), "relay"),
        )

    def tasks(self) -> list[scheduler.Task]:
        """One task for each stream; a failure does not make its turns rarer."""
        return [
            scheduler.Task(
                f"{KIND} {name}",
                f"{KIND} {name}",
                seconds(one.section.interval) / (1 - scheduler.JITTER),  # a turn may be early
                backs_off=False,
            )
            for name, one in self.streams.items()
        ]

    async def last(self) -> dict[str, float]:
        """When each was published last: a restart does not publish sooner."""
        notes = await self._store.database.read(lambda conn: state.notes(conn, _PREFIX))
        found = {key.removeprefix(_PREFIX): text for key, text in notes.items()}
        return {
            f"{KIND} {name}": msgspec.json.decode(found[one.section.stream], type=PublishRecord).at
            for name, one in self.streams.items()
            if one.section.stream in found
        }

    def confirm(self, name: str) -> bool:
        """This agent is the one that publishes under its key and this `d`."""
        self._confirmed.add(name)
        return True

    async def run(self, name: str) -> bool:
        """Publish a stream if it has changed; whether a relay has its newest event."""
        one = self.streams.get(name)
        if one is None:
            return True
        self._links.change(name, asked_at=self._clock.wall())
        try:
            return await self._publish(name, one)
        except NostrTallyError as error:
            why = clip(str(error))
            link = self._links.get(name)
            if link is not None and link.why != why:
                self._log.warning("publish_failed", stream=one.section.stream, why=why)
            self._links.change(name, state="failing", why=why)
            return False

    async def _publish(self, name: str, one: StreamPublisher) -> bool:
        section = one.section
        values = await self._remotes.values(section.stream, section.subjects, nostr.MOST_EVENT)
        note = await self._note(section.stream)
        if not values.values and not note.digest:
            self._links.change(name, state="waiting", why="nothing has been counted yet")
            return True
        if not one.looked:
            looked = await self._look(name, one, values, note)
            if looked is None:
                return False
            note = looked
        digest = _digest(values, one)
        verified = await self._kept(note) if note.digest == digest else None
        if verified is None:
            verified, note = await self._make(one, values, note, digest)
        results = await self._offer(one, verified, note)
        return await self._show(name, one, values, note, results)

    async def _look(
        self, name: str, one: StreamPublisher, values: Values, note: PublishRecord
    ) -> PublishRecord | None:
        """Read our newest event from the relays: the next must be newer and of the same store."""
        signer = self._sign_with()
        asked = nostr.address(signer.pubkey, one.section.stream)
        found = await self._pool.gather(
            one.relays, lambda relay: relay.fetch(asked.replace(limit=VERSIONS), budget=BUDGET)
        )
        there = [v.event for page in found.answers.values() for v in page.events]
        there += await self._store.query([asked])
        newest = max(there, key=lambda event: event.created_at, default=None)
        if newest is not None and newest.created_at > note.created_at:
            if self._is_foreign(newest, values, one.section.stream) and name not in self._confirmed:
                why = "another store publishes this stream with this key; confirm to replace it"
                self._log.error("publish_stopped", stream=one.section.stream, why=why)
                self._links.change(name, state="stopped", why=why, confirmable=True)
                return None
            note = msgspec.structs.replace(note, created_at=newest.created_at, digest="")
        one.looked = bool(found.answers) or not one.relays
        return note

    def _is_foreign(self, event: Event, values: Values, stream: str) -> bool:
        try:
            batch = nostr.parse(self._readable(event), stream, event)
        except InvalidInput:
            return True
        return batch.head.store != values.head.store

    def _readable(self, event: Event) -> str:
        if not is_sealed(event.content):
            return event.content
        return self._sealer().open(event.content, event.pubkey)

    async def _make(
        self, one: StreamPublisher, values: Values, note: PublishRecord, digest: str
    ) -> tuple[VerifiedEvent, PublishRecord]:
        """Make a new event and store it before it is sent; its time is recorded before that."""
        content = nostr.render(values)
        if one.readers:
            signer = self._sign_with()
            readers = dict.fromkeys((*one.readers, signer.pubkey))
            content = self._sealer().seal(content, list(readers))
        now = self._clock.wall()
        at = nostr.next_time(now, note.created_at)
        if at > now + nostr.AHEAD_S:
            ahead = at - int(now)
            raise InvalidInput(
                f"its newest event is dated {ahead} s ahead, and a later one would be read by"
                " nobody: set the clock right, or delete that event (NIP-09)"
            )
        template = nostr.template(one.section.stream, content, at)
        verified = await self._sign_with().sign(template)
        size = len(verified.event.to_json())
        if size > nostr.MOST_EVENT:
            raise InvalidInput(
                f"its event has {size} characters, above {nostr.MOST_EVENT}: add counters up in a"
                " stream with fewer subjects, and publish that"
            )
        note = PublishRecord(at, digest, verified.event.id, now)
        await self._keep(one.section.stream, note)
        await self._store.save([verified])
        self.published += 1
        one.turns = 0
        return verified, note

    async def _offer(
        self, one: StreamPublisher, verified: VerifiedEvent, note: PublishRecord
    ) -> dict[str, PublishResult]:
        everyone = one.turns % OFFER_AGAIN == 0
        one.turns += 1
        urls = one.relays if everyone else [url for url in one.relays if url not in note.took]
        return await self._pool.publish(verified, urls) if urls else {}

    async def _show(
        self,
        name: str,
        one: StreamPublisher,
        values: Values,
        note: PublishRecord,
        results: dict[str, PublishResult],
    ) -> bool:
        good = {url for url, result in results.items() if result.status is PublishStatus.OK}
        took = (set(note.took) - results.keys()) | good
        problems = [
            clip(f"{u}: {r.status} {r.message}", 300) for u, r in results.items() if u not in good
        ]
        if took != set(note.took):
            note = msgspec.structs.replace(note, took=tuple(sorted(took)))
            await self._keep(one.section.stream, note)
        fine = bool(took) or not one.relays
        now = self._clock.wall()
        subject, value = next(reversed(values.values.items()), ("", None))
        self._links.change(
            name,
            state="ok" if fine else "failing",
            why="" if fine else "no relay has taken it",
            confirmable=False,
            peer=f"{len(took)} of {plural(len(one.relays), 'relay')}",
            done_at=now if good else note.at,
            changed_at=note.at,
            seq=values.head.last_seq,
            last_seq=values.head.last_seq,
            subjects=len(values.values),
            last_subject=subject,
            last_value=value if value is None or len(value) <= 200 else None,
            moved=self.published,
            problems=tuple(problems),
        )
        return fine

    async def _kept(self, note: PublishRecord) -> VerifiedEvent | None:
        """The newest event as it was signed, from our store."""
        if not note.id:
            return None
        found = await self._store.query([Filter(ids=[note.id])])
        return stored_event(found[0]) if found else None

    async def _note(self, stream: str) -> PublishRecord:
        notes = await self._store.database.read(lambda c: state.notes(c, _PREFIX + stream))
        text = notes.get(_PREFIX + stream)
        return PublishRecord() if text is None else msgspec.json.decode(text, type=PublishRecord)

    async def _keep(self, stream: str, note: PublishRecord) -> None:
        await self._store.database.write(lambda conn: state.note(conn, _PREFIX + stream, note))

    def _sign_with(self) -> Signer:
        if self._signer is None:
            raise InvalidInput("there is no key to sign with: set identity.key_file")
        return self._signer

    def _sealer(self) -> Sealer:
        signer = self._sign_with()
        if not isinstance(signer, KeySigner):
            raise InvalidInput("encryption needs the key itself: set identity.key_file")
        return Sealer(signer)


_PREFIX: Final = "publish:"


def link_name(section: PublishSection) -> str:
    """The name of a stream's link: no source is called so."""
    return f"nostr:{section.stream}"


def _digest(values: Values, one: StreamPublisher) -> str:
    """A digest of all that makes a new event necessary; a new sequence number does not."""
    head = values.head
    parts = (head.store, head.epoch, values.ways, values.values, one.readers)
    return blake2b(msgspec.json.encode(parts), digest_size=16).hexdigest()
