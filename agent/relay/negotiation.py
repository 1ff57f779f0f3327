"""Runs the NIP-77 sessions of one connection: which are open, and what ends them. No I/O.

Reasons come in two forms (`RelayOptions.neg_reasons`): NIP-77's today, a prefix and prose, and
the codes of its first text. Where the first text has no code, and for an event id as filter,
which only the first text knows, both forms are the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.relay.outputs import NegOpenJob, NegState, NegStepJob
from nostr_client.codecs.messages import NegErr, NegMsg

if TYPE_CHECKING:
    from agent.relay.context import RelayContext
    from agent.relay.outputs import Output
    from agent.relay.privacy import Viewer
    from nostr_client.codecs.filters import Filter
    from nostr_client.codecs.messages import NegOpen
    from nostr_client.negentropy.reconcile import Responder

FILTER_NOT_FOUND = "FILTER_NOT_FOUND"
FILTER_INVALID = "FILTER_INVALID"


class Negotiation:
    """The open NIP-77 sessions of one connection."""

    def __init__(self, context: RelayContext) -> None:
        self._options = context.options
        self._context = context
        self._open: dict[str, NegState] = {}

    def __len__(self) -> int:
        return len(self._open)

    def open(
        self, message: NegOpen, wanted: tuple[Filter, ...] | str, viewer: Viewer
    ) -> list[Output]:
        """Begin a session, in place of an open one of the same id."""
        self.close(message.sub_id)
        if not self._options.negentropy:
            return self.refuse(message.sub_id, "unsupported: negentropy is turned off here")
        if len(self._open) >= self._options.limits.neg_sessions:
            reason = f"rate-limited: {len(self._open)} negentropy sessions are open"
            return self.refuse(message.sub_id, reason)
        job = NegOpenJob(message.sub_id, wanted, message.message, viewer)
        self._open[message.sub_id] = NegState(message.sub_id, self._now(), job=job)
        return [job]

    def message(self, message: NegMsg) -> list[Output]:
        """Take the client's next message of a session."""
        state = self._open.get(message.sub_id)
        if state is None:
            return self.refuse(message.sub_id, self._word("closed: unknown session", "CLOSED"))
        if state.engine is None or state.job is not None:
            return self._end(state, "invalid: a message before the answer to the last one")
        state.used_at = self._now()
        state.job = NegStepJob(message.sub_id, message.message, state)
        return [state.job]

    def close(self, sub_id: str) -> list[Output]:
        """NEG-CLOSE: end the session; an unknown one is not an error."""
        state = self._open.pop(sub_id, None)
        if state is not None:
            self._context.neg_budget.items -= state.items
        return []

    def close_all(self) -> None:
        """End all sessions of a closed connection."""
        for sub_id in list(self._open):
            self.close(sub_id)

    def reserve(self, job: NegOpenJob, items: int) -> str:
        """Take `items` events from the budget for a snapshot; why that cannot be, or "".

        Called again for the same job it replaces what was taken before.
        """
        state = self._open.get(job.sub_id)
        if state is None or state.job is not job:
            return "closed: the session was closed"
        if items > self._options.limits.neg_items:
            return self._word("blocked: too many query results", "RESULTS_TOO_BIG")
        total = self._context.neg_budget.items + items - state.items
        if total > self._options.limits.neg_items_total:
            return "rate-limited: too many negentropy sessions are open on this relay"
        self._context.neg_budget.items = total
        state.items = items
        return ""

    def opened(self, job: NegOpenJob, engine: Responder, reply: bytes) -> list[Output]:
        """The snapshot is made, and its first answer."""
        state = self._open.get(job.sub_id)
        if state is None or state.job is not job:
            return []
        state.engine, state.job = engine, None
        state.used_at = self._now()
        return [NegMsg(job.sub_id, reply).to_json()]

    def stepped(self, job: NegStepJob, reply: bytes) -> list[Output]:
        """The answer to a later message."""
        state = self._open.get(job.sub_id)
        if state is not job.state:
            return []
        state.job = None
        state.used_at = self._now()
        return [NegMsg(job.sub_id, reply).to_json()]

    def failed(self, job: NegOpenJob | NegStepJob, reason: str) -> list[Output]:
        """The session ends because of `reason`; a maximum goes with a query that is too big."""
        state = self._open.get(job.sub_id)
        if state is None or state.job is not job:
            return []
        return self._end(state, reason)

    def tick(self) -> list[Output]:
        """End the sessions that were idle for too long."""
        oldest = self._now() - self._options.limits.neg_idle_s
        idle = [s for s in self._open.values() if s.job is None and s.used_at < oldest]
        reason = self._word("closed: idle for too long", "CLOSED")
        return [frame for state in idle for frame in self._end(state, reason)]

    def refuse(self, sub_id: str, reason: str) -> list[Output]:
        """NEG-ERR, with the maximum when the query is too big."""
        too_big = reason.startswith(("blocked: too many", "RESULTS_TOO_BIG"))
        most = self._options.limits.neg_items if too_big else None
        return [NegErr(sub_id, reason, most).to_json()]

    def _end(self, state: NegState, reason: str) -> list[Output]:
        self.close(state.sub_id)
        return self.refuse(state.sub_id, reason)

    def _word(self, current: str, first: str) -> str:
        return first if self._options.neg_reasons == "seed" else current

    def _now(self) -> float:
        return self._context.clock.monotonic()
