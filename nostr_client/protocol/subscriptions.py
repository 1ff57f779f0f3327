"""The REQs of one connection: slots, matching, and how each of them ends."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from nostr_client.codecs import messages as wire
from nostr_client.codecs.display import plural
from nostr_client.errors import ProtocolError, RelayError
from nostr_client.protocol import notifications as note
from nostr_client.protocol.state import Phase, Stamp, SubscriptionState, SubscriptionTally

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from nostr_client.codecs.filters import Filter

_CALM = 4  # answered REQs for each slot, without a refusal, before one more is tried
_RECENT = 100  # CLOSEs remembered, to know how many were open when a refusal was made
_MAX_REFUSALS = 3  # times that one REQ waits again for a slot before its refusal is final


class Subscriptions:
    """Open and waiting REQs; `send` takes text, `relay` is for errors.

    At most `most` are open at once; the others wait their turn. A relay that says "too many"
    lowers it to what is open, and a run of answers raises it again by one.
    """

    def __init__(
        self, relay: str, send: Callable[[str], None], *, most: int, most_tags: int
    ) -> None:
        self.most = self._allowed = most
        self._calm = 0
        self._ticks = 0
        self._closed: deque[tuple[int, int]] = deque(maxlen=_RECENT)  # when sent, when closed
        self._relay = relay
        self._most_tags = most_tags
        self._send = send
        self._states: dict[str, SubscriptionState] = {}
        self._waiting: deque[str] = deque()

    def allow(self, most: int) -> None:
        """How many the relay says that it serves at once."""
        self.most = self._allowed = max(1, most)
        self.fill()

    def _tick(self) -> int:
        self._ticks += 1
        return self._ticks

    @property
    def waiting(self) -> int:
        """How many wait for a slot."""
        return len(self._waiting)

    @property
    def open(self) -> int:
        """How many the relay serves now."""
        return sum(state.phase is Phase.SENT for state in self._states.values())

    @property
    def parked(self) -> list[str]:
        """Those that wait for AUTH."""
        return [key for key, state in self._states.items() if state.phase is Phase.PARKED]

    def get(self, sub_id: str) -> SubscriptionState | None:
        """One of them, None for an unknown id."""
        return self._states.get(sub_id)

    def add(self, sub_id: str, state: SubscriptionState) -> None:
        """Take one in and send it, now or when a slot is free."""
        self._states[sub_id] = state
        self._waiting.append(sub_id)
        self.fill()

    def fill(self) -> None:
        """Send what waits, as far as there are slots."""
        free = self.most - self.open
        while self._waiting and free > 0:
            state = self._states[self._waiting.popleft()]
            state.phase = Phase.SENT
            state.sent_at = self._tick()
            self._send(state.text)
            free -= 1

    def close(self, sub_id: str) -> None:
        """End one from our side; unknown ids pass."""
        state = self._states.get(sub_id)
        if state is not None and state.phase is Phase.SENT:
            self._closed.append((state.sent_at, self._tick()))
            self._send(wire.Close(sub_id).to_json())
        self.drop(sub_id)

    def drop(self, sub_id: str) -> None:
        """Forget one that the relay ended."""
        state = self._states.pop(sub_id, None)
        if state is not None and state.phase is Phase.WAITING:
            self._waiting.remove(sub_id)
        self.fill()

    def retry(self, sub_id: str) -> None:
        """Send one again, before those that wait."""
        self._states[sub_id].phase = Phase.WAITING
        self._waiting.appendleft(sub_id)
        self.fill()

    def crowded(self, sub_id: str) -> bool:
        """The relay has too many open: let this one wait for a slot; False after enough waits."""
        state = self._states[sub_id]
        state.phase = Phase.PARKED
        if state.refusals >= _MAX_REFUSALS:
            return False
        self.most = max(1, min(self.most, self._served_beside(state)))
        self._calm = 0
        state.refusals += 1
        self.retry(sub_id)
        return True

    def _served_beside(self, refused: SubscriptionState) -> int:
        """How many the relay had open when it refused this one: sent before, not closed before."""
        still = sum(
            one.phase is Phase.SENT and one.sent_at < refused.sent_at
            for one in self._states.values()
        )
        return still + sum(sent < refused.sent_at < closed for sent, closed in self._closed)

    def event(self, message: wire.EventReceived, size: int) -> list[note.Notification] | None:
        """An EVENT frame; None for an unknown id."""
        state = self._states.get(message.sub_id)
        if state is None:
            return None
        if len(message.event.tags) > self._most_tags:
            return self.malformed(message.sub_id, size)
        state.received(size, Stamp(message.event.created_at, message.event.id))
        if state.accepts(message.event):
            return [note.EventMatched(message.sub_id, message.event, size)]
        return self._overrun(message.sub_id, state)

    def malformed(self, sub_id: str, size: int) -> list[note.Notification] | None:
        """An EVENT frame whose event is none; None for an unknown id."""
        state = self._states.get(sub_id)
        if state is None:
            return None
        state.received(size, None)
        state.tally.malformed += 1
        state.strays += 1
        return self._overrun(sub_id, state)

    def _overrun(self, sub_id: str, state: SubscriptionState) -> list[note.Notification]:
        if not state.overrun:
            return []
        self.close(sub_id)
        text = f"sent {plural(state.strays, 'event that was', 'events that were')} not asked for"
        return [note.SubscriptionEnded(sub_id, ProtocolError(text, relay=self._relay))]

    def stored_end(self, sub_id: str, hint: wire.Hint | None) -> list[note.Notification] | None:
        """EOSE; None for an unknown id, or for the second one of an id."""
        state = self._states.get(sub_id)
        if state is None or state.stored_end:
            return None
        state.stored_end = True
        state.tally.hint = hint
        self._grow()
        if state.live:
            return [note.StoredEnd(sub_id)]
        self.close(sub_id)
        return [note.SubscriptionEnded(sub_id, None)]

    def _grow(self) -> None:
        """One slot more after a while without a refusal: what was full may be empty now."""
        self._calm += 1
        if self.most < self._allowed and self._calm >= _CALM * self.most:
            self.most += 1
            self._calm = 0

    def lost(self, error: RelayError) -> list[note.Notification]:
        """The connection broke: forget all; only those that are not live end by it."""
        ended = [key for key, state in self._states.items() if not state.live]
        self._states.clear()
        self._waiting.clear()
        return [note.SubscriptionEnded(key, error) for key in ended]


def new_state(
    text: str, filters: Sequence[Filter], *, live: bool, tally: SubscriptionTally | None, slack: int
) -> SubscriptionState:
    """The state of a REQ that was not sent yet; `text` is its frame."""
    return SubscriptionState(
        text,
        Phase.WAITING,
        filters=tuple(filters),
        live=live,
        tally=tally or SubscriptionTally(),
        slack=slack,
    )
