"""Define the direction of a sync. Without the limits of one, which take longer to load."""

from __future__ import annotations

from enum import StrEnum


class Direction(StrEnum):
    """The direction in which a sync moves events."""

    DOWN = "down"
    """From the relays to the store."""
    UP = "up"
    """From the store to the relays."""
    BOTH = "both"
    """In both directions."""

    @property
    def down(self) -> bool:
        """True when events are downloaded."""
        return self is not Direction.UP

    @property
    def up(self) -> bool:
        """True when events are uploaded."""
        return self is not Direction.DOWN
