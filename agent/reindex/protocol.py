"""Types of a rebuild's job, and of the JSON lines that the child process answers with."""

from __future__ import annotations

import re
from typing import Any, Final, Literal

import msgspec

from agent.api.schema import RebuildStage
from agent.reindex.inputs import Input, Settings
from nostr_client.errors import InvalidInput, clip
from nostr_client.store.base import Difference
from nostr_client.store.derived import Repairs

EngineName = Literal["spark", "reference"]

STAGES: Final = ("events", "dead", "tags", "registers", "daily", "counters", "fingerprints")
"""What is staged, in order; `publish` and `check` follow."""

LOCAL: Final = "local[*]"
"""Where Spark runs by default: on all cores of this machine."""

MEMORY: Final = "4g"
"""Java's heap by default."""

LEAST_MEMORY: Final = 512
"""MiB of heap: Spark refuses to start if Java reports less than 450 of them."""

INTERRUPTED: Final = 130
"""The exit code after a cancellation."""


def checked_memory(text: str) -> str:
    """Java's heap as Java takes it, `4g` or `512m`. Raises InvalidInput for what Spark cannot start
    with."""
    found = re.fullmatch(r"([1-9][0-9]{0,3})([gm])", text)
    if found is None:
        raise InvalidInput(f"{clip(text)} is not a size of memory: a number with g or m, as 4g")
    if int(found[1]) * (1024 if found[2] == "g" else 1) < LEAST_MEMORY:
        raise InvalidInput(f"{text} is too little memory: Spark needs {LEAST_MEMORY}m")
    return text


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """One rebuild. `work`: folder or URL for what is staged; `out`: where archives' tables go;
    `conf`: settings of Spark that the user gave; `catalog`: a namespace of one of its catalogs
    for the same tables, or ""."""

    source: Input
    settings: Settings
    engine: EngineName
    work: str
    out: str = ""
    check: bool = False
    master: str = LOCAL
    memory: str = MEMORY
    partitions: int = 8
    aot: Literal["train", "use", "off"] = "train"
    submitted: bool = False
    conf: tuple[tuple[str, str], ...] = ()
    catalog: str = ""


class LogText(msgspec.Struct, frozen=True, tag="talk"):
    """Something for people."""

    text: str


class Stage(RebuildStage, frozen=True, tag="stage"):
    """How a stage does; `cpu` are seconds of all processes, where they are known."""

    cpu: float = 0.0


class Checked(msgspec.Struct, frozen=True, tag="checked"):
    """What a check found; `differences` has the first ones of each table, `found`
    counts all."""

    found: int
    compared: dict[str, int]
    differences: tuple[Difference, ...] = ()
    repairs: Repairs = Repairs()


class Built(msgspec.Struct, frozen=True, tag="built"):
    """The tables are there. `path`: an index file, or "" where the Parquet is the product."""

    path: str
    fingerprint: str
    next_seq: int
    removals: int
    rows: dict[str, int]
    statuses: dict[str, int]
    rejects: dict[str, int] = {}
    seconds: float = 0.0


class Failed(msgspec.Struct, frozen=True, tag="failed"):
    """It ended without a result."""

    message: str
    code: int = 1


Message = LogText | Stage | Checked | Built | Failed

_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder(Message).decode
_decode_job: Final = msgspec.json.Decoder(Job).decode


def to_line(message: Any) -> bytes:
    """A message, or a job, as one line."""
    return _encode(message) + b"\n"


def from_line(line: bytes) -> Message:
    """Parse a line of the child. Raises msgspec.MsgspecError."""
    message: Message = _decode(line)
    return message


def read_job(line: bytes) -> Job:
    """The job of a child. Raises msgspec.MsgspecError."""
    return _decode_job(line)
