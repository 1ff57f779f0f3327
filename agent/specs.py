"""Declares what is synced and removed: values that configuration, API and store share.

Light on purpose: the terminal application imports it.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal, NamedTuple
from urllib.parse import SplitResult, urlsplit

import msgspec
from msgspec import Meta

from nostr_client.codecs.display import DURATION, IN_WORDS
from nostr_client.errors import InvalidInput, host_alone
from nostr_client.options import WATCH_NAME_IN_WORDS
from nostr_client.watch.definition import (
    LEAST,
    NAME_PATTERN,
    AlertSpec,
    Duration,
    FilterObject,
    Name,
    Url,
    Watch,
)

Key = Annotated[str, Meta(min_length=1, max_length=200)]
Kind = Annotated[int, Meta(ge=0, le=65_535)]

_IN_WORDS: Final = {
    NAME_PATTERN: WATCH_NAME_IN_WORDS,
    DURATION: IN_WORDS,
}


def in_words(error: str) -> str:
    """What msgspec says, with words instead of a pattern that a name or duration misses."""
    for pattern, words in _IN_WORDS.items():
        error = error.replace(f"`str` matching regex {pattern!r}", words)
    return error


class SyncSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A set of events that the store and some relays keep in common (NIP-77)."""

    name: Annotated[Name, Meta(description="what you call it")]
    filters: Annotated[
        tuple[FilterObject, ...],
        Meta(min_length=1, max_length=10, description="which events: NIP-01 filters, OR'd"),
    ]
    relays: Annotated[
        tuple[Url, ...], Meta(max_length=200, description="with whom; empty: relays.default")
    ] = ()
    direction: Annotated[Literal["down", "up", "both"], Meta(description="which way events go")] = (
        "down"
    )
    interval: Annotated[Duration, Meta(description=f"how often; {LEAST} at least")] = "1h"
    since: Annotated[
        Duration | None, Meta(description="only events of this last time; unset: all of them")
    ] = None
    window: Annotated[
        int, Meta(ge=100, le=1_000_000, description="local events in one session")
    ] = 25_000
    include_private: Annotated[
        bool, Meta(description="hand over events of private kinds that no filter names, too")
    ] = False
    include_others: Annotated[
        bool, Meta(description="hand over events by others that no filter names, too")
    ] = False


class CoverageAlert(AlertSpec, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """An alert when relays lack events: by webhook, by command, or both."""

    when: Annotated[
        str,
        Meta(max_length=100, description='"< 95 % on 3 relays"; "< 95 %" is on one at least'),
    ]


class DigestAlert(AlertSpec, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """An alert with the digest: by webhook, by command, or both."""

    when: Annotated[
        str,
        Meta(
            max_length=100, description='time of day in UTC, "08:00", or "every 12h"; 1h at least'
        ),
    ]


class DigestSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The digest, sent once a day or at an interval: what changed since the digest before."""

    alerts: Annotated[
        tuple[DigestAlert, ...],
        Meta(max_length=16, description="when, and where to; none: no digest is sent"),
    ] = ()


class CoverageSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Relays that are compared again and again by the events of one author."""

    name: Annotated[Name, Meta(description="what you call it")]
    author: Annotated[Key, Meta(description="whose events: npub, nprofile or hex")]
    relays: Annotated[
        tuple[Url, ...], Meta(max_length=50, description="which relays; empty: relays.default")
    ] = ()
    written: Annotated[
        bool,
        Meta(description="also those where the author writes (NIP-65), found by relays.indexers"),
    ] = False
    kinds: Annotated[
        tuple[Kind, ...],
        Meta(max_length=50, description="of these kinds; empty: those that people want to keep"),
    ] = ()
    since: Annotated[
        Duration | None, Meta(description="only events of this last time; unset: all of them")
    ] = None
    interval: Annotated[Duration, Meta(description=f"how often; {LEAST} at least")] = "1d"
    max_events: Annotated[
        int,
        Meta(
            ge=1,
            le=1_000_000,
            description="events read of one relay and kind, if it cannot compare by ids",
        ),
    ] = 10_000
    repair: Annotated[
        bool, Meta(description="send relays what they lack, by the rules of coverage --repair")
    ] = False
    alerts: Annotated[tuple[CoverageAlert, ...], Meta(max_length=16)] = ()


class RetentionRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Events that are removed when they are older than `older_than`; every condition must hold."""

    older_than: Annotated[Duration, Meta(description="age by created_at")]
    kinds: Annotated[tuple[Kind, ...], Meta(description="of these kinds; empty: any")] = ()
    authors: Annotated[tuple[Key, ...], Meta(description="of these keys; empty: anyone's")] = ()
    keep_authors: Annotated[tuple[Key, ...], Meta(description="except of these keys")] = ()


class StoredNames(NamedTuple):
    """Names of the watches and syncs that commands and the API added to the store."""

    watches: frozenset[str] = frozenset()
    syncs: frozenset[str] = frozenset()


def check_agent_url(url: str) -> None:
    """Raise InvalidInput for text that cannot be the URL of an agent's API, without repeating it.

    A URL with a user or password is refused: the API takes only its token.
    """
    check_http_url(url)
    if "@" in urlsplit(url).netloc:
        raise InvalidInput("has a user or password: the API takes only its token")


def check_http_url(url: str) -> None:
    """Raise InvalidInput for what no HTTP request can go to, without repeating it."""
    if not url.lower().startswith(("http://", "https://")):
        raise InvalidInput("is not an http:// or https:// URL")
    if not url.isprintable() or " " in url or "\\" in url:
        raise InvalidInput("is not a URL: it has a space, a backslash or a control character in it")
    try:
        host, port = urlsplit(url).hostname, _port(urlsplit(url))
    except ValueError as error:
        raise InvalidInput("is not a URL: its host cannot be read") from error
    if not host:
        raise InvalidInput("is not a URL: no host follows the //")
    if port == 0:
        raise InvalidInput("is not a URL: its port is not a number from 1 to 65535")


def _port(parts: SplitResult) -> int | None:
    """The port of a URL, None for the default of its scheme, 0 for an invalid one."""
    try:
        return parts.port
    except ValueError:
        return 0


def with_known_webhooks(spec: Watch, known: Watch) -> Watch:
    """Replace webhooks in their shown form by the known URLs; return the changed watch.

    So a change of another field does not need the URL, which is never shown. Raises InvalidInput if
    several webhooks of `known` have the same shown form.
    """
    alerts = (
        msgspec.structs.replace(one, webhook=_known_webhook(one, known)) for one in spec.alerts
    )
    return msgspec.structs.replace(spec, alerts=tuple(alerts))


def _known_webhook(alert: AlertSpec, known: Watch) -> str:
    """The URL of a webhook: its own, or the known one that it is shown as."""
    if not alert.webhook or "://" in alert.webhook:
        return alert.webhook
    alike = [
        one for one in known.alerts if one.webhook and host_alone(one.webhook) == alert.webhook
    ]
    same = [one for one in alike if one.when == alert.when] or alike
    found = {one.webhook for one in same}
    if len(found) > 1:
        raise InvalidInput(f"the watch has several webhooks at {alert.webhook}: give the whole URL")
    return found.pop() if found else alert.webhook
