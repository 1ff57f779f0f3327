"""Sign events with a key that a bunker keeps (NIP-46), through the client of nostr-sdk.

nostr-sdk (extra `[fleet]`) connects directly to the relays of the bunker's link. A link is
therefore refused if one of its relays needs a proxy. This module verifies everything that the
bunker returns.
"""

from __future__ import annotations

import asyncio
import re
import time
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qs, quote, urlsplit

import msgspec

from nostr_client.codecs import nip19
from nostr_client.codecs.event import parse_event
from nostr_client.codecs.keys import verify
from nostr_client.codecs.relay_url import is_onion, needs_proxy, normalize
from nostr_client.errors import (
    DeadlineExceeded,
    InvalidEvent,
    InvalidInput,
    RelayError,
    clip,
    optional,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from nostr_client.codecs.event import EventTemplate
    from nostr_client.codecs.keys import KeySigner, VerifiedEvent
    from nostr_client.options import ConnectionOptions

SCHEME: Final = "bunker://"

REQUEST_S: Final = 30.0
"""Seconds that one request may take. A bunker may ask its owner, who may be away."""

MOST_RELAYS: Final = 10
"""Most relays of one link. Bunkers name one to three."""

_SECRETS: Final = re.compile(r"nsec1[0-9a-z]+")


class BunkerLink(msgspec.Struct, frozen=True, kw_only=True):
    """A `bunker://` link: the bunker's key (hex), its relays (normalised), and a secret or ""."""

    bunker: str
    relays: tuple[str, ...]
    secret: str = ""

    def __repr__(self) -> str:
        return f"BunkerLink(bunker={self.bunker!r}, relays={self.relays!r})"

    def text(self, *, secret: bool) -> str:
        """Return the link, with its secret or without."""
        found = [f"relay={quote(url, safe='')}" for url in self.relays]
        if secret and self.secret:
            found.append(f"secret={quote(self.secret, safe='')}")
        return f"{SCHEME}{self.bunker}?{'&'.join(found)}"


def read_link(text: str) -> BunkerLink:
    """Read a `bunker://` link.

    Raises InvalidInput or InvalidRelayURL, without the link's secret.
    """
    try:
        parts = urlsplit(text.strip())
    except ValueError:  # unbalanced brackets in the host
        parts = urlsplit("")
    query = parse_qs(parts.query)
    if parts.scheme != "bunker" or not nip19.looks_hex(parts.netloc):
        raise InvalidInput("not a bunker's link: expected bunker://KEY?relay=URL&secret=SECRET")
    relays = tuple(dict.fromkeys(normalize(url) for url in query.get("relay", ())))
    if not 0 < len(relays) <= MOST_RELAYS:
        raise InvalidInput(f"a bunker's link names 1 to {MOST_RELAYS} relays")
    secret = query.get("secret", [""])[0]
    return BunkerLink(bunker=parts.netloc.lower(), relays=relays, secret=secret)


def check_direct(link: BunkerLink, connection: ConnectionOptions) -> None:
    """Raise InvalidInput for a link with a relay that needs a proxy."""
    for url in link.relays:
        host = urlsplit(url).hostname or ""
        if is_onion(host):  # nostr-sdk would look the name up in DNS
            raise InvalidInput(f"{needs_proxy(host)}, and a bunker is reached without one")
        if connection.proxies().for_url(url) is not None:
            raise InvalidInput(
                f"{url}: a bunker is reached directly, and a proxy is configured for its relay:"
                " use a key file, or name the relay in no_proxy"
            )


class BunkerSigner:
    """Signer whose key is in a bunker. `await BunkerSigner.connect(...)` makes one."""

    def __init__(
        self,
        requests: BunkerRequests,
        pubkey: str,
        *,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._requests = requests
        self._pubkey = pubkey
        self._now = now

    @classmethod
    async def connect(
        cls,
        link: BunkerLink,
        client: KeySigner,
        connection: ConnectionOptions,
        *,
        paired: bool = False,
        seconds: float = REQUEST_S,
    ) -> BunkerSigner:
        """Connect to a bunker and ask for its public key. Each request takes at most `seconds`.

        `client`: the key by which the bunker knows this client. `paired`: the bunker knows this
        client already, so the link's secret is not sent. Raises InvalidInput if a relay needs a
        proxy. Raises MissingExtra, DeadlineExceeded, and RelayError with the bunker's reason. Safe
        to cancel.
        """
        check_direct(link, connection)
        requests = BunkerRequests(link, client, seconds, paired=paired)
        return cls(requests, await requests.public_key())

    @property
    def pubkey(self) -> str:
        """The public key that signs, 64 lower-case hex characters."""
        return self._pubkey

    async def sign(self, template: EventTemplate) -> VerifiedEvent:
        """Ask the bunker to sign an event, and verify the result.

        Raises InvalidEvent if the bunker signs another event, DeadlineExceeded, and RelayError with
        the bunker's reason. Safe to cancel. The bunker's answer is then ignored.
        """
        at = int(self._now()) if template.created_at is None else template.created_at
        tags = tuple(tuple(tag) for tag in template.tags)
        wanted = (self._pubkey, at, template.kind, tags, template.content)
        event = parse_event(await self._requests.sign(wanted))
        if (event.pubkey, event.created_at, event.kind, event.tags, event.content) != wanted:
            raise InvalidEvent("the bunker signed another event than it was asked for")
        return verify(event)

    def __repr__(self) -> str:
        return f"BunkerSigner(pubkey={self._pubkey!r})"


class BunkerRequests:
    """Sends requests by nostr-sdk's client, whose method names differ between 0.44 and 0.45."""

    def __init__(
        self, link: BunkerLink, client: KeySigner, seconds: float, *, paired: bool
    ) -> None:
        with optional("a key in a bunker"):
            import nostr_sdk
        self.sdk: Any = nostr_sdk
        self._link = link
        self._seconds = seconds
        with self.errors():
            uri = self.sdk.NostrConnectUri.parse(link.text(secret=not paired))
            keys = self.sdk.Keys.parse(client.nsec())
            self._client = self.sdk.NostrConnect(uri, keys, timedelta(seconds=seconds), None)

    async def public_key(self) -> str:
        """Return the public key (hex) that the bunker signs with."""
        found = await self._ask("get_public_key")
        return str(found.to_hex())

    async def sign(self, fields: tuple[Any, ...]) -> str:
        """Return the JSON text of the signed event."""
        names = ("pubkey", "created_at", "kind", "tags", "content")
        raw = msgspec.json.encode(dict(zip(names, fields, strict=True))).decode()
        with self.errors():
            unsigned = self.sdk.UnsignedEvent.from_json(raw)
        found = await self._ask("sign_event", unsigned)
        return str(found.as_json())

    async def _ask(self, name: str, *args: Any) -> Any:
        call = getattr(self._client, f"{name}_async", None) or getattr(self._client, name)
        with self.errors():
            try:
                async with asyncio.timeout(self._seconds):
                    found = await call(*args)
            except TimeoutError as error:
                text = f"the bunker gave no answer within {self._seconds:g} s ({name})"
                raise DeadlineExceeded(text, relay=self._link.relays[0]) from error
        if found is None:
            raise RelayError(f"the bunker refused {name}", relay=self._link.relays[0])
        return found

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Convert an error of nostr-sdk to RelayError, without the secrets that it may repeat."""
        try:
            yield
        except self.sdk.NostrSdkError as error:
            text = _SECRETS.sub("…", str(error))
            if self._link.secret:
                text = text.replace(self._link.secret, "…")
            raise RelayError(f"the bunker: {clip(text)}", relay=self._link.relays[0]) from None
