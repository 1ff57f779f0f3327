"""Connect to a nats-server: check URLs and credentials, and convert errors."""

from __future__ import annotations

import asyncio
import logging
import re
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import nats
import nats.errors
import nkeys
from nats.aio.client import RawCredentials

from nostr_client.counters.base import NoStream
from nostr_client.errors import (
    CounterError,
    DeadlineExceeded,
    InvalidInput,
    NetworkError,
    ProtocolError,
    clip,
    without_user,
)
from nostr_client.network.access.routes import route
from nostr_client.options import ConnectionOptions
from nostr_client.paths import check_secret_file, user_path

if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterator, Mapping, Sequence

    from nats.aio.client import Client


MAX_BYTES: Final = 64 * 1024
"""Most bytes of a credentials file. A normal file has about 1,000 bytes."""

_PART = r"-----BEGIN {0}-----[ \t]*\r?\n([A-Za-z0-9._=-]+)[ \t]*\r?\n-+END {0}-+"
_TOKEN = re.compile(_PART.format("NATS USER JWT"))
_SEED = re.compile(_PART.format("USER NKEY SEED"))


def read_credentials(path: str) -> str:
    """Return the credentials in a file, in the only form that does not make nats-py hang.

    Raises InvalidInput if the file cannot be read, lacks a user's token and seed, or can be read by
    other users.
    """
    try:
        with user_path(path).open("rb") as file:
            text = file.read(MAX_BYTES).decode("ascii", "replace")
    except (OSError, ValueError) as error:
        raise InvalidInput(f"the credentials {path!r} cannot be read: {error}") from error
    token, seed = _TOKEN.search(text), _SEED.search(text)
    if token is None or seed is None or not _is_user(seed[1]):
        raise InvalidInput(f"{path!r} holds no credentials of a NATS user")
    check_secret_file(user_path(path))
    return (
        f"-----BEGIN NATS USER JWT-----\n{token[1]}\n------END NATS USER JWT------\n"
        f"-----BEGIN USER NKEY SEED-----\n{seed[1]}\n------END USER NKEY SEED------\n"
    )


def _is_user(seed: str) -> bool:
    try:
        pair = nkeys.from_seed(bytearray(seed.encode()))
    except (nkeys.NkeysError, ValueError):
        return False
    return bool(seed.startswith("SU") and pair.public_key)


def api_error(error: object, url: str, about: str) -> CounterError:
    """Convert the error object of an answer to a CounterError.

    Raises ProtocolError if the object is not an error.
    """
    if not isinstance(error, dict):
        raise ProtocolError("an error without a code", relay=url)
    code, status = error.get("err_code", 0), error.get("code", 0)
    description = error.get("description", "")
    if not isinstance(code, int) or not isinstance(status, int):
        raise ProtocolError("an error without a code", relay=url)
    if code == 10059:
        return NoStream(about)
    return CounterError(clip(str(description)), code=code, status=status, about=about)


COUNTED: Final = "the message may have been counted: repeat it with the same message id"
"""The doubt about a message whose acknowledgement was lost."""

DONE: Final = "the server may have done it"
"""The doubt about a call that changes a stream and whose answer was lost."""

_NOT_SENT: Final = (
    nats.errors.ConnectionClosedError,
    nats.errors.ConnectionDrainingError,
    nats.errors.OutboundBufferLimitError,
)


@contextmanager
def mapped(url: str, subject: str = "", doubt: str = "") -> Iterator[None]:
    """Convert nats-py's errors to the errors of this package.

    `doubt` says what may have happened if the request was sent and its answer was lost.
    """
    lost = f"; {doubt}" if doubt else ""
    try:
        yield
    except nats.errors.NoRespondersError as error:
        raise NoStream(subject) from error
    except nats.errors.TimeoutError as error:
        raise DeadlineExceeded(f"no answer from nats-server in time{lost}", relay=url) from error
    except (nats.errors.BadSubjectError, nats.errors.BadHeaderError) as error:
        raise InvalidInput(f"cannot be sent: {error}") from error
    except nats.errors.MaxPayloadError as error:
        raise CounterError("message size exceeds maximum allowed", code=10054) from error
    except _NOT_SENT as error:
        raise NetworkError(clip(str(error)), relay=url) from error
    except (nats.errors.Error, OSError) as error:
        text = clip(str(error) or type(error).__name__)
        raise NetworkError(f"{text}{lost}", relay=url) from error


log = logging.getLogger(__name__)

TIMEOUT_S = 5.0
"""Seconds that one request may take.

A server answers in milliseconds, a leader election takes seconds.
"""

CONNECT_S = 5
"""Seconds that one server may take to answer before the next server is tried."""

SCHEMES = ("nats", "tls", "ws", "wss")

_OFTEN = -1  # nats-py reconnects for as long as the client is open


@dataclass(frozen=True, slots=True, kw_only=True)
class NatsOptions:
    """Sets how to reach JetStream on a nats-server."""

    domain: str | None = None
    """A JetStream domain, for example of a leaf node."""

    api_prefix: str | None = None
    """A prefix instead of `$JS.API`, for an API from another account. Not with `domain`."""

    credentials: str | None = None
    """The path of a .creds file. `connect` reads the file once."""

    tls: ssl.SSLContext | None = None
    """TLS settings. None: the default of nats-py."""
    token: str | None = None
    """The token for a server that uses tokens."""

    timeout_s: float = TIMEOUT_S
    """Seconds for one request. A server answers in milliseconds, but the election of a new leader
    takes seconds."""

    connection: ConnectionOptions = field(default_factory=ConnectionOptions)
    """Proxy settings. nats-py supports no proxy, so `connect` refuses a server behind a proxy."""

    @property
    def prefix(self) -> str:
        """The prefix of the API's subjects. Raises InvalidInput if both `domain` and `api_prefix`
        are set.
        """
        if self.domain and self.api_prefix:
            raise InvalidInput("give a JetStream domain or an API prefix, not both")
        if self.domain:
            return f"$JS.{self.domain}.API"
        return (self.api_prefix or "$JS.API").rstrip(".")


class _Reasons:
    """Reason of a failed connection.

    nats-py reports errors and tries again. An error that the server sent is more useful than the
    later reset of the connection.
    """

    def __init__(self) -> None:
        self.why = ""

    async def note(self, error: Exception) -> None:
        text = clip(str(error) or type(error).__name__)
        log.debug("nats: %s", text)
        if not self.why or not isinstance(error, OSError):
            self.why = f": {text}"


def _settings(options: NatsOptions) -> dict[str, Any]:
    """Return the options of nats-py besides the URLs. Raises InvalidInput."""
    found: dict[str, Any] = {"tls": options.tls, "token": options.token}
    if options.credentials is not None:
        found["user_credentials"] = RawCredentials(read_credentials(options.credentials))
    return found


def check_urls(urls: Sequence[str]) -> list[str]:
    """Return valid URLs of nats-servers.

    Raises InvalidInput for URLs that nats-py does not handle well.
    """
    if not urls:
        raise InvalidInput("not one URL of a nats-server")
    found = [url if "://" in url else f"nats://{url}" for url in urls]
    for url in found:
        if not _is_url(url):
            raise InvalidInput(
                f"not the URL of a nats-server (nats://host:4222): {without_user(url)!r}"
            )
    return found


def _is_url(url: str) -> bool:
    try:
        parts = urlsplit(url)
        named = parts.scheme in SCHEMES and parts.hostname and parts.port != 0
    except ValueError:
        return False
    return bool(named) and url.isascii() and url.isprintable() and " " not in url


async def dial(urls: Sequence[str], options: NatsOptions) -> Client:
    """Connect to the first server that answers.

    Raises NetworkError. Raises InvalidInput for no URL, a file without credentials, or a proxy.
    """
    servers, reasons = check_urls(urls), _Reasons()
    for url in servers:
        _refuse_proxy(url, options.connection)
    settings = _settings(options)
    try:
        async with asyncio.timeout(CONNECT_S * len(servers)):
            return await _connect(servers, settings, reasons)
    except TimeoutError as error:
        why = f"no nats-server could be reached{reasons.why}"
        raise NetworkError(why, relay=without_user(servers[0])) from error


def _refuse_proxy(url: str, connection: ConnectionOptions) -> None:
    if route(url, connection) is not None:
        host = clip(urlsplit(url).hostname or "", 60)
        raise InvalidInput(
            f"a nats-server is not reached through a proxy: NO_PROXY has to name {host}, "
            "or the proxy has to be none"
        )


async def _connect(servers: list[str], settings: Mapping[str, Any], reasons: _Reasons) -> Client:
    """Connect with nats-py.

    nats-py tries forever, even the first time, so the caller must set a deadline.
    """
    with mapped(without_user(servers[0])):
        return await nats.connect(
            servers,
            error_cb=reasons.note,
            connect_timeout=CONNECT_S,
            max_reconnect_attempts=_OFTEN,
            allow_reconnect=True,
            **settings,
        )
