"""A world as a value: relays with their behaviours and events, and what happens step by step.

A world is frozen, prints as the Python that makes it again, and can be made smaller piece by
piece; nothing in it is random any more.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from nostr_client import count
from nostr_client.codecs.filters import Filter
from tests.worlds.items import KINDS, note_id
from tests.worlds.people import TARGET

if TYPE_CHECKING:
    from nostr_client.count import Query
    from tests.worlds.behaviours import Behaviour
    from tests.worlds.items import Item

QUESTIONS: Final = ("followers", "reactions", "notes", "notes+reactions", "zaps", "messages")
"""What is counted and synced. One more, "mentions", is of any kind and is only synced."""

SORTS: Final = {
    "followers": ("follow",),
    "reactions": ("reaction",),
    "notes": ("note",),
    "notes+reactions": ("note", "reaction"),
    "zaps": ("zap",),
    "messages": ("message",),
    "mentions": ("mention", "message", "protected"),
}
"""The sorts of items that each question is about."""


@dataclass(frozen=True)
class RelaySpec:
    """One relay: how it behaves, and what it holds at first."""

    behaviours: tuple[Behaviour, ...] = ()
    items: tuple[Item, ...] = ()


@dataclass(frozen=True)
class Change:
    """What one relay gets and loses."""

    relay: int
    adds: tuple[Item, ...] = ()
    loses: tuple[Item, ...] = ()


@dataclass(frozen=True)
class Step:
    """One thing that the client does: "count", "watch", "down" or "both" (syncs).

    `gap`: seconds that pass before it; `changes` happen in them, `live` while the client watches.
    `restart`: the client is closed and opened again before.
    """

    action: str
    gap: int = 60
    changes: tuple[Change, ...] = ()
    live: tuple[Change, ...] = ()
    restart: bool = False


@dataclass(frozen=True)
class World:
    """See the module. `kept`: the client has a store. `local`: what is in it at first.

    `private`: syncs hand over what is of a private kind that the question does not name.
    """

    seed: int
    question: str
    relays: tuple[RelaySpec, ...]
    steps: tuple[Step, ...]
    kept: bool = True
    local: tuple[Item, ...] = ()
    private: bool = True

    @property
    def size(self) -> int:
        """How much there is to look at for whoever reads it."""
        items = sum(len(relay.items) for relay in self.relays) + len(self.local)
        behaviours = sum(len(relay.behaviours) for relay in self.relays)
        caps = sum(one.cap() or 0 for relay in self.relays for one in relay.behaviours)
        changes = sum(
            len(one.adds) + len(one.loses)
            for step in self.steps
            for one in step.changes + step.live
        )
        odd = sum(step.restart + (step.action == "watch") for step in self.steps)
        return items + 5 * (behaviours + len(self.relays) + len(self.steps)) + changes + odd + caps

    @property
    def query(self) -> Query:
        """The question as the client asks it."""
        match self.question:
            case "followers":
                return count.followers(TARGET)
            case "reactions":
                return count.reactions(note_id())
            case "zaps":
                return count.zaps(note_id())
        return count.query(Filter.from_json(self.wire))

    @property
    def wire(self) -> dict[str, Any]:
        """The question's one filter as JSON values."""
        kinds = sorted(KINDS[sort] for sort in SORTS[self.question])
        match self.question:
            case "mentions":
                return {"#p": [TARGET]}
            case "followers":
                return {"kinds": kinds, "#p": [TARGET]}
            case "reactions" | "zaps":
                return {"kinds": kinds, "#e": [note_id()]}
        return {"kinds": kinds}

    @property
    def has_registers(self) -> bool:
        """Whether NIP-45 defines registers for the question."""
        return self.question in ("followers", "reactions")

    @property
    def is_listed(self) -> bool:
        """Whether several relays are asked for their single events: their numbers do not add up."""
        return len(self.relays) > 1 and self.question in ("notes", "notes+reactions")

    def stays(self, item: Item) -> bool:
        """Whether an event must not be handed to any relay."""
        return item.sort == "protected" or (item.sort == "message" and self._is_private)

    @property
    def _is_private(self) -> bool:
        return self.question == "mentions" and not self.private

    @property
    def one_per_author(self) -> bool:
        """Whether an author has at most one event that counts."""
        return self.question == "followers"
