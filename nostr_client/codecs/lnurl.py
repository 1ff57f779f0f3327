"""Lightning addresses and LNURLs of profiles, and what a wallet answers about zaps. Pure.

A profile (kind 0) names a wallet by `lud16` (name@host, LUD-16) or `lud06` (a URL in bech32,
LUD-06). The wallet's answer holds the key by which it signs zap receipts (NIP-57, Appendices A
and F).
"""

from __future__ import annotations

import re
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from nostr_client.codecs.bech32 import decode
from nostr_client.errors import InvalidIdentifier, ProtocolError, clip

PREFIX: Final = "lnurl"

MOST_URL: Final = 2_000
"""Characters of a URL: real ones have some 80."""

_NAME: Final = re.compile(r"[a-z0-9._+-]{1,64}", re.ASCII)
_HOST: Final = re.compile(r"[a-z0-9.-]{1,253}(?::[0-9]{1,5})?", re.ASCII)
_URL: Final = re.compile(r"[\x21-\x7e]+")
_KEY: Final = re.compile(r"[0-9a-f]{64}", re.ASCII)


def pay_url(profile: str, *, local: bool = False) -> str | None:
    """Return the URL that describes payments to a person, from the content of a kind 0 event.

    None where the profile names no wallet. `lud16` comes before `lud06`, as NIP-57 has it.
    `local`: hosts of this machine are asked by http. Raises InvalidIdentifier for a name that
    cannot be a wallet's.
    """
    try:
        found = msgspec.json.decode(profile)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict):
        return None
    address, lnurl = (_text(found.get(name)) for name in ("lud16", "lud06"))
    if address:
        return address_url(address, local=local)
    return lnurl_url(lnurl, local=local) if lnurl else None


def address_url(address: str, *, local: bool = False) -> str:
    """The URL of a Lightning address (LUD-16). Raises InvalidIdentifier.

    An onion service is asked by http, every other host by https; with `local` this machine by http.
    """
    name, at, host = address.strip().lower().rpartition("@")
    if not (at and _NAME.fullmatch(name) and _HOST.fullmatch(host)):
        raise InvalidIdentifier(f"not a Lightning address: {clip(address, 60)!r}")
    bare = host.partition(":")[0]
    plain = bare.endswith(".onion") or (local and _is_local(bare))
    return checked_url(
        f"{'http' if plain else 'https'}://{host}/.well-known/lnurlp/{name}", local=local
    )


def lnurl_url(text: str, *, local: bool = False) -> str:
    """The URL inside an LNURL (LUD-01, LUD-06). Raises InvalidIdentifier."""
    bare = text.strip()
    bare = bare[10:] if bare[:10].lower() == "lightning:" else bare
    prefix, payload = decode(bare)
    if prefix != PREFIX:
        raise InvalidIdentifier(f"not an LNURL: it begins with {clip(prefix, 20)!r}")
    try:
        return checked_url(payload.decode("utf-8"), local=local)
    except UnicodeDecodeError as error:
        raise InvalidIdentifier("not an LNURL: no text inside") from error


def checked_url(url: str, *, local: bool = False) -> str:
    """A URL that a wallet may be asked by: https, or http to an onion service.

    With `local` http to this machine too. Raises InvalidIdentifier, also for user and password.
    """
    try:
        parts = urlsplit(url)
        host, _ = (parts.hostname or "").lower(), parts.port
    except ValueError as error:
        raise InvalidIdentifier("not a wallet's URL") from error
    plain = host.endswith(".onion") or (local and _is_local(host))
    schemes = ("https", "http") if plain else ("https",)
    if len(url) > MOST_URL or not _URL.fullmatch(url) or not host or parts.scheme not in schemes:
        raise InvalidIdentifier(f"not a wallet's URL: expected {' or '.join(schemes)}")
    if parts.username is not None or parts.password is not None:
        raise InvalidIdentifier("not a wallet's URL: user or password in it")
    return parts._replace(fragment="").geturl()


def parse_pay_answer(raw: bytes | str) -> str | None:
    """The key by which a wallet signs zap receipts, 64 hex characters; None: it offers no zaps.

    Raises ProtocolError for the wallet's own error, for another answer, and for a bad key.
    """
    try:
        found: Any = msgspec.json.decode(raw)
    except (ValueError, RecursionError) as error:
        raise ProtocolError("the wallet's answer is not JSON") from error
    if not isinstance(found, dict):
        raise ProtocolError("the wallet's answer is not a JSON object")
    if str(found.get("status", "")).upper() == "ERROR":
        raise ProtocolError(f"the wallet says: {clip(str(found.get('reason', 'an error')), 100)}")
    if found.get("tag") != "payRequest":
        raise ProtocolError("the wallet's answer is not about payments")
    if found.get("allowsNostr") is not True:
        return None
    key = found.get("nostrPubkey")
    if not isinstance(key, str) or not _KEY.fullmatch(key):
        raise ProtocolError("the wallet's key for zaps is not 64 hex characters")
    return key


def _text(value: object) -> str:
    return value.strip() if isinstance(value, str) else ""


def _is_local(host: str) -> bool:
    return host in ("localhost", "127.0.0.1", "::1")
