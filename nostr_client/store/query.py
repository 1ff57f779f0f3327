"""A filter as SQL over one index: pure, so that what runs can be read and tested.

A filter is answered from the key range of one index alone, `(created_at, seq)` of what matches;
whole events are read afterwards, by seq, and only those that are wanted. The index is named
(INDEXED BY): without statistics SQLite would guess, and a scan in time order looks cheap to it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from nostr_client.filters import Filter
    from nostr_client.store.search import Wanted

    Hash = Callable[[str, str], int]
    Param = int | bytes | str
    Prefix = tuple[tuple[str, tuple[Param, ...]], ...]


TAG = "tag k"
"""The tag index as an access path's table."""


class Access(NamedTuple):
    """How one filter is answered: a table and index, its leading columns, and what else holds.

    `prefix`: values per leading column; each combination is one contiguous range of the index,
    in the order of time (of kind, then time, for a tag alone). `rest` and `params`: further
    conditions, as SQL.
    """

    table: str
    prefix: Prefix
    rest: tuple[str, ...]
    params: tuple[Param, ...]
    unique: bool
    """False when one event may be found in several ranges (two values of one tag)."""
    nothing: bool = False
    """True when no event can match."""


_NOTHING = Access("event k", (), (), (), unique=True, nothing=True)
_EXPIRED = "k.seq NOT IN (SELECT seq FROM event WHERE exp <= ?)"


def access(
    filter: Filter,
    hash_tag: Hash,
    authors: Sequence[int] | None,
    expired_at: int | None,
    search: Wanted | None = None,
) -> Access:
    """Choose the index for a filter.

    `authors`: the numbers of `filter.authors`, as far as the store knows them. `expired_at`: hide
    what expired by then, or None when nothing stored has. `search`: what the filter's own
    `search` comes to.
    """
    if filter.matches_nothing or (authors is not None and not authors):
        return _NOTHING
    tags = [tuple({hash_tag(name[1], v): None for v in values}) for name, values in filter.tags]
    tags.sort(key=len)
    kinds = None if filter.kinds is None else tuple(dict.fromkeys(filter.kinds))
    chosen = _choose(filter, tags, kinds, None if authors is None else tuple(authors))
    if search is not None:
        chosen = chosen._replace(
            rest=(*chosen.rest, *search.conditions), params=(*chosen.params, *search.params)
        )
    if expired_at is None:
        return chosen
    return chosen._replace(rest=(*chosen.rest, _EXPIRED), params=(*chosen.params, expired_at))


def _choose(
    filter: Filter,
    tags: Sequence[tuple[int, ...]],
    kinds: tuple[int, ...] | None,
    authors: tuple[int, ...] | None,
) -> Access:
    of_kind = () if kinds is None else (_one_of("k.kind", kinds),)
    of_author = () if authors is None else (_one_of("k.a", authors),)
    if filter.ids is not None:
        ids = tuple(bytes.fromhex(i) for i in dict.fromkeys(filter.ids))
        rest = (*of_kind, *of_author, *_tagged(tags))
        return Access("event k INDEXED BY event_id", (("k.id", ids),), rest, (), unique=True)
    if tags:
        of_tag, rest = _of_tag(tags[0], kinds)
        others = (*rest, *of_author, *_tagged(tags[1:]))
        return Access(TAG, of_tag, others, (), unique=len(tags[0]) == 1)
    if authors is not None and kinds is not None:
        prefix: Prefix = (("k.a", authors), ("k.kind", kinds))
        return Access("event k INDEXED BY event_author_kind", prefix, (), (), unique=True)
    if authors is not None:
        return Access("event k INDEXED BY event_author", (("k.a", authors),), (), (), unique=True)
    if kinds is not None:
        return Access("event k INDEXED BY event_kind", (("k.kind", kinds),), (), (), unique=True)
    return Access("event k INDEXED BY event_time", (), (), (), unique=True)


def _of_tag(
    hashes: tuple[int, ...], kinds: tuple[int, ...] | None
) -> tuple[Prefix, tuple[str, ...]]:
    """The ranges of a tag's values, and what is left to be looked at in them."""
    if kinds is None:
        return (("k.h", hashes),), ()
    if len(hashes) * len(kinds) > MANY_RANGES:
        return (("k.h", hashes),), (_one_of("+k.kind", kinds),)  # the plus keeps it out of the key
    return (("k.h", hashes), ("k.kind", kinds)), ()


MANY_RANGES = 10_000
"""Ranges looked into, about a microsecond each; a filter may name millions."""


def _one_of(column: str, values: Sequence[int]) -> str:
    """A condition on our own integers, written out: thousands of parameters bind slower."""
    if len(values) == 1:
        return f"{column} = {values[0]}"
    return f"{column} IN ({','.join(map(str, values))})"


def _tagged(tags: Sequence[Sequence[int]]) -> tuple[str, ...]:
    """For each further tag attribute: the event has one of its values too."""
    return tuple(
        f"EXISTS (SELECT 1 FROM tag o WHERE {_one_of('o.h', values)}"
        " AND o.kind = k.kind AND o.created_at = k.created_at AND o.seq = k.seq)"
        for values in tags
    )


class Statement(NamedTuple):
    """SQL and its parameters."""

    sql: str
    params: tuple[Param, ...]


class Window(NamedTuple):
    """Bounds on `created_at`, both inclusive; None: open."""

    since: int | None = None
    until: int | None = None


def select(
    chosen: Access, columns: str, window: Window, *, limit: int | None = None, order: str = ""
) -> Statement:
    """One statement over all ranges of the access path.

    With a limit and the order of the index SQLite leaves each range as soon as it holds nothing
    newer than what it has, so that a thousand authors cost a thousand short looks.
    """
    conditions = [_in_prefix(column, values) for column, values in chosen.prefix]
    params: list[Param] = [v for _, values in chosen.prefix for v in values if type(v) is bytes]
    if window.since is not None:
        conditions.append("k.created_at >= ?")
        params.append(window.since)
    if window.until is not None:
        conditions.append("k.created_at <= ?")
        params.append(window.until)
    conditions.extend(chosen.rest)
    params.extend(chosen.params)
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    tail = f" ORDER BY {order}" if order else ""
    if limit is not None:
        tail += " LIMIT ?"
        params.append(limit)
    return Statement(f"SELECT {columns} FROM {chosen.table}{where}{tail}", tuple(params))


def _in_prefix(column: str, values: Sequence[Param]) -> str:
    numbers = [value for value in values if isinstance(value, int)]
    if numbers:
        return _one_of(column, numbers)
    return f"{column} IN ({','.join('?' * len(values))})"
