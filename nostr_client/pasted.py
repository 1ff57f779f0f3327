"""Takes the identifier out of pasted text: punctuation, `@`, `nostr:`, a web viewer's URL. Pure.

Nothing is decoded here. Where the text holds no identifier it comes back as it is, without the
space around it, so that an error can name it.
"""

from __future__ import annotations

import re
from typing import Final

from nostr_client.errors import InvalidIdentifier

PREFIXES: Final = ("npub", "nsec", "note", "nprofile", "nevent", "naddr", "nrelay")
"""The prefixes of NIP-19."""

_AROUND: Final = " \t\r\n.,;:!?\"'`()[]{}<>“”‘’«»*_~|"
_NAMED: Final = rf"(?:{'|'.join(PREFIXES)})1"
_BEFORE: Final = re.compile(rf"(?:(?:web\+)?nostr:(?://)?|@)+(?={_NAMED})", re.IGNORECASE)
_WHOLE: Final = re.compile(rf"{_NAMED}[0-9a-z]+", re.IGNORECASE)
_HEX: Final = re.compile(r"[0-9a-fA-F]{64}")
_URL: Final = re.compile(r"https?://[^/?#]*([^?#]*)(.*)", re.IGNORECASE | re.DOTALL)


def identifier_in(text: str) -> str:
    """The identifier or the 64 hex characters in pasted text, else the text without outer space.

    In the URL of a web viewer the identifier is a part of the path, the last one that looks like
    one. Raises InvalidIdentifier for a URL without any.
    """
    bare = text.strip()
    url = _URL.fullmatch(bare.strip(_AROUND))
    if url is not None:
        return _in_path(url[1])
    inside = bare.strip(_AROUND)
    before = _BEFORE.match(inside)
    inside = inside[before.end() :] if before else inside
    return inside if looks_hex(inside) or _WHOLE.fullmatch(inside) else bare


def looks_hex(text: str) -> bool:
    """Whether text has the form of an id or a key: 64 hex characters of either case."""
    return _HEX.fullmatch(text) is not None


def _in_path(path: str) -> str:
    for part in reversed(path.split("/")):
        before = _BEFORE.match(part)
        inside = (part[before.end() :] if before else part).strip(_AROUND)
        if looks_hex(inside) or _WHOLE.fullmatch(inside):
            return inside
    raise InvalidIdentifier("a URL without an identifier in its path")
