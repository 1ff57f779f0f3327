"""Write a few events of a key to a relay, test how the relay treats them, and delete them.

The events say that they belong to a check. They are an event of kind 30078 with a `d` tag of this
check, notes of kind 1 that expire within an hour, and an ephemeral event. A second, fresh key signs
a deletion that must have no effect. Relays keep deletion requests, so two requests of the key
remain.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Final

import msgspec

from nostr_client.codecs.event import EventTemplate
from nostr_client.codecs.filters import Filter
from nostr_client.codecs.keys import KeySigner
from nostr_client.codecs.kinds import APP_DATA, DELETION, TEXT_NOTE
from nostr_client.network.check import judge_writing as judge
from nostr_client.network.check.answers import ExchangeEnd
from nostr_client.network.check.findings import tests_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from nostr_client.codecs.event import Event
    from nostr_client.codecs.keys import Signer
    from nostr_client.network.check.answers import Exchange, ReqExchange
    from nostr_client.network.check.findings import Findings
    from nostr_client.network.check.probe import Probe

_EPHEMERAL: Final = 20_078
_LASTS: Final = 3600
"""Seconds after which a relay with NIP-40 drops the check's note."""

_TEXT: Final = "a check of this relay by nostr-tally; the check deletes it"


class WriteCheck:
    """Runs every test that writes. `name` makes the `d` tag of a check unique."""

    def __init__(
        self,
        probe: Probe,
        findings: Findings,
        signer: Signer,
        *,
        counts: bool,
        name: Callable[[], str] = lambda: secrets.token_hex(8),
    ) -> None:
        self._probe = probe
        self._findings = findings
        self._signer = signer
        self._counts = counts
        self._d = f"nostr-tally-check-{name()}"
        self._written: list[Event] = []
        self.remaining: list[str] = []
        """Ids of the check's deletion requests that the relay accepted."""

    async def run(self) -> None:
        """Write events, read them back and delete them. Raises NetworkError, CheckSpent."""
        try:
            note = await self._stored()
            if note is not None:
                await self._refused(note)
                await self._versions()
                await self._kept_by_none()
                await self._deleted(note)
        finally:
            await self._clean()

    async def _stored(self) -> Event | None:
        """Publish a note. Return it if the relay accepts and serves it, else None."""
        note = await self._note(_TEXT, self._probe.now() + _LASTS)
        answer = await self._probe.publish(note)
        served = await self._by_id(note)
        self._findings.add(judge.stored(answer, served, note.id))
        if answer.end is ExchangeEnd.ANSWERED and note.id in served.ids:
            self._written.append(note)
            return note
        self._findings.skip("it does not store our note", *tests_of("write"))
        return None

    async def _refused(self, note: Event) -> None:
        """Send the same note again, then a note with the signature of another event."""
        self._findings.add(judge.repeated(await self._probe.publish(note)))
        other = await self._note(f"{_TEXT}.", self._probe.now() + _LASTS)
        forged = msgspec.structs.replace(other, sig=note.sig)
        answer = await self._probe.publish(forged)
        self._findings.add(judge.forged(answer, await self._by_id(forged)))

    async def _versions(self) -> None:
        """Send the newer version of an event first, then the older version."""
        now = self._probe.now()
        newer, older = [await self._sign(APP_DATA, at, ("d", self._d)) for at in (now, now - 60)]
        answer = await self._probe.publish(newer)
        if answer.end is not ExchangeEnd.ANSWERED:
            self._findings.skip(f"it takes no kind {APP_DATA}: {answer.in_words}", "write.versions")
            return
        self._written.append(newer)
        await self._probe.publish(older)
        asked = Filter(kinds=[APP_DATA], authors=[newer.pubkey], tags={"#d": [self._d]})
        self._findings.add(judge.older(await self._probe.read(asked), newer.id))

    async def _kept_by_none(self) -> None:
        """Send an expired note and an ephemeral event."""
        gone = await self._note(_TEXT, self._probe.now() - _LASTS)
        await self._probe.publish(gone)
        self._findings.add(judge.expired(await self._by_id(gone)))
        passing = await self._sign(_EPHEMERAL, self._probe.now())
        await self._probe.publish(passing)
        self._findings.add(judge.ephemeral(await self._by_id(passing)))
        self._written += [gone, passing]

    async def _deleted(self, note: Event) -> None:
        """Send another key's deletion, then the author's deletion, then the note again."""
        template = _deletion([note], self._probe.now())
        await self._probe.publish(KeySigner.generate().sign_now(template).event)
        self._findings.add(judge.foreign(await self._by_id(note), note.id))
        answer = await self._request(template)
        if answer.end is not ExchangeEnd.ANSWERED:
            self._findings.skip(f"it takes no deletion: {answer.in_words}", "write.deletion")
            return
        served = await self._by_id(note)
        counted = await self._probe.count(Filter(ids=[note.id])) if self._counts else None
        await self._probe.publish(note)
        again = await self._by_id(note)
        self._findings.add(judge.deleted(served, again, counted))

    async def _clean(self) -> None:
        """Ask the relay to delete all events that it accepted."""
        if self._written:
            template = _deletion(self._written, self._probe.now() + 1)
            await self._request(template)

    async def _request(self, template: EventTemplate) -> Exchange:
        """Publish a deletion request of the key, and note its id if the relay accepts it."""
        event = (await self._signer.sign(template)).event
        answer = await self._probe.publish(event)
        if answer.end is ExchangeEnd.ANSWERED:
            self.remaining.append(event.id)
        return answer

    async def _by_id(self, event: Event) -> ReqExchange:
        return await self._probe.read(Filter(ids=[event.id]))

    async def _note(self, text: str, expires: int) -> Event:
        tag = ("expiration", str(expires))
        return await self._sign(TEXT_NOTE, self._probe.now(), tag, content=text)

    async def _sign(self, kind: int, at: int, *tags: tuple[str, ...], content: str = "") -> Event:
        template = EventTemplate(kind=kind, content=content, tags=tags, created_at=at)
        return (await self._signer.sign(template)).event


def _deletion(events: list[Event], at: int) -> EventTemplate:
    tags = tuple(("e", one.id) for one in events)
    kinds = tuple(("k", str(kind)) for kind in sorted({one.kind for one in events}))
    return EventTemplate(kind=DELETION, content="a check of this relay", tags=tags + kinds,
                         created_at=at)  # fmt: skip
