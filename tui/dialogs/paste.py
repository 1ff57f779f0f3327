"""From what people paste to what can be watched. Pure."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final, NamedTuple, get_args

from nostr_client.codecs import nip05, nip19
from nostr_client.codecs.display import plural
from nostr_client.codecs.typed import filter_of
from nostr_client.errors import InvalidInput
from nostr_client.watch.definition import QueryName

if TYPE_CHECKING:
    from collections.abc import Collection

NAME: Final = "name"
"""What a NIP-05 name is called; the agent asks its domain for the key."""

OF_PEOPLE: Final = ("followers", "zaps")
OF_EVENTS: Final = tuple(one for one in get_args(QueryName) if one != "followers")
LONGEST: Final = 64 * 1024
WHAT: Final = "npub, name@domain, nevent, naddr, event id or filter"


class Pasted(NamedTuple):
    """What a text is, which queries can be asked about it, and what its watch may be called."""

    what: str
    target: str
    queries: tuple[str, ...]
    filters: tuple[dict[str, object], ...]
    short: str
    relays: tuple[str, ...] = ()


def read(text: str) -> Pasted:
    """What was pasted: an identifier in any form of `nip19.read`, a NIP-05 name, or a filter.

    Raises InvalidInput with words for people; a secret key is refused without being repeated.
    """
    bare = text.strip()
    if not bare or bare.lower() == nip19.URI_SCHEME:
        raise InvalidInput("paste an npub, name@domain, nevent, naddr, an event id or a filter")
    if len(bare) > LONGEST:
        raise InvalidInput("that is too long")
    if bare.startswith(("{", "[")):
        return _filters(bare)
    return _identifier(bare.split()[0])


def _identifier(text: str) -> Pasted:
    if nip05.is_name(text):
        person = str(nip05.read_name(text))
        return Pasted(NAME, person, OF_PEOPLE, (), person.removeprefix("_@"))
    found = nip19.read(text, WHAT).target
    if isinstance(found, nip19.Hex):
        return Pasted("event id", found.value, OF_EVENTS, (), found.value[:8])
    target = found.encode()
    short = f"{target.split('1')[0]}-{target[-6:]}"
    match found:
        case nip19.PublicKey() | nip19.Profile():
            return Pasted("person", target, OF_PEOPLE, (), short, getattr(found, "relays", ()))
        case nip19.Note():
            return Pasted("event", target, OF_EVENTS, (), short)
        case nip19.EventPointer() | nip19.Address():
            what = "event" if isinstance(found, nip19.EventPointer) else "address"
            return Pasted(what, target, OF_EVENTS, (), short, found.relays)


def _filters(text: str) -> Pasted:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"this looks like a filter and is no JSON: {error}") from error
    wanted = found if isinstance(found, list) else [found]
    if wanted and wanted[0] == "REQ":  # as a log shows it
        wanted = wanted[2:]
    if not wanted or not all(isinstance(one, dict) for one in wanted):
        raise InvalidInput('a filter is an object, as {"kinds":[1]}')
    for one in wanted:
        filter_of(one)
    what = "filter" if len(wanted) == 1 else plural(len(wanted), "filter")
    return Pasted(what, "", (), tuple(wanted), "filter")


def free_name(wanted: str, taken: Collection[str]) -> str:
    """A name for a watch: as wanted, in the letters that names have, and not taken."""
    base = re.sub(r"[^A-Za-z0-9._-]+", "-", wanted).strip("-._")[:56] or "watch"
    name, n = base, 2
    while name in taken:
        name, n = f"{base}-{n}", n + 1
    return name
