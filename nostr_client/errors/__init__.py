"""The error tree: one root, and branches by what the caller can do about it.

`InvalidInput`: correct the argument. `RelayError`: the relay broke a NIP (`ProtocolError`) or
refused (`RelayRefused`); try another relay. `NetworkError` and `DeadlineExceeded`: try again later.
`HeldBack`: try again later too, as our own budget is spent. `StoreError`: check the disk or the
other process. `CounterError`: a counter's own rule forbids it. Start with `NostrTallyError`.

Errors of other libraries never leave: they are wrapped, with the original as `__cause__`.
"""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterator


FOREIGN_TEXT_LIMIT = 512
"""Bytes of a stranger's text that an error or a log line may carry."""


def clip(text: str, limit: int = FOREIGN_TEXT_LIMIT) -> str:
    """Cut foreign text to `limit` UTF-8 bytes and make its control characters visible."""
    if 4 * len(text) <= limit and text.isprintable():
        return text  # as nearly all are
    raw = text.encode("utf-8", "replace")
    cut = raw[:limit].decode("utf-8", "ignore") + ("…" if len(raw) > limit else "")
    return "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in cut)


_SECRET_KEY: Final = re.compile(r"nsec1[0-9a-z]*", re.IGNORECASE)
_WHOLE_KEY: Final = re.compile(r"nsec1[02-9ac-hj-np-z]{40}", re.IGNORECASE)


def holds_secret_key(text: str) -> bool:
    """True for text with an nsec in it, also for one that is mistyped or cut at its end."""
    return "nsec1" in text.lower() and _WHOLE_KEY.search(text) is not None


def without_secret_keys(text: str) -> str:
    """Text for errors and logs, with `nsec1...` in place of each secret key."""
    return _SECRET_KEY.sub("nsec1...", text)


def without_tls(error: BaseException) -> str:
    """What aiohttp says, without "ssl:default", which it says where no TLS is meant too."""
    return str(error).replace(" ssl:default", "")


def without_user(url: str) -> str:
    """A URL for errors and logs: without the user, password or token before its host.

    Text that stands where a port belongs and is no number is left out too: `nats://user:password`.
    """
    scheme, separator, rest = url.partition("://")
    if not separator:
        return url.rpartition("@")[2]
    return scheme + separator + _NO_PORT.sub(r"\1:…", rest.rpartition("@")[2])


_NO_PORT: Final = re.compile(r"^([^][:/?#]*|\[[^]]*\]):(?![0-9]*(?:[/?#]|$))[^/?#]*")


def host_alone(url: str) -> str:
    """The host of a URL, and its port where it names one: what is shown of one with secrets in it.

    A webhook's path is a password as often as not. "…" for what has no host.
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return "…"
    host = f"[{host}]" if ":" in host else host
    return (f"{host}:{port}" if port else host) or "…"


class NostrTallyError(Exception):
    """The base class of every error that this package raises on purpose."""


class InvalidInput(NostrTallyError, ValueError):
    """The function does not accept a value that you passed."""


class InvalidEvent(InvalidInput):
    """The value is not a NIP-01 event, or its id or signature is wrong."""


class InvalidFilter(InvalidInput):
    """The value is not a NIP-01 filter."""


class InvalidKey(InvalidInput):
    """The value is not a secret or public key of secp256k1."""


class InvalidIdentifier(InvalidInput):
    """The text is not a NIP-19 identifier, or it is an identifier of a type that the function does
    not accept."""


class InvalidRelayURL(InvalidInput):
    """The text is not the URL of a relay."""


class NoRelays(NostrTallyError):
    """The client found no relay to ask.

    The text says which step failed. Name relays, or try later.
    """


class RelayError(NostrTallyError):
    """One relay caused an error.

    `relay` is the normalised URL of the relay, or "" if the URL is not known yet.
    """

    def __init__(self, message: str, *, relay: str = "") -> None:
        super().__init__(f"{relay}: {message}" if relay else message)
        self.relay = relay


class ProtocolError(RelayError):
    """The relay sent something that is not a message of the protocol."""


class MalformedMessage(ProtocolError):
    """A frame from the relay or to the relay is not readable.

    `label` is the first element of the frame. `ref` is the subscription id, query id or event id in
    the frame. Each of the two attributes is "" if the frame has no readable value.
    """

    def __init__(self, message: str, *, label: str = "", ref: str = "", relay: str = "") -> None:
        super().__init__(message, relay=relay)
        self.label = label
        self.ref = ref


class NegentropyError(ProtocolError):
    """A negentropy message of the other side is not readable.

    `kind` is one of: truncated, bad-version-byte, unsupported-version, bound-too-long, bad-mode,
    varint-overflow, bad-bound-order, too-many-ranges.
    """

    def __init__(self, message: str, *, kind: str, relay: str = "") -> None:
        super().__init__(message, relay=relay)
        self.kind = kind


class RelayRefused(RelayError):
    """The relay refused. `prefix` is the word before the colon in the reason, or ""."""

    def __init__(self, reason: str, *, prefix: str = "", relay: str = "") -> None:
        super().__init__(clip(reason) or "refused without a reason", relay=relay)
        self.reason = reason
        self.prefix = prefix


class HeldBack(RelayRefused):
    """The client did not ask the relay, because its own budget for the relay is spent.

    Wait `seconds`, then ask again. `prefix` is `rate-limited`, as if the relay had refused.
    """

    def __init__(self, seconds: float, *, relay: str = "") -> None:
        reason = f"our own budget for this relay is spent for {max(1, round(seconds))} s more"
        super().__init__(f"rate-limited: {reason}", prefix="rate-limited", relay=relay)
        self.seconds = seconds


class Unsupported(RelayRefused):
    """The relay does not support this kind of request."""


class NetworkError(RelayError):
    """The client could not reach the relay, or the connection broke.

    Each attribute is None if it does not apply. `close_code` is the close code of the WebSocket
    (RFC 6455). `http_status` is the HTTP status of the handshake or of the document. `location` is
    the target of a redirect that the client did not follow.
    """

    def __init__(
        self,
        message: str,
        *,
        relay: str = "",
        close_code: int | None = None,
        http_status: int | None = None,
        location: str | None = None,
    ) -> None:
        super().__init__(message, relay=relay)
        self.close_code = close_code
        self.http_status = http_status
        self.location = location


class DeadlineExceeded(RelayError, TimeoutError):
    """No answer came before the deadline."""


class StoreError(NostrTallyError):
    """The local store failed. The store still has all events that it acknowledged."""


class StoreLocked(StoreError):
    """Another process writes to this store. `pid` is the id of the process, or None if unknown."""

    def __init__(self, message: str, *, pid: int | None = None) -> None:
        super().__init__(message)
        self.pid = pid


class SchemaTooNew(StoreError):
    """A newer version of this program wrote the store."""


class SchemaTooOld(StoreError):
    """The store lacks tables of this version. Open the store for writing to create the tables."""


class StoreFull(StoreError):
    """The store has no room left: the disk, a quota or the page limit is full."""


class StoreCorrupt(StoreError):
    """The file is not a store, or it is damaged."""


class CounterError(NostrTallyError):
    """A stream of counters refused a request.

    `code` is the error code of nats-server (ADR-49), such as 10171, or 0 for an error of this
    package. `status` is the status in the server's answer: 400, 404, 500 or 503. `about` is the
    stream or subject in the error's text. `description` is the server's text.
    """

    def __init__(self, description: str, *, code: int, status: int = 400, about: str = "") -> None:
        named = f"{clip(about)}: " if about else ""
        super().__init__(named + clip(description) + (f" ({code})" if code else ""))
        self.description = description
        self.code = code
        self.status = status
        self.about = about

    def named(self, about: str) -> CounterError:
        """This error with what it is about, where its text does not say so yet."""
        if self.about or type(self) is not CounterError:
            return self
        return CounterError(self.description, code=self.code, status=self.status, about=about)


class Duplicate(CounterError):
    """The stream counted this message id before, as message `seq`, and added nothing now.

    The error has no value, because the answer of a nats-server has none.
    """

    def __init__(self, seq: int) -> None:
        super().__init__(f"message id was already counted as sequence {seq}", code=0, status=200)
        self.seq = seq


def innermost(error: BaseException) -> BaseException:
    """The first error of a group, however deep; an error that is no group is returned as it is."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


EXTRAS: Final = {
    "aiohttp_socks": "proxy",
    "matplotlib": "plot",
    "nats": "nats",
    "nkeys": "nats",
    "nostr_sdk": "fleet",
    "pandas": "spark",
    "prometheus_client": "agent",
    "pyarrow": "parquet",
    "pyspark": "spark",
    "python_socks": "proxy",
    "textual": "tui",
    "textual_serve": "tui",
}
"""The extra that brings a package, by what is imported of it."""


class MissingExtra(NostrTallyError):
    """A function needs a package of an extra that is not installed."""


def missing(what: str, package: str, extra: str | None = None) -> MissingExtra:
    """The error for something that lacks a package; `extra` brings it, else what EXTRAS say."""
    return MissingExtra(f"{what} needs {package}: {_command(extra or EXTRAS[package])}")


def _command(extra: str) -> str:
    from nostr_client.errors.installing import install_command

    return install_command(extra)


@contextmanager
def optional(what: str) -> Iterator[None]:
    """Around the imports of what `what` needs. Raises MissingExtra where a package is not here.

    A package that is here and cannot be loaded raises MissingExtra too, with why. What no extra
    brings passes: that is a bug.
    """
    try:
        yield
    except ImportError as error:
        package = _package(error)
        if package not in EXTRAS:
            raise
        found = missing(what, package)
        if not isinstance(error, ModuleNotFoundError):
            found = MissingExtra(f"{found} (it is here, but {clip(str(error))})")
        raise found from error


def wanted_extra(error: ModuleNotFoundError) -> str:
    """What to install for what was not found; raises the error where no extra brings it."""
    package = _package(error)
    extra = EXTRAS.get(package)
    if extra is None:
        raise error
    return f"{package} is not installed: {_command(extra)}"


def _package(error: ImportError) -> str:
    return (error.name or "").partition(".")[0]
