"""Declares what is synced and removed, and what a sync asks: values that others share.

Light on purpose: the terminal application imports it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final, Literal, NamedTuple
from urllib.parse import SplitResult, urlsplit

import msgspec
from msgspec import Meta

from nostr_client.codecs.display import DURATION, IN_WORDS, seconds
from nostr_client.codecs.relay_url import normalize
from nostr_client.codecs.typed import filter_of
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

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from nostr_client.codecs.filters import Filter

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
    """A set of events that the agent keeps equal in the store and on relays (NIP-77)."""

    name: Annotated[Name, Meta(description="name of the sync")]
    filters: Annotated[
        tuple[FilterObject, ...],
        Meta(
            min_length=1,
            max_length=10,
            description="NIP-01 filters; an event belongs if it matches one",
        ),
    ]
    relays: Annotated[
        tuple[Url, ...],
        Meta(max_length=200, description="relays to sync with; if empty, relays.default"),
    ] = ()
    direction: Annotated[
        Literal["down", "up", "both"], Meta(description="down: to the store; up: to the relays")
    ] = "down"
    interval: Annotated[Duration, Meta(description=f"time between two runs, at least {LEAST}")] = (
        "1h"
    )
    since: Annotated[
        Duration | None,
        Meta(description="only events of this last period, such as 30d; if unset, all events"),
    ] = None
    window: Annotated[
        int, Meta(ge=100, le=1_000_000, description="most local events in one negentropy session")
    ] = 25_000
    include_private: Annotated[
        bool, Meta(description="also send events of private kinds that no filter names")
    ] = False
    include_others: Annotated[
        bool, Meta(description="also send events of others whom no filter names")
    ] = False


class CoverageAlert(AlertSpec, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """An alert when relays lack events: by webhook, by command, or both."""

    when: Annotated[
        str,
        Meta(
            max_length=100, description='such as "< 95 % on 3 relays"; "< 95 %" means on one relay'
        ),
    ]


class DigestAlert(AlertSpec, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """An alert with the digest: by webhook, by command, or both."""

    when: Annotated[
        str,
        Meta(
            max_length=100,
            description='time of day in UTC, as "08:00", or "every 12h", at least 1h',
        ),
    ]


class DigestSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The digest of the changes since the last digest, sent once a day or at an interval."""

    alerts: Annotated[
        tuple[DigestAlert, ...],
        Meta(max_length=16, description="when and where to send it; if empty, never"),
    ] = ()


class CoverageSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A regular comparison of relays by the events of one author."""

    name: Annotated[Name, Meta(description="name of the coverage")]
    author: Annotated[Key, Meta(description="author of the events: npub, nprofile or hex")]
    relays: Annotated[
        tuple[Url, ...],
        Meta(max_length=50, description="relays to compare; if empty, relays.default"),
    ] = ()
    written: Annotated[
        bool,
        Meta(description="also compare the author's write relays (NIP-65), by relays.indexers"),
    ] = False
    kinds: Annotated[
        tuple[Kind, ...],
        Meta(
            max_length=50, description="kinds to compare; if empty, kinds that people want to keep"
        ),
    ] = ()
    since: Annotated[
        Duration | None,
        Meta(description="only events of this last period, such as 30d; if unset, all events"),
    ] = None
    interval: Annotated[Duration, Meta(description=f"time between two runs, at least {LEAST}")] = (
        "1d"
    )
    max_events: Annotated[
        int,
        Meta(
            ge=1,
            le=1_000_000,
            description="most events to read of a relay and kind, if it has no negentropy",
        ),
    ] = 10_000
    repair: Annotated[
        bool, Meta(description="send missing events to relays, by the rules of coverage --repair")
    ] = False
    alerts: Annotated[tuple[CoverageAlert, ...], Meta(max_length=16)] = ()


class RetentionRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A rule that removes old events. An event must meet every condition."""

    older_than: Annotated[Duration, Meta(description="age of the events, by created_at")]
    kinds: Annotated[
        tuple[Kind, ...], Meta(description="kinds of the events; if empty, all kinds")
    ] = ()
    authors: Annotated[
        tuple[Key, ...], Meta(description="authors of the events; if empty, all authors")
    ] = ()
    keep_authors: Annotated[tuple[Key, ...], Meta(description="authors whose events stay")] = ()


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


def sync_filters(sync: SyncSpec, now: float) -> tuple[Filter, ...]:
    """The filters of a sync that starts `now`. Raises InvalidInput.

    Limits are removed: an older version stored syncs with one.
    """
    found = tuple(filter_of(one).replace(limit=None) for one in sync.filters)
    if sync.since is None:
        return found
    least = int(now - seconds(sync.since))
    return tuple(one.replace(since=max(least, one.since or 0)) for one in found)


def chosen(relays: Sequence[str], default: Sequence[str], denied: Collection[str]) -> list[str]:
    """The relays to ask: those named, else the defaults; normalised, each once, none denied."""
    out = frozenset(map(normalize, denied))
    urls = dict.fromkeys(normalize(url) for url in relays or default)
    return [url for url in urls if url not in out]
