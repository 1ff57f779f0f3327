"""The result of a count: one number, and the claims that it was made of."""

from __future__ import annotations

from typing import Any

import msgspec

from nostr_client.count.queries import Query
from nostr_client.merge import Claim, ClaimStatus, Figure, Merged, Unit


class CountResult(msgspec.Struct, frozen=True, kw_only=True):
    """What all relays say together, and what each said, in the order they were named.

    `value` is in `unit`: distinct authors wherever registers or events could be used, else
    events; None when no relay said anything. `authors` and `events` hold both numbers.
    """

    query: Query
    merged: Merged
    relays: tuple[Claim, ...]

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
    def answered(self) -> int:
        """How many relays gave something to count with."""
        return sum(claim.answered for claim in self.relays)

    @property
    def all_timed_out(self) -> bool:
        """True when every relay was silent until the end."""
        return all(claim.status is ClaimStatus.TIMEOUT for claim in self.relays)

    def to_dict(self) -> dict[str, Any]:
        """The result as JSON values, as the command line and the HTTP API give it.

        `amount` (millisats) is there for zaps alone.
        """
        amount = self.merged.amount
        worth = {} if amount is None else {"amount": amount.to_dict()}
        return {
            "query": self.query.to_dict(),
            "value": self.value,
            "unit": str(self.unit),
            "low": self.low,
            "high": self.high,
            "exact": self.exact,
            "lower_bound": self.lower_bound,
            "authors": self.authors.to_dict() if self.authors else None,
            "events": self.events.to_dict() if self.events else None,
            **worth,
            "relays": [claim.to_dict() for claim in self.relays],
        }
