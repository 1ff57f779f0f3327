"""The result of a count: one number, and the claims behind it."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import msgspec

from nostr_client import hll
from nostr_client.codecs.relay_url import normalize
from nostr_client.count.enough.bounds import Unasked
from nostr_client.count.figures import LARGEST, ClaimSummary, CountReport, WeighedClaim, Within
from nostr_client.count.merge import Claim, CountUnit, Figure, Merged
from nostr_client.count.queries import Query
from nostr_client.count.wallets import Wallet, WalletStatus

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from nostr_client.count.merge import Receipt
    from nostr_client.count.merge.values import Part


class VerifiedZaps(msgspec.Struct, frozen=True, kw_only=True):
    """How many receipts the recipients' wallets signed, and their sum in millisats.

    Both are lower bounds, and None if receipts exist but no wallet's key is known. `wallets`: one
    for each recipient, those with the largest claimed sums first.
    """

    receipts: Figure | None
    amount: Figure | None
    wallets: tuple[Wallet, ...] = ()

    @property
    def unknown(self) -> tuple[Wallet, ...]:
        """The wallets whose answer is missing: what they signed is unknown."""
        answered = (WalletStatus.OK, WalletStatus.NO_ZAPS)
        return tuple(one for one in self.wallets if one.status not in answered)

    def to_dict(self) -> dict[str, Any]:
        """Return the result as JSON values; null, not 0, if no key is known."""
        return {
            "receipts": None if self.receipts is None else self.receipts.value,
            "amount": None if self.amount is None else self.amount.value,
            "wallets": [wallet.to_dict() for wallet in self.wallets],
        }


def recipients_of(merged: Merged) -> list[str]:
    """Return the receivers of a number's receipts, by their claimed sums, largest first."""
    sums: dict[str, int] = {}
    for receipt, worth in _receipts(merged).values():
        who = receipt.receiver.hex()
        sums[who] = sums.get(who, 0) + worth
    return sorted(sums, key=lambda who: (-sums[who], who))


def verified_zaps(merged: Merged, wallets: Sequence[Wallet]) -> VerifiedZaps | None:
    """Return what the wallets signed of the receipts behind a number; None if none were read."""
    if merged.amount is None:
        return None
    found = _receipts(merged)
    known = {wallet.recipient: wallet for wallet in wallets if wallet.is_known}
    if found and not known:
        return VerifiedZaps(receipts=None, amount=None, wallets=tuple(wallets))
    payments = {
        receipt.payment or id: worth
        for id, (receipt, worth) in found.items()
        if _signed(receipt, known)
    }
    signed = list(payments.values())
    return VerifiedZaps(
        receipts=Figure.at_least(len(signed)),
        amount=Figure.at_least(sum(signed)),
        wallets=tuple(wallets),
    )


def _signed(receipt: Receipt, wallets: dict[str, Wallet]) -> bool:
    wallet = wallets.get(receipt.receiver.hex())
    return wallet is not None and wallet.signed(receipt.signer.hex(), receipt.created_at)


def _receipts(merged: Merged) -> dict[bytes, tuple[Receipt, int]]:
    """Return the receipts that were counted, by id, each with its value in millisats."""
    found: dict[bytes, tuple[Receipt, int]] = {}
    for claim in merged.claims:
        reading = claim.reading
        if reading is None or not claim.answered or reading.receipts is None:
            continue
        worth = reading.amounts or {}
        found |= {id: (one, worth.get(id, 0)) for id, one in reading.receipts.items()}
    return found


class CountResult(msgspec.Struct, frozen=True, kw_only=True):
    """The merged number of all relays, and the claim of each relay.

    `str(result)` is the sentence that the command line prints.
    """

    query: Query
    merged: Merged
    """The merged number, and how each claim was used."""
    relays: tuple[Claim, ...]
    """One claim for each relay, in the order in which the caller named the relays."""
    verified: VerifiedZaps | None = None
    """The zaps that the recipients' wallets signed. Set only if the caller asked for `verify_zaps`.
    """
    unasked: Unasked | None = None
    """The relays that the client did not ask. Set only if a count with `enough` stopped early."""
    within: Within | None = None
    """The authors in a web of trust. Set only if the caller asked for `within`."""

    @property
    def authors(self) -> Figure | None:
        """The number of distinct authors, or None if no relay gave this number."""
        return self.merged.authors

    @property
    def events(self) -> Figure | None:
        """The number of events, or None if no relay gave this number."""
        return self.merged.events

    @property
    def unit(self) -> CountUnit:
        """What `value` counts: distinct authors or events. `Query.unit` decides this."""
        return self.merged.unit

    @property
    def value(self) -> int | None:
        """The number, or None if no relay gave this number. An error is never a zero."""
        return self.merged.figure.value if self.merged.figure else None

    @property
    def low(self) -> int | None:
        """The lower end of the interval around the true number, or None without a number."""
        return self.merged.figure.low if self.merged.figure else None

    @property
    def high(self) -> int | None:
        """The upper end of the interval, or None if nothing bounds the number."""
        return self.merged.figure.high if self.merged.figure else None

    @property
    def exact(self) -> bool:
        """True if the number is known and not estimated."""
        return self.merged.figure is not None and self.merged.figure.exact

    @property
    def lower_bound(self) -> bool:
        """True if something is missing from the number, so the true number can be larger."""
        return self.merged.figure is not None and self.merged.figure.lower_bound

    @property
    def as_said(self) -> bool:
        """True if the number rests on what relays claim: a count, or ids without their events."""
        return self.merged.figure is not None and self.merged.figure.as_said

    @property
    def contents(self) -> dict[str, int] | None:
        """For each content, the number of events that the client read. The most frequent content is
        first.

        None if the query does not ask for contents (`Query.by_content`). For reactions, a content
        is `+` (like), `-` (dislike) or an emoji. For replies, a content is `direct` or `thread`.
        """
        if not self.query.by_content:
            return None
        labels: dict[bytes, str] = {}
        for claim in self.merged.claims:
            labels |= (claim.reading.labels or {}) if claim.reading else {}
        found = Counter(labels.values())
        return dict(sorted(found.items(), key=lambda one: (-one[1], one[0])))

    @property
    def note(self) -> str | None:
        """A text that says what registers and counts cannot distinguish.

        None if the number does not use registers or counts.
        """
        unread = any(c.answered and c.reading is None for c in self.merged.claims)
        return self.query.note if unread else None

    @property
    def answered(self) -> int:
        """The number of relays whose answers can be counted."""
        return sum(claim.answered for claim in self.relays)

    def __str__(self) -> str:
        return str(self.counted())

    def __repr__(self) -> str:
        return f"<CountResult {self}>"

    def counted(self, left_out: Collection[str] = ()) -> CountReport:
        """Return the number with a report on each claim.

        `left_out` has the normalised URLs of the relays that the user excluded.
        """
        merged = self.merged
        parts = {part.relay: part for part in merged.parts}
        by_user = (one.relay for one in self.relays if normalize(one.relay) in left_out)
        out = {*merged.excluded, *by_user}
        return CountReport(
            query=self.query.name,
            target=self.query.target,
            filters=tuple(one.to_dict() for one in self.query.filters),
            unit="events" if self.unit is CountUnit.EVENTS else "distinct_authors",
            figure=_storable(merged.figure),
            authors=_storable(merged.authors),
            events=_storable(merged.events),
            corroborated=_storable(merged.corroborated),
            amount=_storable(merged.amount),
            relays=tuple(
                _weighed(one, parts.get(one.relay), excluded=one.relay in out)
                for one in self.relays
            ),
            within=self.within,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the result as JSON values, as `nostr-client count` prints it.

        Only zaps have `amount` (in millisats). `contents`, `verified`, `unasked`, `within` and
        `note` are present only if they are set.
        """
        amount = self.merged.amount
        worth: dict[str, Any] = {} if amount is None else {"amount": amount.to_dict()}
        left = None if self.unasked is None else self.unasked.to_dict()
        near = None if self.within is None else self.within.to_dict()
        more = {"contents": self.contents, "note": self.note, "unasked": left, "within": near}
        if self.verified is not None:
            worth["verified"] = self.verified.to_dict()
        worth |= {name: value for name, value in more.items() if value is not None}
        return {
            "query": self.query.to_dict(),
            "value": self.value,
            "unit": str(self.unit),
            "low": self.low,
            "high": self.high,
            "exact": self.exact,
            "lower_bound": self.lower_bound,
            "as_said": self.as_said,
            "authors": self.authors.to_dict() if self.authors else None,
            "events": self.events.to_dict() if self.events else None,
            **worth,
            "relays": [claim.to_dict() for claim in self.relays],
        }


def _storable(found: Figure | None) -> Figure | None:
    return None if found is None else found.storable


def _weighed(said: Claim, part: Part | None, *, excluded: bool) -> WeighedClaim:
    """Return one relay's claim, with its part in the number."""
    summary = {name: getattr(said, name) for name in ClaimSummary.__struct_fields__}
    if said.count is not None:
        summary["count"] = min(said.count, LARGEST)
    left_out: tuple[str, ...] = ("left out by the watch",) if excluded else ()
    return WeighedClaim(
        **summary,
        estimate=None if said.registers is None else round(hll.estimate(said.registers), 1),
        used=() if part is None else part.used,
        share=None if part is None else part.share,
        note=said.note,
        reasons=(left_out or said.warnings) if part is None else part.reasons,
        excluded=excluded,
    )
