"""The NIP-01 filter: built strictly, written in the order it was given, matched locally.

Decisions where the texts leave room: a key that this module does not know is refused, also when
read from a client's frame, because dropping a condition would answer another question; `null`
is refused for the same reason. Tag attributes are `#` and one letter a-z or A-Z, the ones that
NIP-01 has relays index. `search` (NIP-50) is carried and left to the relay: `matches` does not
judge it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from nostr_client.codecs.event import MAX_TIME, Event, Tags
from nostr_client.codecs.kinds import MAX_KIND
from nostr_client.errors import InvalidFilter, clip

_SCALARS: Final = ("since", "until", "limit")
_TIMES: Final = frozenset(_SCALARS)
_LISTS: Final = ("ids", "authors", "kinds")
_FIELDS: Final = (*_LISTS, *_SCALARS, "search")
_KNOWN: Final = frozenset(_FIELDS)
_HEX_TAGS: Final = ("#e", "#p")
_encoder: Final = msgspec.json.Encoder()


class _Sets(NamedTuple):
    """The lists of a filter as sets."""

    ids: frozenset[str] | None
    authors: frozenset[str] | None
    kinds: frozenset[int] | None
    tags: tuple[tuple[str, frozenset[str]], ...]


class Filter:
    """A filter (NIP-01). An event matches if it meets every condition of the filter.

    A list of values is met if one of its values matches. Times are Unix seconds, and `since` and
    `until` are inclusive. A filter is frozen and hashable. Raises InvalidFilter.

    - `tags`: values by tag name, such as `{"#e": [...]}`. The filter keeps the order of names and
      values, because `hll.offset` depends on the order.
    """

    __slots__ = ("_hash", "_sets", *_FIELDS, "tags")

    ids: tuple[str, ...] | None
    authors: tuple[str, ...] | None
    kinds: tuple[int, ...] | None
    tags: tuple[tuple[str, tuple[str, ...]], ...]
    since: int | None
    until: int | None
    limit: int | None
    search: str | None
    _sets: _Sets | None
    _hash: int | None

    def __init__(
        self,
        *,
        ids: Iterable[str] | None = None,
        authors: Iterable[str] | None = None,
        kinds: Iterable[int] | None = None,
        tags: Mapping[str, Iterable[str]] | None = None,
        since: int | None = None,
        until: int | None = None,
        limit: int | None = None,
        search: str | None = None,
    ) -> None:
        put = object.__setattr__
        put(self, "ids", None if ids is None else _hex_list("ids", ids))
        put(self, "authors", None if authors is None else _hex_list("authors", authors))
        put(self, "kinds", None if kinds is None else _kind_list(kinds))
        put(self, "tags", _tag_lists(tags) if tags else ())
        put(self, "since", None if since is None else _whole("since", since, MAX_TIME))
        put(self, "until", None if until is None else _whole("until", until, MAX_TIME))
        put(self, "limit", None if limit is None else _whole("limit", limit, MAX_TIME))
        put(self, "search", None if search is None else _text("search", search))
        put(self, "_sets", None)
        put(self, "_hash", None)

    @classmethod
    def from_json(cls, raw: bytes | str | Mapping[str, object]) -> Filter:
        """Read a filter from JSON text or from decoded JSON. Raises InvalidFilter."""
        fields = decode_fields(raw) if isinstance(raw, (str, bytes)) else raw
        known: dict[str, Any] = {}
        tags: dict[str, Any] = {}
        for key, value in fields.items():
            if value is None:
                raise InvalidFilter(f"filter: {clip(str(key), 40)} is null")
            if key in _KNOWN:
                known[key] = _strict_list(key, value)
            elif isinstance(key, str) and key.startswith("#"):
                tags[key] = _strict_list(key, value)
            else:
                raise InvalidFilter(f"filter: unknown key {clip(str(key), 40)!r}")
        return cls(tags=tags, **known)

    def to_dict(self) -> dict[str, Any]:
        """Return the filter as decoded JSON.

        The keys have a fixed order: `ids`, `authors`, `kinds`, tags as given, then the other keys.
        """
        out: dict[str, Any] = {}
        if self.ids is not None:
            out["ids"] = [*self.ids]
        if self.authors is not None:
            out["authors"] = [*self.authors]
        if self.kinds is not None:
            out["kinds"] = [*self.kinds]
        for name, values in self.tags:
            out[name] = [*values]
        if self.since is not None:
            out["since"] = self.since
        if self.until is not None:
            out["until"] = self.until
        if self.limit is not None:
            out["limit"] = self.limit
        if self.search is not None:
            out["search"] = self.search
        return out

    def to_json(self) -> str:
        """Return the filter as compact JSON."""
        return _encoder.encode(self.to_dict()).decode()

    def cache_key(self) -> str:
        """Return a text that does not depend on the order of the conditions and their values.

        In this text, keys and values are sorted and without repetition. Do not use the text as a
        key for HyperLogLog registers, because their offset depends on the original order.
        """
        fields = {
            key: sorted(set(value)) if isinstance(value, list) else value
            for key, value in self.to_dict().items()
        }
        return _encoder.encode(dict(sorted(fields.items()))).decode()

    def replace(self, **changes: Any) -> Filter:
        """Return a copy with some arguments of the constructor changed. Raises InvalidFilter."""
        if changes.keys() <= _TIMES:
            return self._with_times(changes)
        now: dict[str, Any] = {name: getattr(self, name) for name in _FIELDS}
        return Filter(**({**now, "tags": dict(self.tags)} | changes))

    def _with_times(self, changes: Mapping[str, Any]) -> Filter:
        """`replace` where lists and tags, which were checked once, stay: readers ask so by page."""
        put, copy = object.__setattr__, object.__new__(Filter)
        put(copy, "ids", self.ids)
        put(copy, "authors", self.authors)
        put(copy, "kinds", self.kinds)
        put(copy, "tags", self.tags)
        put(copy, "search", self.search)
        put(copy, "_sets", self._sets)
        put(copy, "since", self.since)
        put(copy, "until", self.until)
        put(copy, "limit", self.limit)
        for name, value in changes.items():
            put(copy, name, None if value is None else _whole(name, value, MAX_TIME))
        put(copy, "_hash", None)
        return copy

    @property
    def matches_nothing(self) -> bool:
        """True if no event can match, because a list is empty or `since` is after `until`.

        Do not send such a filter to relays.
        """
        if () in (self.ids, self.authors, self.kinds) or any(not found for _, found in self.tags):
            return True
        return self.since is not None and self.until is not None and self.since > self.until

    def matches(self, event: Event) -> bool:
        """Return True if the event meets all conditions. Ignores `limit` and `search`."""
        ids, authors, kinds, _ = self._sets or self._made_sets()
        if kinds is not None and event.kind not in kinds:
            return False
        if authors is not None and event.pubkey not in authors:
            return False
        if ids is not None and event.id not in ids:
            return False
        if self.since is not None and event.created_at < self.since:
            return False
        if self.until is not None and event.created_at > self.until:
            return False
        return self.matches_tags(event.tags)

    def matches_tags(self, tags: Tags) -> bool:
        """Return True if the tags of an event meet the tag conditions."""
        *_, wanted = self._sets or self._made_sets()
        return all(_has_tag(tags, name, values) for name, values in wanted)

    def _made_sets(self) -> _Sets:
        """The lists as sets, made for the first event: a filter of one query never meets any."""
        tags = tuple((name[1], frozenset(values)) for name, values in self.tags)
        made = _Sets(_set(self.ids), _set(self.authors), _set(self.kinds), tags)
        object.__setattr__(self, "_sets", made)
        return made

    def _key(self) -> tuple[object, ...]:
        lists = (self.ids, self.authors, self.kinds, self.tags)
        return (*lists, self.since, self.until, self.limit, self.search)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return self._key() == other._key() if isinstance(other, Filter) else NotImplemented

    def __hash__(self) -> int:
        known = self._hash
        if known is None:  # filters are keys of caches that are asked thousands of times
            known = hash(self._key())
            object.__setattr__(self, "_hash", known)
        return known

    def __repr__(self) -> str:
        return f"Filter({clip(self.to_json())})"

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a Filter is frozen; use replace({name}=...)")

    def __delattr__(self, name: str) -> None:
        raise AttributeError("a Filter is frozen")

    def __reduce__(self) -> tuple[Any, ...]:
        return Filter.from_json, (self.to_dict(),)


def decode_fields(raw: bytes | str) -> dict[str, Any]:
    """The fields of a filter's JSON object, not checked yet. Raises InvalidFilter."""
    try:
        fields = msgspec.json.decode(raw)
    except (ValueError, RecursionError) as error:
        raise InvalidFilter(f"filter: {clip(str(error))}") from error
    if not isinstance(fields, dict):
        raise InvalidFilter("filter: not a JSON object")
    return fields


def _strict_list(key: str, value: object) -> object:
    wants_list = key in _LISTS or key.startswith("#")
    if wants_list is not isinstance(value, (list, tuple)):
        raise InvalidFilter(f"filter: {clip(key, 40)} must {'' if wants_list else 'not '}be a list")
    return value


def _set(values: Sequence[Any] | None) -> frozenset[Any] | None:
    return None if values is None else frozenset(values)


def _items(name: str, values: Iterable[Any]) -> tuple[Any, ...]:
    if type(values) is list or type(values) is tuple:  # the test of other types is slow
        return tuple(values)
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise InvalidFilter(f"filter: {name} must be a list")
    return tuple(values)


def _hex_list(name: str, values: Iterable[str]) -> tuple[str, ...]:
    items = _items(name, values)
    for item in items:
        if not (isinstance(item, str) and len(item) == 64 and _is_hex(item)):
            raise InvalidFilter(f"filter: {name} must hold 64 lower-case hex characters each")
    return items


def _is_hex(text: str) -> bool:
    try:
        return bytes.fromhex(text).hex() == text
    except ValueError:
        return False


def _kind_list(values: Iterable[int]) -> tuple[int, ...]:
    items = _items("kinds", values)
    for item in items:
        _whole("kinds", item, MAX_KIND)
    return items


def _whole(name: str, value: object, largest: int) -> int:
    if type(value) is not int or not 0 <= value <= largest:
        raise InvalidFilter(f"filter: {name} must be a whole number from 0 to {largest}")
    return value


def _text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise InvalidFilter(f"filter: {name} must be text")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise InvalidFilter(f"filter: {name} holds a lone surrogate") from error
    return value


def _tag_lists(tags: Mapping[str, Iterable[str]]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    return tuple((_tag_name(name), _tag_values(name, values)) for name, values in tags.items())


def _tag_name(name: object) -> str:
    if not (isinstance(name, str) and len(name) == 2 and name[0] == "#" and _is_letter(name[1])):
        raise InvalidFilter(f"filter: {clip(str(name), 40)!r} is not # and one letter")
    return name


def _is_letter(text: str) -> bool:
    return text.isascii() and text.isalpha()


def _tag_values(name: str, values: Iterable[str]) -> tuple[str, ...]:
    if name in _HEX_TAGS:
        return _hex_list(name, values)
    return tuple(_text(name, item) for item in _items(name, values))


def _has_tag(tags: Tags, name: str, values: frozenset[str]) -> bool:
    return any(len(tag) > 1 and tag[0] == name and tag[1] in values for tag in tags)
