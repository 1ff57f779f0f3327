"""The relay information document (NIP-11), read with tolerance: a wrong field is left out.

What it says is a hint: what a relay really does is learnt from what it did (`Capabilities`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from nostr_client.errors import ProtocolError

ACCEPT = "application/nostr+json"
"""The exact header value: strfry and khatru answer nothing else with the document."""

_MAX_NIPS = 256
_MAX_INT = 2**53 - 1  # a limit beyond what JSON carries exactly is no limit


class Limitation(msgspec.Struct, frozen=True, kw_only=True):
    """The limits in a relay's NIP-11 document, in bytes and seconds.

    A value is None if the document does not have it.
    """

    max_message_length: int | None = None
    max_subscriptions: int | None = None
    max_subid_length: int | None = None
    max_limit: int | None = None
    default_limit: int | None = None
    max_event_tags: int | None = None
    max_content_length: int | None = None
    min_pow_difficulty: int | None = None
    created_at_lower_limit: int | None = None
    created_at_upper_limit: int | None = None
    auth_required: bool | None = None
    payment_required: bool | None = None
    restricted_writes: bool | None = None


class RelayInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The NIP-11 document of a relay. The relay writes the texts, so do not trust them."""

    name: str = ""
    description: str = ""
    pubkey: str = ""
    contact: str = ""
    software: str = ""
    version: str = ""
    icon: str = ""
    supported_nips: tuple[int, ...] = ()
    limitation: Limitation = Limitation()
    merged: bool = False
    """True if the relay makes its counts from the answers of other relays. NIP-11 has no such
    field; our local relay adds it."""
    warnings: tuple[str, ...] = ()
    """Fields of the document that the client could not use."""

    def supports(self, nip: int) -> bool:
        """Return True if the document lists this NIP. A listed NIP may still not work."""
        return nip in self.supported_nips


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _size(value: object) -> int | None:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if 0 <= value <= _MAX_INT else None


def _flag(value: object) -> bool | None:
    return value if isinstance(value, bool) else None


def _nip(value: object) -> int | None:
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) <= 5:
        value = int(value)
    return _size(value)


def _nips(value: object) -> tuple[int, ...] | None:
    if not isinstance(value, list):
        return None
    found = (_nip(item) for item in value[:_MAX_NIPS])
    return tuple(dict.fromkeys(nip for nip in found if nip is not None))


def _limitation(value: object) -> dict[str, object] | None:
    return _fields(value, _LIMITATION, []) if isinstance(value, Mapping) else None


_LIMITATION: dict[str, Callable[[object], object]] = {
    field: _flag if field in ("auth_required", "payment_required", "restricted_writes") else _size
    for field in Limitation.__struct_fields__
}
_DOCUMENT: dict[str, Callable[[object], object]] = {
    **dict.fromkeys(
        ("name", "description", "pubkey", "contact", "software", "version", "icon"), _text
    ),
    "supported_nips": _nips,
    "limitation": _limitation,
    "merged": _flag,
}


def _fields(
    document: Mapping[str, object],
    readers: Mapping[str, Callable[[object], object]],
    warnings: list[str],
) -> dict[str, object]:
    read = {name: reader(document[name]) for name, reader in readers.items() if name in document}
    warnings += [f"{n}: unusable" for n, v in read.items() if v is None and document[n] is not None]
    return {name: value for name, value in read.items() if value is not None}


def parse_relay_info(raw: bytes | str) -> RelayInfo:
    """Read a NIP-11 document.

    Raises ProtocolError where it is no JSON object. Unknown and wrongly typed fields are left out.
    """
    try:
        document = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ProtocolError("the NIP-11 document is not JSON") from error
    if not isinstance(document, dict):
        raise ProtocolError("the NIP-11 document is not a JSON object")
    warnings: list[str] = []
    fields = _fields(document, _DOCUMENT, warnings)
    return msgspec.convert(fields | {"warnings": warnings}, RelayInfo)
