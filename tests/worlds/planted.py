"""Faults to plant in the product: each stands for a kind that was found once and must not return.

A fault is a change of one function. The generator finds it where a world shows a violation, or
misses a proof, that the same world does not show without it.

Worlds have no question about reposts, no NIP-11 document and no relay of ours. So other tests hold
these kinds: reposts of kind 16 `tests/field/reposts_generic.py`, `search` on a relay without NIP-50
`tests/field/search_ignored.py`, and COUNT and registers of one snapshot
`tests/agent/relay/test_visibility.py`.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from unittest import mock

import msgspec

from nostr_client.codecs.messages import Hint
from nostr_client.codecs.zaps import Zap, read_zap
from nostr_client.count import trust
from nostr_client.count.claiming import RelayOutcome
from nostr_client.count.claims.coverage import ReadCoverage
from nostr_client.count.merge import Claim, ClaimStatus, Figure, Method, Proven, Retracted
from nostr_client.count.merge.better import corrected
from nostr_client.count.merge.sketches import Estimate, people
from nostr_client.network.paging.snapshot import Proof
from nostr_client.protocol import Stamp, StoredFrames
from nostr_client.sync.accepted import Lacking
from nostr_client.sync.memory import Wait
from nostr_client.sync.report import SyncStatus
from tests.worlds.drawing import drawn
from tests.worlds.running import ran

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from nostr_client.codecs.event import Event
    from nostr_client.count.claims import EventChanges, Update
    from nostr_client.count.merge.better import Term
    from nostr_client.count.merge.rules import TestedClaim
    from nostr_client.count.queries import Query
    from nostr_client.count.reading.rounds import ReadRound
    from nostr_client.network.paging.pager import Pager
    from tests.worlds.running import Report


@dataclass(frozen=True)
class Fault:
    """`changes`: what stands in the place of which name (a dotted path)."""

    name: str
    changes: Mapping[str, Any]

    @contextmanager
    def planted(self) -> Iterator[None]:
        """The product with this fault."""
        with ExitStack() as stack:
            for path, new in self.changes.items():
                stack.enter_context(mock.patch(path, new))
            yield


def found(fault: Fault, seeds: Iterable[int]) -> int | None:
    """The first seed whose world shows the fault; None where none does."""
    for seed in seeds:
        world = drawn(seed)
        shown = _signs(ran(world, [fault.planted()]))
        if shown and shown - _signs(ran(world)):
            return seed
    return None


def _signs(report: Report) -> frozenset[str]:
    missed = {what for what in report.tally if "missed" in what}
    return report.kinds | missed


async def _as_it_came(
    query: Query, claims: Mapping[str, Claim], *others: object, **how: object
) -> dict[str, Claim]:
    return dict(claims)


def _by_what_was_kept(original: Callable[..., None]) -> Callable[..., None]:
    def page(self: ReadRound, events: Any, sent: StoredFrames) -> None:
        stamps = tuple(Stamp(one.created_at, one.id.hex()) for one in events)
        original(self, events, msgspec.structs.replace(sent, stamps=stamps, excess=0))

    return page


def _always(value: object) -> property:
    return property(lambda self: value)


async def _proves_nothing_and_says_so(*args: object, **more: object) -> Proof:
    return Proof()


async def _believes_the_listing(self: Any, lacking: Iterable[bytes]) -> bool:
    self.gone.update(lacking)
    return True


async def _forgets(*args: object, **more: object) -> None:
    return None


async def _nothing_lacking(*args: object) -> Lacking:
    return Lacking(set(), set())


def _counts_with_it(claim: Claim, earlier: Claim) -> tuple[Claim, Claim]:
    return claim, msgspec.structs.replace(earlier, relay=claim.relay)


def _zero(base: Claim, outcome: object, error: object) -> Claim:
    return msgspec.structs.replace(base, status=ClaimStatus.OK, method=Method.COUNT, count=0)


def _largest_word(weighed: Iterable[TestedClaim]) -> int:
    return max((one.loose_count or 0 for one in weighed), default=0)


def _summed(sets: Iterable[frozenset[bytes]]) -> frozenset[tuple[int, bytes]]:
    return frozenset((i, key) for i, one in enumerate(sets) for key in one)


def _at_least(cls: type[Figure], value: int, *, as_said: bool = False) -> Figure:
    return Figure.at_least(value)


def _point(cls: type[Figure], value: int, low: int | None = None) -> Figure:
    return Figure(value=value, low=value, high=value)


def _with_any_finish(original: Callable[..., None]) -> Callable[..., None]:
    def begin(self: ReadRound, window: object, largest: int, least: int = 0) -> None:
        original(self, window, largest)

    return begin


def _by_any_zero(original: Callable[..., bool]) -> Callable[..., bool]:
    def settled(self: RelayOutcome, query: Query, *, members: bool = False) -> bool:
        return self.is_bare_zero or original(self, query, members=members)

    return settled


def _has_a_count(claim: Claim) -> bool:
    return claim.count is not None and claim.reading is None and claim.listing is None


def _never_narrower(terms: Sequence[Term], union: bytes, *, robust: bool) -> Estimate:
    return corrected(terms, union, robust=robust)._replace(sigma=people(union, robust=robust).sigma)


def _discards_mined(claim: Claim, claims: object) -> tuple[tuple[str, ...], tuple[str, ...]]:
    return trust.mined(claim.registers or b"").reasons, ()


def _nothing(claim: Claim) -> tuple[str, ...]:
    return ()


def _confirmed(proven: Proven) -> Callable[..., ReadCoverage]:
    def as_confirmed(self: ReadCoverage, at: int, *, judged: bool) -> ReadCoverage:
        shown = self.proven if self.proven is Proven.MEMBERS or judged else proven
        return msgspec.structs.replace(self, proven=shown, confirmed_at=at, holes=())

    return as_confirmed


def _confirmed_unjudged(original: Callable[..., ReadCoverage]) -> Callable[..., ReadCoverage]:
    return lambda self, at, *, judged: original(self, at, judged=False)


def _with_holes_that_fill(original: Callable[..., ReadCoverage]) -> Callable[..., ReadCoverage]:
    def moved(
        self: ReadCoverage, update: Update, changes: EventChanges, newest: int | None
    ) -> ReadCoverage:
        return original(self, msgspec.structs.replace(update, unread=()), changes, newest)

    return moved


def _paying_anybody(receipt: Event, target: str | None, *_: object) -> Zap | None:
    return read_zap(receipt, target)


async def _is_true(*args: object) -> bool:
    return True


def _below_the_cut(step: Callable[[Pager, int, set[str]], None]) -> Any:
    """Turn a page below the oldest second that was sent, not at it."""

    def below(self: Pager, until: int, seen: set[str]) -> None:
        step(self, until - bool(seen), seen)

    return below


def faults() -> tuple[Fault, ...]:
    """All of them; made on demand, as some wrap what they replace."""
    from nostr_client.count.reading.rounds import ReadRound
    from nostr_client.network.paging.pager import Pager

    sent, count, sync = (
        "nostr_client.protocol.StoredFrames",
        "nostr_client.count",
        "nostr_client.sync",
    )
    weighing = "nostr_client.count.merge.weighing"
    return (
        Fault("every EOSE is the end", {f"{sent}.finished": _always(True)}),
        Fault(
            "finish is believed at the limit",
            {f"{sent}.finished": property(lambda self: self.hint is Hint.FINISH)},
        ),
        Fault(
            "a page is turned by what was kept of it",
            {f"{count}.reading.rounds.ReadRound.page": _by_what_was_kept(ReadRound.page)},
        ),
        Fault(
            "the order of a page is not looked at",
            {
                "nostr_client.network.paging.pager.is_newest_first": lambda stamps: True,
                "nostr_client.network.paging.pager.Pager._asks_top": _always(False),
            },
        ),
        Fault(
            "the next page leaves out the second that was cut",
            {"nostr_client.network.paging.pager.Pager._step": _below_the_cut(Pager._step)},
        ),
        Fault(
            "frames that cannot be read are passed over",
            {f"{sent}.unread": _always(0), f"{sent}.unread_near": lambda self: set()},
        ),
        Fault(
            "a dense second is taken for whole",
            {f"{sent}.second_may_be_cut": lambda self, largest: False},
        ),
        Fault("a stand-in is exact", {f"{count}.remembering.stand_in": _counts_with_it}),
        Fault(
            "a snapshot is believed without a proof of its floor",
            {f"{count}.reading.comparing.prove_floor": _proves_nothing_and_says_so},
        ),
        Fault(
            "an id that was not named is gone",
            {f"{count}.reading.comparing.Comparison._look_for": _believes_the_listing},
        ),
        Fault(
            "what was read once is still known",
            {"nostr_client.count.merge.rules._are_known": lambda weighed, part: True},
        ),
        Fault(
            "a bare count is a proven low end",
            {"nostr_client.count.merge.rules.vouched_count": _largest_word},
        ),
        Fault(
            "an equal count proves the members",
            {
                "nostr_client.count.claims.coverage.ReadCoverage.as_confirmed": _confirmed(
                    Proven.MEMBERS
                )
            },
        ),
        Fault(
            "an equal count proves the receipts",
            {
                "nostr_client.count.claims.coverage.ReadCoverage.as_confirmed": _confirmed_unjudged(
                    ReadCoverage.as_confirmed
                )
            },
        ),
        Fault(
            "the hole of a frame that could not be read is filled without it",
            {
                "nostr_client.count.claims.coverage.ReadCoverage.moved": _with_holes_that_fill(
                    ReadCoverage.moved
                )
            },
        ),
        Fault(
            "the upper end of a list of ids is not proven",
            {f"{count}.reading.listing._Lister._reaches_up": _is_true},
        ),
        Fault(
            "an id that a later list leaves out is gone",
            {f"{count}.reading.listing._Lister._look_for": _is_true},
        ),
        Fault("a REQ is sent after finish", {f"{sent}.finished": _always(False)}),
        Fault("zaps may pay anybody", {f"{count}.queries.read_zap": _paying_anybody}),
        Fault(
            "newest lists are not looked at",
            {f"{count}.procedure.is_compared": lambda query: False},
        ),
        Fault(
            "a bare zero is a number",
            {
                "nostr_client.count.merge.Claim.weak_zero": _always(False),
                f"{count}.claiming.RelayOutcome.settled": _by_any_zero(RelayOutcome.settled),
            },
        ),
        Fault("an error is zero", {f"{count}.claiming._failed": _zero}),
        Fault(
            "a finish is believed beside a larger COUNT",
            {f"{count}.reading.rounds.ReadRound._begin": _with_any_finish(ReadRound._begin)},
        ),
        Fault(
            "a page that is no multiple of 50 is the end",
            {f"{sent}.finished": property(lambda self: self.frames % 50 != 0)},
        ),
        Fault(
            "what is not exact is a point",
            {"nostr_client.count.merge.Figure.at_least": classmethod(_point)},
        ),
        Fault(
            "an estimated count is exact", {"nostr_client.count.merge.rules._is_firm": _has_a_count}
        ),
        Fault(
            "mined keys are trusted",
            {
                f"{weighing}._form": lambda claim, claims: ((), ()),
                "nostr_client.count.merge.rules.bent": lambda sketches: False,
            },
        ),
        Fault("mined keys discard their relay", {f"{weighing}._form": _discards_mined}),
        Fault(
            "counts correct registers whether or not they agree",
            {f"{weighing}.disagreeing": lambda terms, robust: {}},
        ),
        Fault(
            "an interval never narrows",
            {"nostr_client.count.merge.rules.corrected": _never_narrower},
        ),
        Fault(
            "ids are believed without a sample",
            {
                "nostr_client.count.merge.members._twice": lambda lists: frozenset().union(*lists),
                f"{weighing}._listing_verdict": _nothing,
            },
        ),
        Fault(
            "the first round of a watch is not judged",
            {f"{count}.procedure.judge_beside": _as_it_came},
        ),
        Fault(
            "what an author deleted counts",
            {f"{count}.judging.JudgedRelay.retracted": _always(Retracted())},
        ),
        Fault(
            "private kinds are uploaded",
            {f"{sync}.sharing.stays": lambda event, filters, *, include_private: False},
        ),
        Fault(
            "protected events are uploaded",
            {f"{sync}.sharing.is_protected": lambda event: False},
        ),
        Fault(
            "a sync forgets what a relay withheld",
            {f"{sync}.download_queue.DownloadQueue._still": lambda self, ids: {}},
        ),
        Fault(
            "a sync believes a snapshot without a proof of its floor",
            {f"{sync}.compare.floor.prove_floor": _proves_nothing_and_says_so},
        ),
        Fault("relays are added up", {"nostr_client.count.merge.rules.union": _summed}),
        Fault(
            "nothing is ever exact",
            {"nostr_client.count.merge.Figure.exactly": classmethod(_at_least)},
        ),
        Fault(
            "signatures are not checked",
            {"nostr_client.codecs.keys._signature_holds": lambda e: True},
        ),
        Fault(
            "what does not match counts",
            {"nostr_client.codecs.filters.Filter.matches": lambda self, event: True},
        ),
        Fault(
            "receipts are believed",
            {
                f"{count}.queries.read_zap": lambda receipt, *rest: Zap(
                    1_000, receipt.pubkey, receipt.pubkey
                )
            },
        ),
        Fault(
            "every sync is complete",
            {f"{sync}.tally.RelayTally.status": _always(SyncStatus.COMPLETE)},
        ),
        Fault(
            "no verdict is remembered",
            {f"{sync}.memory.{one}.note": _forgets for one in ("StoredMemory", "LocalMemory")},
        ),
        Fault(
            "an upload without an OK is forgotten",
            {
                f"{sync}.uploads.Uploads.{one}": _forgets
                for one in ("_unanswered", "note_unsettled")
            },
        ),
        Fault(
            "every OK is believed", {f"{sync}.accepted.AcceptedEvents.lacking": _nothing_lacking}
        ),
        Fault(
            "every refusal is for good",
            {f"{sync}.memory.wait_of": lambda verdict, options: Wait(1e8, 1e8)},
        ),
    )
