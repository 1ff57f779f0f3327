"""The result of a count: one number, and the claims that it was made of."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec

from nostr_client.count.queries import Query
from nostr_client.count.verified import VerifiedZaps
from nostr_client.merge import Claim, Figure, Merged, Unit


class CountResult(msgspec.Struct, frozen=True, kw_only=True):
    """What all relays say together, and what each said, in the order they were named.

    `value` is in `unit`, which the question decides (`Query.unit`): distinct authors for a named
    question, events for filters and zaps. It is None when no relay told that number. `authors` and
    `events` hold both numbers.
    """

    query: Query
    merged: Merged
    relays: tuple[Claim, ...]
    verified: VerifiedZaps | None = None
    """What the recipients' wallets signed of the zaps, where that was asked for."""

    @property
    def authors(self) -> Figure | None:
        """Distinct authors, or None when nobody said."""
        return self.merged.authors

    @property
    def events(self) -> Figure | None:
        """Events, or None when nobody said."""
        return self.merged.events

    @property
    def unit(self) -> Unit:
        """What `value` counts."""
        return self.merged.unit

    @property
    def value(self) -> int | None:
        """The number, or None when nobody said: an error is not a zero."""
        return self.merged.figure.value if self.merged.figure else None

    @property
    def low(self) -> int | None:
        """Lower end of where the truth lies."""
        return self.merged.figure.low if self.merged.figure else None

    @property
    def high(self) -> int | None:
        """Upper end, None where nothing bounds it."""
        return self.merged.figure.high if self.merged.figure else None

    @property
    def exact(self) -> bool:
        """True when the number is known, not estimated."""
        return self.merged.figure is not None and self.merged.figure.exact

    @property
    def lower_bound(self) -> bool:
        """True when something is known to be missing from the number."""
        return self.merged.figure is not None and self.merged.figure.lower_bound

    @property
    def as_said(self) -> bool:
        """True when the number is what relays say: a count, or ids that they name."""
        return self.merged.figure is not None and self.merged.figure.as_said

    @property
    def contents(self) -> dict[str, int] | None:
        """Events by what they say, most first, of those that were read; None if not asked for.

        Reactions: `+` likes, `-` dislikes, emoji. Replies: `direct` and `thread`. See
        `Query.by_content`.
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
        """What the number cannot tell, where it does not come from events alone; else None."""
        told = any(c.answered and c.reading is None for c in self.merged.claims)
        return self.query.note if told else None

    @property
    def answered(self) -> int:
        """How many relays gave something to count with."""
        return sum(claim.answered for claim in self.relays)

    def to_dict(self) -> dict[str, Any]:
        """The result as JSON values, as the command line and the HTTP API give it.

        `amount` (millisats) is there for zaps alone, `contents` and `verified` where they were
        asked for, `note` where there is one.
        """
        amount = self.merged.amount
        worth: dict[str, Any] = {} if amount is None else {"amount": amount.to_dict()}
        more = {"contents": self.contents, "note": self.note}
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
