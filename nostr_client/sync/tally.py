"""Count the numbers of one relay while a sync runs, and turn them into its report."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from nostr_client.codecs.display import plural
from nostr_client.errors import NostrTallyError
from nostr_client.store.base import SaveStatus
from nostr_client.sync.memory import SETTLED, RefusalNote, Verdict
from nostr_client.sync.report import RelayReport, SyncStatus

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from nostr_client.network.relay import Relay
    from nostr_client.store.base import SaveOutcome
    from nostr_client.sync.download_queue import Missing
    from nostr_client.sync.sharing import WithheldReason

_HELD = (SaveStatus.STORED, SaveStatus.DUPLICATE)

_REASONS = 4
"""Most reasons kept for one relay."""


class RelayOut(NostrTallyError):
    """Raised if nothing more can be done with this relay. Used only inside this package."""


@dataclass(slots=True)
class RelayTally:
    """Numbers of one relay. `name` is the relay as the user wrote it."""

    name: str
    relay: Relay
    keep_ids: bool = False
    local: int | None = None
    """Number of all local items, if `held` is wanted."""
    need: int = 0
    have: int = 0
    downloaded: int = 0
    uploaded: int = 0
    rounds: int = 0
    windows: int = 0
    paged: int = 0
    items: int = 0
    """Local items of the windows that were compared to their end."""
    declined: int = 0
    hidden: int = 0
    """Ids that the relay named without sending the event."""
    skipped: int = 0
    """Events that were not tried because the memory says to wait."""
    withheld: dict[str, int] = field(default_factory=dict)
    """The ids of `hidden` by reason."""
    unmoved: Counter[RefusalNote] = field(default_factory=Counter)
    """Uploads by verdict and reason, of this run or remembered."""
    held_back: Counter[WithheldReason] = field(default_factory=Counter)
    """Events that were not sent, by the rule that holds them back."""
    ended: bool = False
    """Whether the run ended, successfully or not."""
    lacking: set[bytes] = field(default_factory=set)
    """The ids of `have`."""
    unsupported: str = ""
    """Why the relay was not compared by negentropy, or why this stopped."""
    by_req: str = ""
    """Why one of the filters was not compared by negentropy."""
    remarks: dict[str, None] = field(default_factory=dict)
    """Unusual facts that leave no work."""
    no_other_way: bool = False
    """Whether it ended because only negentropy was allowed."""
    moves: int = 0
    """Grows with every kind of progress."""
    missing_here: list[str] = field(default_factory=list)
    missing_there: list[str] = field(default_factory=list)
    _left: dict[str, None] = field(default_factory=dict)
    _sent_before: int = 0
    _received_before: int = 0

    def __post_init__(self) -> None:
        stats = self.relay.stats
        self._sent_before, self._received_before = stats.bytes_sent, stats.bytes_received

    def lacks(self, why: str) -> None:
        """Note that work is left with this relay, and why."""
        if len(self._left) < _REASONS:
            self._left[why] = None

    @property
    def lacking_something(self) -> bool:
        """Whether any work is left."""
        return bool(self._left)

    def absorb(self, part: RelayTally) -> None:
        """Add the numbers of another tally of the same relay, without its ids."""
        self.rounds += part.rounds
        self.windows += part.windows
        self.paged += part.paged
        self.moves += part.moves
        self.unsupported = self.unsupported or part.unsupported
        self.by_req = self.by_req or part.by_req
        self.remarks |= part.remarks
        for why in part._left:
            self.lacks(why)

    def lacks_here(self, missing: Missing) -> None:
        """Replace the counts of hidden ids by `missing`: what the relay named and nobody sent."""
        self.withheld = missing.withheld
        self.hidden = sum(missing.withheld.values())
        self.skipped += missing.skipped
        if missing.owed:
            self.lacks(f"{plural(missing.owed, 'event was', 'events were')} not downloaded")

    def withholds(self, notes: Iterable[RefusalNote], *, skipped: bool = False) -> None:
        """Count ids that the relay named and does not send.

        `skipped`: this run did not ask for them.
        """
        for note in notes:
            self.withheld[note.reason] = self.withheld.get(note.reason, 0) + 1
            self.hidden += 1
            self.skipped += skipped

    def skips(self, notes: Iterable[RefusalNote]) -> None:
        """Count uploads that must wait."""
        for note in notes:
            self.unmoved[note] += 1
            self.skipped += note.verdict not in SETTLED

    @property
    def refused(self) -> int:
        """The uploads that the relay refused or did not answer, in this run or before."""
        return sum(count for note, count in self.unmoved.items() if note.verdict not in SETTLED)

    def saves(self, outcomes: Sequence[SaveOutcome]) -> None:
        """Count the store's outcomes for events of this relay."""
        self.downloaded += sum(one.stored for one in outcomes)
        self.declined += sum(one.status not in _HELD for one in outcomes)

    def needs(self, ids: list[bytes]) -> None:
        """Count ids that the relay has and we do not."""
        self.need += len(ids)
        self.moves += len(ids)
        if self.keep_ids:
            self.missing_here += [key.hex() for key in ids]

    def haves(self, ids: list[bytes]) -> None:
        """Count ids that we have and the relay does not."""
        self.lacking.update(ids)
        self.have += len(ids)
        self.moves += len(ids)
        if self.keep_ids:
            self.missing_there += [key.hex() for key in ids]

    def window_done(self, items: int, *, paged: bool = False) -> None:
        """Count a window that was compared to its end."""
        self.windows += 1
        self.paged += paged
        self.items += items
        self.moves += 1

    @property
    def status(self) -> SyncStatus:
        """The status by the numbers so far. It is never complete before the end."""
        if not (self._left or self.withheld or self.refused):
            return SyncStatus.COMPLETE if self.ended else SyncStatus.RUNNING
        if self.windows or self.downloaded or self.uploaded or self.rounds:
            return SyncStatus.PARTIAL
        return SyncStatus.UNSUPPORTED if self.no_other_way else SyncStatus.FAILED

    def report(self) -> RelayReport:
        """Return the numbers so far as a value."""
        stats = self.relay.stats
        held = None
        if self.local is not None and self.ended and not self._left:
            held = self.local - self.have + self.need
        return RelayReport(
            relay=self.name,
            status=self.status,
            reason=self._reason(),
            need=self.need,
            have=self.have,
            downloaded=self.downloaded,
            uploaded=self.uploaded,
            bytes_sent=stats.bytes_sent - self._sent_before,
            bytes_received=stats.bytes_received - self._received_before,
            rounds=self.rounds,
            windows=self.windows,
            compared=self.items + self.downloaded,
            paged=self.paged,
            declined=self.declined,
            hidden=self.hidden,
            refused=self.refused,
            skipped=self.skipped,
            held_back=self.held_back.total(),
            held=held,
            missing_here=tuple(self.missing_here),
            missing_there=tuple(self.missing_there),
        )

    def _reason(self) -> str:
        """Return why work is left, then the unusual facts."""
        parts = list(self._left)
        withheld = self.withheld.items()
        parts += [f"{plural(count, 'id was', 'ids were')} {why}" for why, count in withheld]
        if self.hidden and not self.withheld:
            parts.append(f"{plural(self.hidden, 'id was', 'ids were')} named and not sent")
        parts += self._verdicts()
        if self.skipped:
            skipped = plural(self.skipped, "of these was", "of these were")
            parts.append(f"{skipped} not tried again yet")
        if self.paged and (why := self.unsupported or self.by_req):
            parts.append(f"read by REQ, not by negentropy ({why})")
        parts += self.remarks
        parts += [f"{count} held back: {why}" for why, count in self.held_back.items()]
        return "; ".join(parts)

    def _verdicts(self) -> list[str]:
        """Return the most frequent refusals with their reasons, then what the relay has already."""
        refused = [(n, c) for n, c in self.unmoved.most_common() if n.verdict not in SETTLED]
        parts = [_became(c, n) for n, c in refused[:3]]
        if rest := sum(count for _, count in refused[3:]):
            parts.append(
                f"{plural(rest, 'more event was', 'more events were')} refused or not answered"
            )
        for verdict, words in _HAS.items():
            if count := sum(c for n, c in self.unmoved.items() if n.verdict is verdict):
                parts.append(f"{plural(count, 'event')} {words}")
        return parts


def _became(count: int, note: RefusalNote) -> str:
    """Return how many uploads did not move, and why."""
    text = plural(count, "event was", "events were")
    if note.verdict is Verdict.UNANSWERED:
        return f"{text} not answered ({note.reason})"
    return f"{text} refused ({note.reason or 'no reason'})"


_HAS = {
    Verdict.PRESENT: "it has and did not list",
    Verdict.SUPERSEDED: "of which it has a newer version",
}
