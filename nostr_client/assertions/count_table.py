"""Read the counts that `nostr-agent reindex` made of an archive: a row for each subject of a card.

The table is a folder of Parquet files with the columns `kind`, `subject` (the `d` of the card),
`subject_kinds` (the `k` tags of an identifier), `fields` (numbers by the name of their tag) and
`as_of` (Unix seconds, the time of counting). It is hostile as every file is: a row that `fields`
does not allow has a reason and no numbers, and a damaged file raises InvalidInput.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from nostr_client.assertions.fields import FIELDS, IDENTIFIER, is_subject
from nostr_client.count.figures import LARGEST
from nostr_client.errors import InvalidInput
from nostr_client.sync.files.arrow_files import parquet_batches

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

TABLE: Final = "assertions"
"""The folder of the table, within the tables of a rebuild."""

ROWS: Final = 512
"""Rows that are read at once."""

AHEAD_S: Final = 3600
"""How far the clock that dated the counts may be ahead of ours."""

_DONE: Final = "_SUCCESS"
"""What Spark writes last into the folder of a table."""

_COLUMNS: Final = ("kind", "subject", "subject_kinds", "fields", "as_of")
_TEXTS: Final = ("subject", "fields.key_value.key", "subject_kinds.list.element")
_MOST_ITEMS: Final = 32
"""Entries of a map or list that are read; the table of fields has 13 for a person."""

_MOST_BYTES: Final = 8_000
"""Bytes of a text that are read; `is_subject` allows 2,000 characters."""

_MOST_KIND: Final = 100
"""Characters of a `k` tag."""

_HELD: Final = frozenset(
    (kind, one.name)
    for kind, fields in FIELDS.items()
    for one in fields
    if not one.personal and not one.zaps
)
"""Fields of a table. A table has no zaps: nobody verified the receipts of an archive."""


class CountRow(NamedTuple):
    """The counts of one subject. `why_not`: why they are not published, or ""."""

    kind: int
    subject: str
    values: dict[str, int]
    identifier_kinds: tuple[str, ...]
    as_of: int
    why_not: str = ""

    @property
    def has_subject(self) -> bool:
        """Whether it is known which card the row is about."""
        return self.why_not != _NO_SUBJECT


_NO_SUBJECT: Final = "a row whose kind or subject is malformed"
_NO_NUMBERS: Final = "a row with a field or a number that the table of fields does not allow"
_NO_KINDS: Final = "a row with malformed kinds of an identifier"
_NO_TIME: Final = "a row without a time of counting, or with one in the future"


class CountTable:
    """The table of counts in a folder of tables, or of the tables' folder `tables`.

    Raises InvalidInput if there is none, or none that was written to its end.
    """

    def __init__(self, folder: Path) -> None:
        places = (folder / TABLE, folder / "tables" / TABLE)
        place = next((one for one in places if one.is_dir()), None)
        if place is None:
            raise InvalidInput(
                f"{folder} has no table {TABLE!r}: `nostr-agent reindex --jsonl FILE --out FOLDER` "
                "makes tables of an archive"
            )
        if not (place / _DONE).is_file():
            raise InvalidInput(f"{place} was not written to its end: it lacks {_DONE}")
        self._files = sorted(place.glob("*.parquet"))
        special = next((one for one in self._files if not one.is_file()), None)
        if special is not None:  # a pipe would be read for ever
            raise InvalidInput(f"{special} is not a file")

    def batches(self, now: int) -> Iterator[list[CountRow]]:
        """Yield the rows, at most ROWS at once. `now`: Unix seconds.

        Raises MissingExtra without pyarrow, InvalidInput for a damaged file, and OSError.
        """
        for file in self._files:
            reading = parquet_batches(
                file, "counts of an archive", ROWS, columns=_COLUMNS, dictionaries=_TEXTS
            )
            for batch in reading:
                _check_types(batch.schema, file)
                yield [_checked(*row, now + AHEAD_S) for row in _rows(batch)]


def _check_types(schema: Any, file: Path) -> None:
    """Raise InvalidInput if a column has values of another type."""
    from pyarrow import types

    kind, subject, subject_kinds, fields, as_of = (schema.field(name).type for name in _COLUMNS)
    right = {
        "kind": types.is_integer(kind),
        "subject": types.is_dictionary(subject),
        "subject_kinds": types.is_list(subject_kinds) and _is_texts(subject_kinds.value_type),
        "fields": types.is_map(fields)
        and _is_texts(fields.key_type)
        and types.is_integer(fields.item_type),
        "as_of": types.is_integer(as_of),
    }
    wrong = next((name for name, fits in right.items() if not fits), None)
    if wrong is not None:
        raise InvalidInput(f"{file}: the column {wrong} has the wrong type {schema.field(wrong)}")


def _is_texts(column: Any) -> bool:
    from pyarrow import types

    return bool(types.is_dictionary(column)) and any(
        is_text(column.value_type) for is_text in (types.is_string, types.is_large_string)
    )


_Pairs = list[tuple[str | None, int | None]]
_Row = tuple[int | None, str | None, list[str | None] | None, _Pairs | None, int | None]


def _rows(batch: Any) -> Iterator[_Row]:
    """Yield the values of each row; None for a list or a map with too many items."""
    import pyarrow as pa

    lists = [batch.column(name) for name in ("subject_kinds", "fields")]
    short = [max(sizes) <= _MOST_ITEMS for sizes in zip(*map(_sizes, lists), strict=True)]
    part = batch if all(short) else batch.filter(pa.array(short))
    found = zip(_listed(part.column("subject_kinds")), _mapped(part.column("fields")), strict=True)
    texts = _read_texts(batch.column("subject"))
    numbers = (batch.column(name).to_pylist() for name in ("kind", "as_of"))
    for is_short, subject, kind, as_of in zip(short, texts, *numbers, strict=True):
        named, pairs = next(found) if is_short else (None, None)
        yield kind, subject, named, pairs, as_of


def _sizes(column: Any) -> list[int]:
    offsets = column.offsets.to_pylist()
    return [end - start for start, end in pairwise(offsets)]


def _listed(column: Any) -> Iterator[list[str | None] | None]:
    return _split(column, _read_texts(_between(column, column.values)))


def _mapped(column: Any) -> Iterator[_Pairs | None]:
    names = _read_texts(_between(column, column.keys))
    numbers = _between(column, column.items).to_pylist()
    return _split(column, list(zip(names, numbers, strict=True)))


def _between(column: Any, items: Any) -> Any:
    """Return the items of a list or map column without those of rows before and after."""
    first, last = column.offsets[0].as_py(), column.offsets[-1].as_py()
    return items.slice(first, last - first)


def _split(column: Any, items: list[Any]) -> Iterator[list[Any] | None]:
    """Yield the items of each row of a list or map column; None for a null."""
    offsets = column.offsets.to_pylist()
    valid = column.is_valid().to_pylist()
    for is_valid, (start, end) in zip(valid, pairwise(offsets), strict=True):
        yield items[start - offsets[0] : end - offsets[0]] if is_valid else None


def _read_texts(column: Any) -> list[str | None]:
    """Return the texts of a dictionary column; None for a null and for one that is too long."""
    import pyarrow.compute as pc

    used = column.indices.dictionary_encode()  # the dictionary is that of all rows of the file
    texts = column.dictionary.take(used.dictionary)
    fits = pc.less_equal(pc.binary_length(texts), _MOST_BYTES)
    found: list[str | None] = pc.if_else(fits, texts, None).to_pylist()
    return [None if place is None else found[place] for place in used.indices.to_pylist()]


def _checked(
    kind: int | None,
    subject: str | None,
    named: Sequence[str | None] | None,
    pairs: Iterable[tuple[str | None, int | None]] | None,
    as_of: int | None,
    latest: int,
) -> CountRow:
    """Return a row by the rules of the table of fields. `latest`: the last time of counting."""
    if kind not in FIELDS or subject is None or not is_subject(kind, subject):
        return CountRow(0, "", {}, (), 0, _NO_SUBJECT)
    why = ""
    values = _values(kind, pairs)
    if values is None:
        why = _NO_NUMBERS
    elif named is not None and not _are_kinds(kind, named):
        why = _NO_KINDS
    elif as_of is None or not 0 < as_of <= latest:
        why = _NO_TIME
    if why or values is None:
        return CountRow(kind, subject, {}, (), 0, why)
    k = tuple(one for one in named or () if one is not None)
    return CountRow(kind, subject, values, k, as_of or 0)


def _values(
    kind: int, pairs: Iterable[tuple[str | None, int | None]] | None
) -> dict[str, int] | None:
    """Return the numbers of a row; None if one is not allowed, or stands twice."""
    if pairs is None:
        return None
    values: dict[str, int] = {}
    for name, number in pairs:
        if name is None or (kind, name) not in _HELD or name in values:
            return None
        if number is None or not 0 <= number <= LARGEST:
            return None
        values[name] = number
    return values


def _are_kinds(kind: int, named: Sequence[str | None]) -> bool:
    """Whether these are the `k` tags of an identifier; other subjects have none."""
    texts = [one for one in named if one]
    return (
        len(texts) == len(named)
        and all(len(one) <= _MOST_KIND for one in texts)
        and (kind == IDENTIFIER or not texts)
    )
