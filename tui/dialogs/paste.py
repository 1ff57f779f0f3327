"""From what people paste to what can be watched. Pure."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final, NamedTuple, get_args

from nostr_client.codecs import nip05, nip19
from nostr_client.codecs.display import plural
from nostr_client.codecs.relay_url import refusal
from nostr_client.codecs.typed import filter_of
from nostr_client.errors import InvalidInput, clip
from nostr_client.watch.definition import QueryName

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

NAME: Final = "name"
"""What a NIP-05 name is called; the agent asks its domain for the key."""

OF_PEOPLE: Final = ("followers", "zaps")
OF_EVENTS: Final = tuple(one for one in get_args(QueryName) if one != "followers")
LONGEST: Final = 64 * 1024
MOST_URL: Final = 60
OWN_RELAYS: Final = "Your own relays are those of relays.default in agent.toml."
WHAT: Final = "npub, name@domain, nevent, naddr, event id or filter"


class Question(NamedTuple):
    """A query that can be asked: as a list shows it, and the target that it is about."""

    label: str
    query: str
    target: str


class Pasted(NamedTuple):
    """What a text is, what can be asked about it, and what its watch may be called.

    `refused`: relays that the text names and that are not asked, each with the reason.
    """

    what: str
    questions: tuple[Question, ...]
    filters: tuple[dict[str, object], ...]
    short: str
    refused: tuple[str, ...] = ()

    @property
    def note(self) -> str:
        """Why a relay that the text names is not asked; "" if none is named that may not be."""
        if not self.refused:
            return ""
        more = len(self.refused) - 1
        also = f", and {more} more" if more else ""
        return f"Not asked, as pasted text names it: {self.refused[0]}{also}. {OWN_RELAYS}"


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
        return Pasted(NAME, _asked(OF_PEOPLE, person), (), person.removeprefix("_@"))
    found = nip19.read(text, WHAT).target
    if isinstance(found, nip19.Hex):
        return _hex(found.value)
    target = found.encode()
    short = f"{target.split('1')[0]}-{target[-6:]}"
    refused = _refused(getattr(found, "relays", ()))
    match found:
        case nip19.PublicKey() | nip19.Profile():
            return Pasted("person", _asked(OF_PEOPLE, target), (), short, refused)
        case nip19.Note() | nip19.EventPointer():
            return Pasted("event", _asked(OF_EVENTS, target), (), short, refused)
        case nip19.Address():
            return Pasted("address", _asked(OF_EVENTS, target), (), short, refused)


def _asked(queries: Iterable[str], target: str) -> tuple[Question, ...]:
    return tuple(Question(query, query, target) for query in queries)


def _hex(value: str) -> Pasted:
    """64 digits are a key or an event id, which they do not show: each question says of which."""
    npub, note = nip19.PublicKey(value).encode(), nip19.Note(value).encode()
    of_key = (Question(f"{one}, if it is a key", one, npub) for one in OF_PEOPLE)
    of_event = (Question(f"{one}, if it is an event", one, note) for one in OF_EVENTS)
    return Pasted("64 digits, a key or an event", (*of_key, *of_event), (), value[:8])


def _refused(urls: Iterable[str]) -> tuple[str, ...]:
    """The relays of a text that no pasted text makes the agent ask, each with the reason."""
    reasons = ((url, refusal(url)) for url in dict.fromkeys(urls))
    return tuple(f"{clip(url, MOST_URL)} ({why})" for url, why in reasons if why is not None)


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
    return Pasted(what, (), tuple(wanted), "filter")


def free_name(wanted: str, taken: Collection[str]) -> str:
    """A name for a watch: as wanted, in the letters that names have, and not taken."""
    base = re.sub(r"[^A-Za-z0-9._-]+", "-", wanted).strip("-._")[:56] or "watch"
    name, n = base, 2
    while name in taken:
        name, n = f"{base}-{n}", n + 1
    return name
