"""Describes the input of a rebuild, a store or archives, and names its work folder by it.

The fingerprint names the folder of the work: the same input finds the stages that are done,
another one starts from the beginning.
"""

from __future__ import annotations

import hashlib
import secrets
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, NamedTuple
from urllib.parse import urlsplit

import msgspec

from nostr_client.errors import InvalidInput, StoreError
from nostr_client.store.event_lines import BEGIN_BYTES, refuse_foreign
from nostr_client.store.file.connect import check_file, file_uri
from nostr_client.store.file.faults import opening_error
from nostr_client.store.index.schema import HOT, IndexedState
from nostr_client.store.schema import HASH_KEY

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

PLAN: Final = 9
"""Raise it when a stage's tables change: what an older program staged is then not used."""

Kind = Literal["store", "jsonl", "parquet"]

ONCE: Final = "once-"
"""Prefix of work that no other run may resume: its input cannot be distinguished from another one
with the same names."""

GLOB: Final = frozenset("{}[]*?\\")
"""Characters that Hadoop reads as a pattern in a path."""


class Input(msgspec.Struct, frozen=True, kw_only=True):
    """Where events come from: one store's file, or paths of archives.

    Paths of archives are files, folders, or URLs of a file system that Hadoop knows
    (`s3a://`, `hdfs://`, `file://`), which only Spark reads.
    """

    kind: Kind
    paths: tuple[str, ...]

    @property
    def remote(self) -> bool:
        """Whether plain Python cannot read it."""
        return any(is_url(path) for path in self.paths)

    @property
    def store(self) -> Path:
        """The store's file. Raises InvalidInput for archives."""
        if self.kind != "store":
            raise InvalidInput("archives are not a store")
        return Path(self.paths[0])


class Listed(NamedTuple):
    """A remote file as its file system lists it: path, bytes, microseconds of its change."""

    path: str
    length: int
    modified: int

    @property
    def known(self) -> bool:
        """Whether a change of the file would show."""
        return self.length >= 0 and self.modified > 0


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What decides the result beside the input.

    `now`: Unix seconds at which expired events of an archive are dead; a store keeps them until
    it sweeps. `fixed`: the caller chose this time; else a run that resumes the stages of
    another keeps its time. `urls`: normalised URLs that requests to vanish may name. `hot`:
    events from which a target is kept. `verify`: check every signature (ids of archives are always
    checked). `strict`: a damaged file of archives ends the run, and is not left out.
    """

    now: int
    fixed: bool = False
    urls: tuple[str, ...] = ()
    hot: int = HOT
    verify: bool = False
    strict: bool = False


def is_url(path: str) -> bool:
    """True for a path with a scheme, as `s3a://bucket/key`; `C:/` has none."""
    return len(urlsplit(path).scheme) > 1


def local(path: str) -> Path | None:
    """The file of this machine that a path or a `file:` URL names; None for what is elsewhere, or
    is a pattern of names. Hadoop takes the path of a URL as it is written, %20 and all."""
    if not is_url(path):
        return Path(path)
    scheme, _, rest = path.partition(":")
    if rest.startswith("//"):
        host, _, rest = rest[2:].partition("/")
        rest = "" if host else f"/{rest}"
    if scheme.lower() != "file" or not rest.startswith("/") or GLOB & set(rest):
        return None
    return Path(rest)


def for_hadoop(path: str) -> str:
    """A path as Hadoop needs it: a local one with its patterns escaped, unless it is a URL."""
    if is_url(path):
        return path
    absolute = str(Path(path).absolute())
    return "file:" + "".join(f"\\{one}" if one in GLOB else one for one in absolute)


def elsewhere(source: Input) -> list[str]:
    """The paths of an input whose files another file system has to list."""
    return [path for path in source.paths if local(path) is None]


def archive(kind: Kind, paths: Sequence[str]) -> Input:
    """An input of archives. Raises InvalidInput for what no reader can read."""
    if not paths:
        raise InvalidInput("no archive is named")
    for path in paths:
        refuse_packed(path)
        here = local(path)
        if here is not None and not here.exists():
            raise InvalidInput(f"{path} is not there")
    found = Input(kind=kind, paths=tuple(paths))
    for file in files(found):
        refuse_packed(str(file))
        if kind == "jsonl":
            refuse_foreign(_begin_of(file), str(file))
    return found


def _begin_of(file: Path) -> bytes:
    """The first bytes of a file; none of a pipe, or of a file that the engines find damaged."""
    if not file.is_file():
        return b""
    try:
        with file.open("rb") as opened:
            return opened.read(BEGIN_BYTES)
    except OSError:
        return b""


def refuse_packed(path: str) -> None:
    """Raise InvalidInput for a packing of which Spark reads no row without a word."""
    if path.endswith(".lz4"):
        raise InvalidInput(f"{path}: Spark silently reads no rows of lz4; use zstd or gzip")


def files(source: Input) -> Iterator[Path]:
    """Every local file of archives, folders walked, in order; names with _ or . in front aside."""
    for path in map(local, source.paths):
        if path is None:
            continue
        if not path.is_dir():
            yield path
            continue
        for file in sorted(path.rglob("*")):
            inner = file.relative_to(path).parts
            if file.is_file() and not any(part.startswith(("_", ".")) for part in inner):
                yield file


def without(source: Input, left_out: Collection[str], remote: Iterable[str] = ()) -> Input:
    """The same input without some of its files; `remote` are its files elsewhere."""
    if not left_out:
        return source
    named = (*map(str, files(source)), *remote)
    paths = tuple(one for one in named if one not in left_out)
    return msgspec.structs.replace(source, paths=paths)


def fingerprint(
    source: Input, settings: Settings, mark: IndexedState | None, listed: Iterable[Listed] = ()
) -> str:
    """The name of the work on this input, 16 hex digits; `listed` are its files elsewhere.

    `now` is no part of it: the work keeps its own. Where a file's change would not show, the name
    is a new one each time, with ONCE in front.
    """
    parts = [*_reading(source, settings), *settings.urls, str(settings.hot)]
    if mark is not None:
        parts += [*(str(Path(path).absolute()) for path in source.paths), repr(tuple(mark))]
        parts.append(hash_key(source.store).hex())
    else:
        found = identities(source, listed)
        if found is None:
            return f"{ONCE}{secrets.token_hex(8)}"
        parts += found
    return _hashed(parts)


def reading(source: Input, settings: Settings) -> str:
    """The name of what is read of archives, whichever files they have."""
    return f"read-{_hashed(_reading(source, settings))}"


def _reading(source: Input, settings: Settings) -> tuple[str, ...]:
    return str(PLAN), source.kind, str(settings.verify), str(settings.strict)


def _hashed(parts: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(parts).encode("utf-8", "surrogateescape")).hexdigest()[:16]


def identities(source: Input, listed: Iterable[Listed] = ()) -> dict[str, str] | None:
    """The path of each file of archives by what would change with the file; None where a change
    would not show. `listed` are the files elsewhere."""
    found = sorted(listed)
    if not all(one.known for one in found) or (elsewhere(source) and not found):
        return None
    return {repr(one): one.path for one in found} | {
        _identity(file): str(file) for file in files(source)
    }


def _identity(file: Path) -> str:
    about = file.stat()
    return f"{file.absolute()} {about.st_size} {about.st_mtime_ns}"


def mark_of(store: Path) -> IndexedState:
    """How far the store in a file is. Raises StoreError."""
    try:
        with closing(open_store(store)) as conn:
            return IndexedState.of_store(conn)
    except sqlite3.Error as error:
        raise StoreError(f"{store}: {error}") from error


def hash_key(store: Path) -> bytes:
    """The key of a store's tag index, which is different for each store. Raises StoreError."""
    try:
        with closing(open_store(store)) as conn:
            row = conn.execute("SELECT value FROM meta WHERE key = ?", (HASH_KEY,)).fetchone()
    except sqlite3.Error as error:
        raise StoreError(f"{store}: {error}") from error
    if row is None or not isinstance(row[0], bytes):
        raise StoreError(f"{store} has lost the key of its tag index")
    return row[0]


def open_store(path: Path) -> sqlite3.Connection:
    """A reading connection beside the writing process. Raises StoreError."""
    if not path.exists():
        raise StoreError(f"no store at {path}")
    check_file(path)
    try:
        conn = sqlite3.connect(file_uri(path, "ro"), uri=True, timeout=30.0, isolation_level=None)
        conn.execute("PRAGMA query_only = 1")
        conn.execute("SELECT 1 FROM meta").fetchone()
    except sqlite3.Error as error:
        found = opening_error(path, error)
        raise (found if type(found) is StoreError else StoreError(f"{path}: {found}")) from error
    return conn
