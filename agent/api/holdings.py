"""What the API says of the store: totals, derived tables, what is removed when it gets old."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from agent.api.shapes import Answer, Body


class Index(Answer, frozen=True):
    """The store's derived tables: `hot` targets are kept, `dirty` of them have registers that may
    be too high; the generation counts up with each bulk rebuild."""

    generation: int
    hot: int
    dirty: int
    bytes: int


class HotTarget(Answer, frozen=True):
    """A target with many events: those of one kind that name it in one tag."""

    name: str
    value: str
    kind: int
    events: int
    authors: int
    estimate: float
    dirty: bool


class HotTargets(Answer, frozen=True):
    """The targets with most events, those first."""

    targets: tuple[HotTarget, ...]


class IndexMark(Answer, frozen=True):
    """Where a bulk rebuild begins: what it is to write into the `about` of its file."""

    next_seq: int
    removals: int


class AdoptBody(Body, frozen=True):
    """A file of this machine that holds derived tables, built since the newest snapshot."""

    path: Annotated[str, Meta(min_length=1, max_length=4096)]


class Store(Answer, frozen=True):
    """What the store holds; `index` is null where none is kept."""

    path: str
    events: int
    authors: int
    tags: int
    deleted: int
    expiring: int
    bytes: int
    oldest: int | None
    newest: int | None
    kinds: dict[str, int]
    index: Index | None = None


class Rule(Answer, frozen=True):
    """A rule of retention."""

    older_than: str
    kinds: tuple[int, ...] = ()
    authors: tuple[str, ...] = ()
    keep_authors: tuple[str, ...] = ()


class Retention(Answer, frozen=True):
    """What is removed when it gets old, and what the newest run removed."""

    rules: tuple[Rule, ...]
    ran_at: float | None = None
    removed: int = 0
    removed_total: int = 0
