"""Remember merges: of most watches a round brings the same evidence as the one before.

Merging reads no times and no sizes of claims. So claims that differ only in these give the same
number, and only the claims in it are new.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from nostr_client.count.merge.combine import merge_claims
from nostr_client.count.merge.rules import distinct
from nostr_client.count.merge.values import CountUnit, Merged
from nostr_client.count.trust import TrustPolicy

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Hashable, Iterable, Sequence

    from nostr_client.count.merge.values import Claim, Reading, Retracted

MOST_MERGES: Final = 4_096
"""Merges that are remembered, some 3 kB each: one of each of 4,000 watches."""


class _Outcome(NamedTuple):
    """A merge without its claims, and their warnings, in order."""

    merged: Merged
    warnings: tuple[tuple[str, ...], ...]

    @classmethod
    def of(cls, merged: Merged) -> _Outcome:
        warnings = tuple(claim.warnings for claim in merged.claims)
        return cls(msgspec.structs.replace(merged, claims=()), warnings)


class RepeatedMerges:
    """Merges by their evidence; of each, the claims stay only as their warnings.

    `merge` has the arguments and the result of `merge_claims`.
    """

    def __init__(self, most: int = MOST_MERGES, make: Callable[..., Merged] = merge_claims) -> None:
        self._most = most
        self._make = make
        self._known: dict[Hashable, _Outcome] = {}

    def merge(
        self,
        claims: Iterable[Claim],
        *,
        one_per_author: bool,
        policy: TrustPolicy = TrustPolicy.EXCLUDE,
        trusted: Collection[str] = (),
        unit: CountUnit = CountUnit.AUTHORS,
    ) -> Merged:
        """Return the merge of claims, made only if it is not known."""
        found = distinct(claims)
        evidence = [_evidence(claim) for claim in found]
        make = partial(
            self._make,
            found,
            one_per_author=one_per_author,
            policy=policy,
            trusted=trusted,
            unit=unit,
        )
        if None in evidence:
            return make()
        rules = one_per_author, policy, frozenset(trusted), unit
        return _with_claims(*self._of((rules, tuple(evidence)), make), found)

    def _of(self, key: Hashable, make: Callable[[], Merged]) -> _Outcome:
        known = self._known.pop(key, None) or _Outcome.of(make())
        self._known[key] = known  # the most recently used merge is the last one
        if len(self._known) > self._most:
            self._known.pop(next(iter(self._known)), None)
        return known


def _with_claims(
    merged: Merged, warnings: Sequence[tuple[str, ...]], claims: Sequence[Claim]
) -> Merged:
    warned = tuple(
        claim if claim.warnings == said else msgspec.structs.replace(claim, warnings=said)
        for claim, said in zip(claims, warnings, strict=True)
    )
    return msgspec.structs.replace(merged, claims=warned)


def _names_events(retracted: Retracted) -> bool:
    return bool(retracted.lists or retracted.asked or retracted.earlier or retracted.suspects)


def _evidence(claim: Claim) -> Hashable | None:
    """Return what merging reads of a claim; None if that is more than a number and its members."""
    retracted = claim.retracted
    if claim.listing is not None or _names_events(retracted):
        return None
    read = None if claim.reading is None else _members(claim.reading)
    if claim.reading is not None and read is None:
        return None
    return (
        claim.relay,
        claim.status,
        claim.method,
        claim.count,
        claim.count_high,
        claim.approximate,
        claim.limited,
        claim.registers,
        claim.stands_in,
        claim.warnings,
        hash(retracted.ids),
        len(retracted.ids),
        retracted.looked_for,
        retracted.asked is None,
        read,
    )


def _members(reading: Reading) -> Hashable | None:
    """Return what merging reads of a reading; None if its events have values of their own.

    Sets of ids stand here as their hashes, which nobody outside this process can foresee: the
    sets of all watches would be too much to keep.
    """
    if reading.amounts is not None or reading.labels is not None or reading.doubted:
        return None
    return (
        hash(reading.authors),
        len(reading.authors),
        hash(reading.events),
        len(reading.events),
        reading.complete,
        reading.proven,
        reading.gone,
        reading.evidence,
        reading.balanced,
    )
