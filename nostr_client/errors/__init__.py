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
    """Root of every error that this package raises on purpose."""


class InvalidInput(NostrTallyError, ValueError):
    """A value that you passed is not what the function accepts."""


class InvalidEvent(InvalidInput):
    """Not a NIP-01 event, or its id or signature does not hold."""


class InvalidFilter(InvalidInput):
    """Not a NIP-01 filter."""


class InvalidKey(InvalidInput):
    """Not a secret or public key of secp256k1."""


class InvalidIdentifier(InvalidInput):
    """Not a NIP-19 identifier, or one of another type than asked for."""


class InvalidRelayURL(InvalidInput):
    """Not a URL that a relay can live at."""


class NoRelays(NostrTallyError):
    """No relay to ask was found; the text says which step failed. Name relays, or try later."""


class RelayError(NostrTallyError):
    """Something that one relay did; `relay` is its normalised URL, or "" when not known yet."""

    def __init__(self, message: str, *, relay: str = "") -> None:
        super().__init__(f"{relay}: {message}" if relay else message)
        self.relay = relay


class ProtocolError(RelayError):
    """The relay sent something that is not a message of the protocol."""


class MalformedMessage(ProtocolError):
    """A frame, of either side, that cannot be read.

    `label` is its first element and `ref` the subscription, query or event id that it is about,
    each "" where it could not be read.
    """

    def __init__(self, message: str, *, label: str = "", ref: str = "", relay: str = "") -> None:
        super().__init__(message, relay=relay)
        self.label = label
        self.ref = ref


class NegentropyError(ProtocolError):
    """The other side's negentropy message cannot be read.

    `kind` is one of: truncated, bad-version-byte, unsupported-version, bound-too-long, bad-mode,
    varint-overflow, bad-bound-order, too-many-ranges.
    """

    def __init__(self, message: str, *, kind: str, relay: str = "") -> None:
        super().__init__(message, relay=relay)
        self.kind = kind


class RelayRefused(RelayError):
    """The relay refused; `prefix` is the word before the colon of its reason, or ""."""

    def __init__(self, reason: str, *, prefix: str = "", relay: str = "") -> None:
        super().__init__(clip(reason) or "refused without a reason", relay=relay)
        self.reason = reason
        self.prefix = prefix


class HeldBack(RelayRefused):
    """Our own budget for this relay is spent, so the relay was not asked.

    `seconds`: until it may be asked. The prefix is `rate-limited`, as if the relay had said so:
    wait, then ask again.
    """

    def __init__(self, seconds: float, *, relay: str = "") -> None:
        reason = f"our own budget for this relay is spent for {max(1, round(seconds))} s more"
        super().__init__(f"rate-limited: {reason}", prefix="rate-limited", relay=relay)
        self.seconds = seconds


class Unsupported(RelayRefused):
    """The relay does not know this kind of request at all."""


class NetworkError(RelayError):
    """The relay could not be reached, or the connection broke.

    `close_code` is the WebSocket's (RFC 6455), `http_status` the handshake's or the document's,
    `location` where a redirect that was not followed leads; None if there was none.
    `nostr_client.network.pacing.judge` reads the first two.
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
    """No answer before the deadline."""


class StoreError(NostrTallyError):
    """The local store failed; nothing acknowledged is lost."""


class StoreLocked(StoreError):
    """Another process writes to this store; `pid` is its process id, None if not known."""

    def __init__(self, message: str, *, pid: int | None = None) -> None:
        super().__init__(message)
        self.pid = pid


class SchemaTooNew(StoreError):
    """A newer version of this program wrote the store."""


class SchemaTooOld(StoreError):
    """The store lacks tables of this version: opening it for writing makes them."""


class StoreFull(StoreError):
    """No room left: disk, quota or page limit."""


class StoreCorrupt(StoreError):
    """The file is not a store, or its pages do not hold together."""


class CounterError(NostrTallyError):
    """A counter refused; `code` is nats-server's error code (ADR-49), e.g. 10171; 0 is ours.

    `status` is the HTTP-like class that the server gives with it: 400, 404, 500 or 503. `about`
    names the stream or subject in the error's text; `description` is the server's own words.
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
    """This message id was counted before, as message `seq`; nothing was added now.

    The value is not in it: a real server's answer to a duplicate carries none.
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
    """Something that is installed by an extra alone is not here."""


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
