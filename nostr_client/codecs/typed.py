"""Filters and tags as people type them: ids, keys and addresses in any form of `nip19.read`.

What comes from relays and peers is read by `Filter.from_json` alone, which takes hex only. Pure.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import msgspec

from nostr_client.codecs import nip19
from nostr_client.codecs.filters import Filter, decode_fields
from nostr_client.errors import (
    InvalidIdentifier,
    InvalidInput,
    clip,
    holds_secret_key,
    without_secret_keys,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

ADDRESS: Final = "an address: expected naddr or kind:pubkey:d"


def filter_of(raw: str | bytes | Mapping[str, object]) -> Filter:
    """A filter from JSON, text or decoded. Raises InvalidFilter, InvalidIdentifier with the place.

    Identifiers are read in `ids`, `authors` and the tags that NIP-01 and NIP-22 define: `#e` `#E`
    events, `#p` `#P` people, `#a` `#A` addresses, `#q` events or addresses.
    """
    fields = _decoded(raw)
    for key, convert in _READERS.items():
        values = fields.get(key)
        if isinstance(values, (list, tuple)):
            fields[key] = [_value(f"{key}[{n}]", convert, one) for n, one in enumerate(values)]
    for key, values in fields.items():
        _refuse_secret(key, values)
    return Filter.from_json(fields)


def _refuse_secret(key: str, values: object) -> None:
    """Raise InvalidIdentifier for a secret key anywhere in a filter: relays would get it."""
    texts = values if isinstance(values, (list, tuple)) else (key, values)
    if any(isinstance(one, str) and holds_secret_key(one) for one in texts):
        shown = without_secret_keys(clip(key, 40))
        raise InvalidIdentifier(f"{shown}: a secret key, which belongs nowhere but in your signer")


def tag_value(name: str, text: str) -> str:
    """A value that a filter asks for in tags of this name. Raises InvalidIdentifier, with the name.

    Text of a tag that names no event, person or address stays as it is.
    """
    convert = _READERS.get(f"#{name}")
    return text if convert is None else str(_value(f"tag {name}", convert, text))


def tag_of(text: str) -> tuple[str, ...]:
    """A tag of any number of elements, from `NAME`, `NAME=VALUE` or a JSON array of texts.

    `e=note1…` has its identifier as hex, and so have keys behind it (NIP-10, NIP-22). A name alone
    is a tag that has no value by its NIP; a JSON array may have any name of several letters alone,
    as relays index the value of one letter (NIP-01). Raises InvalidInput, InvalidIdentifier.
    """
    is_array = text.startswith("[")
    elements = _array(text) if is_array else _pair(text)
    if not elements or not elements[0]:
        raise InvalidInput(f"tag: {clip(text, 40)!r} has no name")
    name, *values = elements
    if not values and name not in _BARE and (not is_array or _needs_value(name)):
        hint = "" if is_array or _needs_value(name) else f', or ["{clip(name, 40)}"]'
        raise InvalidInput(f"tag: {clip(name, 40)!r} has no value: write NAME=VALUE{hint}")
    return (name, *_read(name, values))


def _needs_value(name: str) -> bool:
    return name in _TAG_READERS or len(name) == 1


def _read(name: str, values: Sequence[str]) -> Iterator[str]:
    """The values of a tag as events hold them: identifiers as hex, other text as it is."""
    convert = _TAG_READERS.get(name)
    if convert is None:
        yield from values
        return
    place = f"tag {name}"
    yield str(_value(place, convert, values[0]))
    for one in values[1:]:
        yield str(_value(place, nip19.decode_pubkey, one)) if _PERSON.match(one) else one


def _pair(text: str) -> list[str]:
    name, sign, value = text.partition("=")
    return [name, value] if sign else [name]


def _array(text: str) -> list[str]:
    try:
        return msgspec.json.decode(text, type=list[str])
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"tag: {clip(text, 40)!r} is not an array of texts") from error


def _decoded(raw: str | bytes | Mapping[str, object]) -> dict[str, Any]:
    return decode_fields(raw) if isinstance(raw, (str, bytes)) else dict(raw)


def _value(place: str, convert: Callable[[str], str], value: object) -> object:
    """The value read; what is not text is left for the filter to refuse."""
    if not isinstance(value, str):
        return value
    try:
        return convert(value)
    except InvalidIdentifier as error:
        raise InvalidIdentifier(f"{place}: {error}") from error


def event_id(text: str) -> str:
    """The hex id that a person named. Raises InvalidIdentifier, also for an address."""
    found = nip19.event_or_address(text)
    if ":" in found:
        raise InvalidIdentifier(f"{nip19.named(text)} is an address, not an event")
    return found


def _address(text: str) -> str:
    found = nip19.event_or_address(text, ADDRESS)
    if ":" not in found:
        raise InvalidIdentifier(f"{nip19.named(text)} is not {ADDRESS}")
    return found


_READERS: Final[dict[str, Callable[[str], str]]] = {
    "ids": event_id,
    "authors": nip19.decode_pubkey,
    **dict.fromkeys(("#e", "#E"), event_id),
    **dict.fromkeys(("#p", "#P"), nip19.decode_pubkey),
    **dict.fromkeys(("#a", "#A"), _address),
    "#q": nip19.event_or_address,
}

_TAG_READERS: Final[dict[str, Callable[[str], str]]] = {
    **{key[1:]: convert for key, convert in _READERS.items() if key.startswith("#")},
    "zap": nip19.decode_pubkey,
}
"""By the name of the tag: those of filters, and who gets a part of the zaps (NIP-57)."""

_PERSON: Final = re.compile(r"\s*(?:nostr:)?(?:npub|nprofile)1", re.IGNORECASE)
"""How a key begins that stands behind the id of an event; relays and markers do not."""

_BARE: Final = frozenset({"-", "content-warning", "encrypted"})
"""Names of tags that may have no value: NIP-70, NIP-36, NIP-90."""
