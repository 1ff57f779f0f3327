"""Names of people at a domain (NIP-05): `bob@example.com`, and the answer of the domain. Pure.

The domain says whose key a name is, today. So a watch of a name is a watch of the key.
"""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple

import msgspec

from nostr_client.errors import InvalidIdentifier, ProtocolError, clip

_NAME: Final = re.compile(r"[a-z0-9._-]{1,64}", re.ASCII)
_HOST: Final = re.compile(
    r"(?=[^:]{1,253}(?::|$))[a-z0-9-]+(?:\.[a-z0-9-]+)+(?::[0-9]{1,5})?", re.ASCII
)
_KEY: Final = re.compile(r"[0-9a-f]{64}", re.ASCII)


class NamedPerson(NamedTuple):
    """A name as NIP-05 writes it; the name `_` is the domain itself."""

    name: str
    domain: str

    @property
    def url(self) -> str:
        """Where the domain says whose name this is: https, for an onion service http."""
        plain = self.domain.partition(":")[0].endswith(".onion")
        scheme = "http" if plain else "https"
        return f"{scheme}://{self.domain}/.well-known/nostr.json?name={self.name}"

    def __str__(self) -> str:
        return f"{self.name}@{self.domain}"


def is_name(text: str) -> bool:
    """Whether a text is meant as `name@domain`, and is no link and no `@npub1…`."""
    before, at, _ = text.strip().lower().partition("@")
    return bool(at and _NAME.fullmatch(before))


def read_name(text: str) -> NamedPerson:
    """Read `name@domain`; case does not matter. Raises InvalidIdentifier."""
    name, at, domain = text.strip().lower().rpartition("@")
    if not (at and _NAME.fullmatch(name) and _HOST.fullmatch(domain)):
        raise InvalidIdentifier(f"not a name as bob@example.com (NIP-05): {clip(text, 60)!r}")
    return NamedPerson(name, domain)


def parse_names(raw: bytes | str, person: NamedPerson) -> str:
    """Return the public key (hex) that a domain's answer gives a name.

    Raises ProtocolError for an answer that is not of NIP-05, and InvalidIdentifier if the domain
    does not know the name.
    """
    try:
        found: Any = msgspec.json.decode(raw)
    except (ValueError, RecursionError) as error:
        raise ProtocolError(f"the answer of {person.domain} is not JSON") from error
    names = found.get("names") if isinstance(found, dict) else None
    if not isinstance(names, dict):
        raise ProtocolError(f"the answer of {person.domain} names nobody (NIP-05)")
    key = names.get(person.name)
    if key is None:
        raise InvalidIdentifier(f"{person.domain} does not know the name {person.name}")
    if not isinstance(key, str) or not _KEY.fullmatch(key):
        raise ProtocolError(f"{person.domain} gives {person.name} a key that is not 64 hex digits")
    return key
