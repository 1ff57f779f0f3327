"""What a sync is to do: move events, or only compare."""

from __future__ import annotations

from dataclasses import dataclass

from nostr_client.sync.options import Direction


@dataclass(frozen=True, slots=True)
class Mode:
    """`dry_run`: compare only. `ids_only`: the same, and what is settled counts too.

    `keep_ids`: list the ids that differ. `by_req`: read ids from events where it must be.
    `include_private`, `include_others`: hand over what `sharing` holds back otherwise.
    """

    direction: Direction = Direction.DOWN
    dry_run: bool = False
    ids_only: bool = False
    keep_ids: bool = False
    by_req: bool = False
    include_private: bool = False
    include_others: bool = False

    @property
    def moves(self) -> bool:
        return not (self.dry_run or self.ids_only)

    @property
    def downloads(self) -> bool:
        return self.moves and self.direction.down

    @property
    def uploads(self) -> bool:
        return self.moves and self.direction.up

    @property
    def every(self) -> bool:
        """Whether settled ids count."""
        return self.ids_only
