"""Ask a domain for the key of a name (NIP-05). The domain learns who asks, and for which name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from nostr_client.codecs.nip05 import parse_names
from nostr_client.errors import NetworkError
from nostr_client.network.access.routes import objection

if TYPE_CHECKING:
    from nostr_client.codecs.nip05 import NamedPerson
    from nostr_client.network.transport import Transport

ACCEPT: Final = "application/json"


async def key_for_others(person: NamedPerson, transport: Transport) -> str:
    """Return the public key (hex) of a name from any person, with any domain.

    `transport` must connect only to public addresses. Raises as `key_of` does.
    """
    why = objection(person.url, transport.options.connection)
    if why is not None:
        raise NetworkError(f"{person.domain}: {why}")
    return await key_of(person, transport)


async def key_of(person: NamedPerson, transport: Transport) -> str:
    """Return the public key (hex) of a name. Follows no redirect, as NIP-05 requires.

    Raises NetworkError, ProtocolError, and InvalidIdentifier if the domain does not know the name.
    """
    return parse_names(await transport.get_document(person.url, accept=ACCEPT), person)
