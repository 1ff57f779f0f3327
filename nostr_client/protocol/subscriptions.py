"""Manage the REQs of one connection: slots, matching, and how each REQ ends."""

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

_CALM = 4  # answered REQs for each slot, without a refusal, before one more slot is tried
_RECENT = 100  # CLOSEs to remember, to know how many REQs were open at a refusal
_MAX_REFUSALS = 3  # how often one REQ waits again for a slot before its refusal is final


class Subscriptions:
    """Open and waiting REQs. `send` takes text. `relay` is for errors.

    At most `most` REQs are open at once. The others wait for a slot. If the relay says "too many",
    `most` falls to the number of open REQs. After a run of answers, `most` grows by one.
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
        """Set how many REQs the relay says that it allows at once."""
        self.most = self._allowed = max(1, most)
        self.fill()

    def _tick(self) -> int:
        self._ticks += 1
        return self._ticks

    @property
    def waiting(self) -> int:
        """The number of REQs that wait for a slot."""
        return len(self._waiting)

    @property
    def open(self) -> int:
        """The number of REQs that are open on the relay."""
        return sum(state.phase is Phase.SENT for state in self._states.values())

    @property
    def parked(self) -> list[str]:
        """The ids of REQs that wait for AUTH."""
        return [key for key, state in self._states.items() if state.phase is Phase.PARKED]

    def get(self, sub_id: str) -> SubscriptionState | None:
        """Return the state of a REQ, or None for an unknown id."""
        return self._states.get(sub_id)

    def add(self, sub_id: str, state: SubscriptionState) -> None:
        """Add a REQ. Sends it now, or when a slot is free."""
        self._states[sub_id] = state
        self._waiting.append(sub_id)
        self.fill()

    def fill(self) -> None:
        """Send waiting REQs while there are free slots."""
        free = self.most - self.open
        while self._waiting and free > 0:
            state = self._states[self._waiting.popleft()]
            state.phase = Phase.SENT
            state.sent_at = self._tick()
            self._send(state.text)
            free -= 1

    def close(self, sub_id: str) -> None:
        """Send CLOSE for a REQ and forget it. Ignores unknown ids."""
        state = self._states.get(sub_id)
        if state is not None and state.phase is Phase.SENT:
            self._closed.append((state.sent_at, self._tick()))
            self._send(wire.Close(sub_id).to_json())
        self.drop(sub_id)

    def drop(self, sub_id: str) -> None:
        """Forget a REQ that the relay ended."""
        state = self._states.pop(sub_id, None)
        if state is not None and state.phase is Phase.WAITING:
            self._waiting.remove(sub_id)
        self.fill()

    def retry(self, sub_id: str) -> None:
        """Send a REQ again, before the waiting ones."""
        self._states[sub_id].phase = Phase.WAITING
        self._waiting.appendleft(sub_id)
        self.fill()

    def crowded(self, sub_id: str) -> bool:
        """Let a REQ wait because the relay has too many open ones.

        Return False after enough waits.
        """
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
        """Return how many REQs were open when the relay refused this one.

        They were sent before the refused REQ, and not closed before it.
        """
        still = sum(
            one.phase is Phase.SENT and one.sent_at < refused.sent_at
            for one in self._states.values()
        )
        return still + sum(sent < refused.sent_at < closed for sent, closed in self._closed)

    def event(self, message: wire.EventReceived, size: int) -> list[note.Notification] | None:
        """Process an EVENT frame. Return None for an unknown id."""
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
        """Process an EVENT frame with an invalid event. Return None for an unknown id."""
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
        """Process EOSE. Return None for an unknown id, or for the second EOSE of an id."""
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
        """Allow one more slot after a while without a refusal, because the relay may have room
        again.
        """
        self._calm += 1
        if self.most < self._allowed and self._calm >= _CALM * self.most:
            self.most += 1
            self._calm = 0

    def lost(self, error: RelayError) -> list[note.Notification]:
        """Forget all REQs after the connection broke. Only REQs that are not live end."""
        ended = [key for key, state in self._states.items() if not state.live]
        self._states.clear()
        self._waiting.clear()
        return [note.SubscriptionEnded(key, error) for key in ended]


def new_state(
    text: str, filters: Sequence[Filter], *, live: bool, tally: SubscriptionTally | None, slack: int
) -> SubscriptionState:
    """Return the state of a REQ that was not sent yet. `text` is its frame."""
    return SubscriptionState(
        text,
        Phase.WAITING,
        filters=tuple(filters),
        live=live,
        tally=tally or SubscriptionTally(),
        slack=slack,
    )
