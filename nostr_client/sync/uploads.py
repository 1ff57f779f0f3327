"""Upload events to one relay, with a bounded number without an answer, and judge the answers."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from typing import TYPE_CHECKING, Final, Protocol

from nostr_client.codecs.display import plural
from nostr_client.codecs.filters import Filter
from nostr_client.codecs.keys import stored_event
from nostr_client.codecs.kinds import has_versions
from nostr_client.codecs.reasons import Reason, classify, means_superseded
from nostr_client.errors import (
    DeadlineExceeded,
    HeldBack,
    NetworkError,
    RelayError,
    RelayRefused,
    clip,
)
from nostr_client.network.waiting import Gate
from nostr_client.sync.accepted import AcceptedEvents
from nostr_client.sync.memory import RefusalNote, Side, Verdict, place_of, upload_verdict

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from nostr_client.codecs.event import Event
    from nostr_client.codecs.messages import Ok
    from nostr_client.network.relay import Relay
    from nostr_client.sync.memory import SyncMemory
    from nostr_client.sync.options import SyncOptions
    from nostr_client.sync.sharing import Sharing
    from nostr_client.sync.tally import RelayTally

_NO_OK: Final = RefusalNote(Verdict.UNANSWERED, "the run ended before an OK came")
_NOT_KEPT: Final = RefusalNote(Verdict.FAILED, "accepted, and not there when asked for")
_REPLACED: Final = RefusalNote(Verdict.SUPERSEDED, "accepted, and it has a newer version")

_READ: Final = 100
"""Events to read from the store at once."""

_CLOSED_DOOR: Final = 20
"""`auth-required:` answers for one kind, in a row, after which events of this kind are not sent."""

_MOST_WITHOUT_OK: Final = 5
"""Events in a row without an answer, each tried several times, after which uploads stop.

The relay is then gone, or breaks the connection after any event.
"""

_ENDS: Final = (Reason.RATE_LIMITED, Reason.TOO_MANY, Reason.RESTRICTED)
"""Refusals of the client, not of the event. Nothing more is sent in this run."""


class UploadSource(Protocol):
    """Source of events by id: a store, or another relay."""

    async def query(self, filters: Sequence[Filter]) -> list[Event]:
        """Return the events that match. Events that are gone are left out."""
        ...


class Uploads:
    """Uploads to one relay. Fill it with `put` and call `finish`. `run` ends when all is answered.

    `sharing` decides which events may be sent. `due`: ids that were refused before and are due for
    another try. `downloaded`, if given, returns when downloads bring nothing more. Only then are
    replaceable and addressable events sent, if the store still has them.
    """

    def __init__(
        self,
        relay: Relay,
        source: UploadSource,
        memory: SyncMemory,
        options: SyncOptions,
        tally: RelayTally,
        sharing: Sharing,
        downloaded: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self._relay = relay
        self._place = place_of(relay)
        self._source = source
        self._memory = memory
        self._options = options
        self._tally = tally
        self._sharing = sharing
        self._downloaded = downloaded
        self._queue: deque[bytes] = deque()
        self._versions: list[bytes] = []
        self._again: deque[tuple[Event, int]] = deque()
        self._unsettled: dict[str, tuple[Event, RefusalNote]] = {}
        self._flying = 0
        self._answered = False
        self._took = False
        self._closed_to: Counter[int] = Counter()
        self._suspects: set[str] = set()
        self._without_ok = 0
        self._stopped = ""
        self._unsent = 0
        self._finished = False
        self._ended = False
        self.moved: set[bytes] = set()
        """Ids that the relay accepted."""
        self._accepted = AcceptedEvents(relay, options.progress)
        self._gate = Gate()
        self.due: set[bytes] = set()

    def put(self, ids: Sequence[bytes]) -> None:
        """Add ids of events that the relay lacks, each once."""
        self._queue.extend(ids)
        self._gate.wake()

    async def room(self, most: int) -> None:
        """Wait until fewer than `most` ids wait, or until nothing is sent any more."""
        await self._gate.wait(lambda: len(self._queue) < most or self._ended)

    def finish(self) -> None:
        """Note that no more ids come."""
        self._finished = True
        self._gate.wake()

    async def run(self) -> None:
        """Send until all events are answered, or the relay accepts no more. Safe to cancel."""
        try:
            await self._run()
            if self._versions and self._downloaded is not None and not self._stopped:
                await self._downloaded()
                self._downloaded = None
                self.put(self._versions)
                self._versions = []
                await self._run()
            await self._look_for_accepted()
            await self._memory.forget(self._place, Side.UP, self.due & self.moved)
        finally:
            self._ended = True
            self._gate.wake()
            self._report_unsent()

    async def _look_for_accepted(self) -> None:
        """Note accepted events that the relay lacks, so that not every run sends them again."""
        dropped, replaced = await self._accepted.lacking()
        notes = dict.fromkeys(dropped, _NOT_KEPT) | dict.fromkeys(replaced, _REPLACED)
        if not notes:
            return
        self.moved -= notes.keys()
        self._tally.uploaded -= len(notes)
        self._tally.unmoved.update(notes.values())
        await self._memory.note(self._place, Side.UP, notes, self._options)

    async def note_unsettled(self) -> None:
        """Remember events that were sent and have no verdict at the end of the run.

        Raises StoreError.
        """
        for event, note in list(self._unsettled.values()):
            await self._note(event, note.verdict, note.reason)

    async def _run(self) -> None:
        async with asyncio.TaskGroup() as group:
            while True:
                await self._gate.wait(lambda: self._waits() or self._over())
                if not self._waits():
                    return
                for event, tries in await self._next():
                    await self._gate.wait(self._may_fly)
                    if self._stopped or self._closed_to[event.kind] >= _CLOSED_DOOR:
                        self._unsent += 1
                        continue
                    self._flying += 1
                    group.create_task(self._send(event, tries))

    def _waits(self) -> bool:
        return bool(self._queue or self._again)

    def _over(self) -> bool:
        return self._finished and not self._flying

    def _may_fly(self) -> bool:
        """Return True if another event may be sent without an answer to the earlier ones.

        Each OK makes room at once. A server with Nagle's algorithm holds its next OK until we
        acknowledge the last one, which takes up to 40 ms unless an EVENT goes out. The first event
        is sent alone. Until one is accepted, only a few are sent, because a relay that requires
        AUTH or refuses everything then says so only a few times. After the connection broke, the
        unanswered events are sent one by one, because one of them may break it each time (strfry: a
        message of more than 131,072 bytes).
        """
        if not self._answered or self._suspects:
            return not self._flying
        most = self._options.unanswered
        return self._flying < (most if self._took else min(_CLOSED_DOOR, most))

    async def _next(self) -> list[tuple[Event, int]]:
        """Return the next events to send. After a stop, waiting events are only counted."""
        if self._stopped:
            self._unsent += len(self._queue)
            self._queue.clear()
            self._again.clear()
            self._gate.wake()
            return []
        if self._again:
            return [self._again.popleft()]
        ids = [self._queue.popleft() for _ in range(min(_READ, len(self._queue)))]
        self._gate.wake()
        events = await self._source.query([Filter(ids=[key.hex() for key in ids])])
        return [(event, 0) for event in events if self._goes(event)]

    def _goes(self, event: Event) -> bool:
        """Return True to send the event now. Counts events that are held back."""
        if (why := self._sharing.holds_back(event)) is not None:
            self._tally.held_back[why] += 1
            return False
        if self._downloaded is not None and has_versions(event.kind):
            self._versions.append(bytes.fromhex(event.id))
            return False
        return True

    async def _send(self, event: Event, tries: int) -> None:
        self._unsettled[event.id] = (event, _NO_OK)
        try:
            verified = stored_event(event)
            ok = await self._relay.publish(verified, self._options.progress, paced=True)
        except HeldBack as error:  # the relay was not asked
            await asyncio.sleep(error.seconds)
            self._again.append((event, tries))
        except RelayRefused as error:
            await self._refused(event, tries, error)
        except RelayError as error:
            await self._unanswered(event, tries, error)
        else:
            await self._taken(event, ok)
        finally:
            self._answered = True
            self._flying -= 1
            self._gate.wake()

    def _note_answer(self, event: Event) -> None:
        """Note that the relay answered, so this event does not break the connection."""
        self._suspects.discard(event.id)
        self._without_ok = 0

    async def _taken(self, event: Event, ok: Ok) -> None:
        self._note_answer(event)
        self._unsettled.pop(event.id, None)
        self._tally.moves += 1
        self._took = True
        self._closed_to[event.kind] = 0
        if ok.reason is Reason.DUPLICATE:
            newer = means_superseded(ok.message)
            await self._note(event, Verdict.SUPERSEDED if newer else Verdict.PRESENT, ok.message)
        else:
            self._tally.uploaded += 1
            self.moved.add(bytes.fromhex(event.id))
            self._accepted.add(event)

    async def _refused(self, event: Event, tries: int, error: RelayRefused) -> None:
        self._note_answer(event)
        reason = classify(error.reason)
        if reason is Reason.ERROR and tries + 1 < self._options.tries:
            self._try_again(event, tries, RefusalNote(Verdict.FAILED, clip(error.reason)))
            return
        self._tally.moves += 1
        if reason in _ENDS:
            self._stopped = self._stopped or clip(error.reason)
        self._closed_to[event.kind] += reason is Reason.AUTH_REQUIRED
        await self._note(event, upload_verdict(error.reason), error.reason)

    def _try_again(self, event: Event, tries: int, note: RefusalNote) -> None:
        """Send the event again in this run. `note` is its verdict if the run ends before."""
        self._unsettled[event.id] = (event, note)
        self._again.append((event, tries + 1))

    async def _note(self, event: Event, verdict: Verdict, reason: str) -> None:
        """Count the verdict, and remember not to send the event to this relay for some time."""
        self._unsettled.pop(event.id, None)
        note = RefusalNote(verdict, clip(reason))
        self._tally.unmoved[note] += 1
        notes = {bytes.fromhex(event.id): note}
        await self._memory.note(self._place, Side.UP, notes, self._options)

    async def _unanswered(self, event: Event, tries: int, error: RelayError) -> None:
        """Try again in this run, then in a later run."""
        if isinstance(error, NetworkError):
            self._suspects.add(event.id)
        passes = isinstance(error, NetworkError | DeadlineExceeded)
        if passes and tries + 1 < self._options.tries:
            self._try_again(event, tries, RefusalNote(Verdict.UNANSWERED, clip(str(error))))
            return
        self._suspects.discard(event.id)
        self._without_ok += 1
        if self._without_ok >= _MOST_WITHOUT_OK:
            self._stopped = self._stopped or clip(str(error))
        await self._note(event, Verdict.UNANSWERED, str(error))

    def _report_unsent(self) -> None:
        unsent = self._unsent + len(self._versions)
        text = f"{plural(unsent, 'event was', 'events were')} not sent"
        if self._stopped:
            self._tally.lacks(f"uploads ended ({self._stopped}): {text}")
        elif unsent:
            self._tally.lacks(text)
