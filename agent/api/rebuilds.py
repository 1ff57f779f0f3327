"""What the API says of a bulk rebuild: how it runs, what it made, what a check found."""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from agent.api.shapes import Answer, Body

HEAP: Final = r"^([1-9][0-9]{0,3}g|(51[2-9]|5[2-9][0-9]|[6-9][0-9]{2}|[1-9][0-9]{3})m)(?!\n)$"
"""Sizes of memory that Spark can start with: 512m and more."""


class RebuildBody(Body, frozen=True):
    """Rebuild the derived tables; `check` compares only, `repair` compares and mends."""

    engine: Literal["auto", "spark", "reference"] = "auto"
    check: bool = False
    repair: bool = False
    memory: Annotated[str, Meta(pattern=HEAP)] = "4g"


class RebuildStage(Answer, frozen=True):
    """One stage; `total` is 0 where it is not known."""

    name: str
    state: Literal["started", "running", "done", "skipped"]
    done: int = 0
    total: int = 0
    rows: int = 0
    seconds: float = 0.0


class RebuildDifference(Answer, frozen=True):
    """Something live that is not as the events give it, and why."""

    table: str
    key: str
    cause: str


class Rebuild(Answer, frozen=True):
    """The newest rebuild; `outcome` is empty while it runs, and before the first one.

    `found` counts all differences, null where nothing was compared.
    """

    running: bool = False
    outcome: Literal["", "done", "failed", "cancelled"] = ""
    message: str = ""
    engine: str = ""
    why: str = ""
    started_at: float | None = None
    ended_at: float | None = None
    stages: tuple[RebuildStage, ...] = ()
    rows: dict[str, int] = msgspec.field(default_factory=dict)
    generation: int | None = None
    found: int | None = None
    differences: tuple[RebuildDifference, ...] = ()
    repaired: dict[str, int] = msgspec.field(default_factory=dict)
