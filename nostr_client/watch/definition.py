"""Define a watch: a named question that is asked at an interval, with all its settings.

The SDK, the configuration file, the API and the store share one value: they write a `Watch`, and
msgspec reads it. The module is light, as the terminal application imports it: a question is parsed
when it is first needed.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeVar

import msgspec
from msgspec import Meta

from nostr_client.codecs import nip19
from nostr_client.codecs.display import DURATION, IN_WORDS, duration, seconds
from nostr_client.codecs.relay_url import normalize
from nostr_client.count import QueryName as QueryName
from nostr_client.errors import InvalidInput, clip, host_alone
from nostr_client.options import SHORTEST_INTERVAL, WATCH_NAME, WATCH_NAME_IN_WORDS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from nostr_client.codecs.web_of_trust import Root
    from nostr_client.count.queries import Query
    from nostr_client.count.trust import TrustPolicy

SHORTEST: Final = SHORTEST_INTERVAL
"""Shortest time between two rounds, in seconds."""

INTERVAL: Final = 1800.0
"""Default seconds between two rounds; live events show changes in between."""

LEAST: Final = duration(SHORTEST)
"""The shortest interval, as a `Duration`."""

NAME_PATTERN: Final = rf"^{WATCH_NAME}(?!\n)$"

Name = Annotated[
    str, Meta(pattern=NAME_PATTERN, description="letters, digits, dot, dash, underscore")
]
Duration = Annotated[str, Meta(pattern=DURATION, description=IN_WORDS)]
Url = Annotated[str, Meta(min_length=1, max_length=2048)]
FilterObject = dict[str, Any]

Policy = Literal["exclude", "flag", "off"]
BodyFormat = Literal["json", "ntfy", "slack", "matrix", "discord"]


class AlertSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """An alert when a watch crosses a line: by webhook, by command, or both."""

    when: Annotated[
        str,
        Meta(
            max_length=100,
            description='"> 1000", "< 10", "+10 % in 1d", "-5 in 1h" or "relay lies"',
        ),
    ]
    webhook: Annotated[
        str, Meta(max_length=2048, description="URL for a POST; the API shows only its host")
    ] = ""
    format: Annotated[
        BodyFormat, Meta(description="body of the POST: JSON, or a text for a service")
    ] = "json"
    command: Annotated[
        tuple[Annotated[str, Meta(max_length=4096)], ...],
        Meta(max_length=64, description="program and arguments; the program gets JSON on stdin"),
    ] = ()


_Alert = TypeVar("_Alert", bound=AlertSpec)


class Watch(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A named question that the client asks again at an interval.

    A watch has either `query` and `target`, or `filters`.
    """

    name: Annotated[Name, Meta(description="name of the watch")]
    query: Annotated[QueryName | None, Meta(description="a canonical query")] = None
    target: Annotated[
        str, Meta(max_length=4096, description="target of the query: npub, nevent, naddr or hex")
    ] = ""
    filters: Annotated[
        tuple[FilterObject, ...],
        Meta(
            max_length=10,
            description="NIP-01 filters, instead of a query; an event matches if any matches",
        ),
    ] = ()
    relays: Annotated[
        tuple[Url, ...], Meta(max_length=200, description="relays to ask; if empty, relays.default")
    ] = ()
    excluded: Annotated[
        tuple[Url, ...],
        Meta(max_length=200, description="relays to ask, but to exclude from the number"),
    ] = ()
    trusted: Annotated[
        tuple[Url, ...],
        Meta(max_length=200, description="relays to believe without a test, as relays.trusted"),
    ] = ()
    policy: Annotated[
        Policy | None,
        Meta(description="what happens to claims that cannot be true; if unset, relays.trust"),
    ] = None
    interval: Annotated[
        Duration, Meta(description=f"time between two requests to a relay, at least {LEAST}")
    ] = duration(INTERVAL)
    live: Annotated[bool, Meta(description="subscribe to new events between two requests")] = True
    keep: Annotated[bool, Meta(description="store the events of the subscription")] = False
    within: Annotated[
        str,
        Meta(
            max_length=2048,
            description="also count the authors in a web of trust: npub1… for the people whom "
            "this key follows, npub1…:2 for their follows too",
        ),
    ] = ""
    merged: Annotated[
        bool,
        Meta(description="answer COUNT with this number, at /merged of the agent's relay"),
    ] = False
    providers: Annotated[
        tuple[Annotated[str, Meta(min_length=1, max_length=200)], ...],
        Meta(
            max_length=20,
            description="keys whose assertions (NIP-85) the agent shows beside the number",
        ),
    ] = ()
    alerts: Annotated[
        tuple[AlertSpec, ...],
        Meta(max_length=16, description="alerts about the number or its relays"),
    ] = ()

    @property
    def question(self) -> Query:
        """The query of the watch.

        Raises InvalidInput if the watch has neither a query nor filters, or both, or a bad one.
        """
        return _question(self.query, self.target, msgspec.json.encode(self.filters))

    @property
    def every(self) -> float:
        """The interval in seconds. Raises InvalidInput."""
        return seconds(self.interval)

    @property
    def trust(self) -> TrustPolicy | None:
        """The trust policy of the watch. None means the policy of the client."""
        from nostr_client.count.trust import TrustPolicy

        return None if self.policy is None else TrustPolicy(self.policy)

    @property
    def root(self) -> Root | None:
        """The key whose web of trust `within` names. Raises InvalidInput or InvalidIdentifier."""
        from nostr_client.codecs.web_of_trust import read_root

        return read_root(self.within) if self.within else None

    @property
    def left_out(self) -> frozenset[str]:
        """The normalised URLs of `excluded`. Raises InvalidRelayURL."""
        return frozenset(map(normalize, self.excluded))

    def check(self) -> None:
        """Raise InvalidInput or InvalidRelayURL if the watch cannot be stored or asked.

        The constructor checks nothing. A decoder checks only the types, so that a program can
        report every mistake of a watch.
        """
        check_name(self.name)
        check_interval(self.interval)
        for url in (*self.relays, *self.trusted, *self.excluded):
            normalize(url)
        for key in self.providers:
            nip19.decode_pubkey(key)
        _ = self.question, self.root


@lru_cache(8192)  # each relay of each round asks
def _question(name: str | None, target: str, filters: bytes) -> Query:
    from nostr_client.codecs.typed import filter_of
    from nostr_client.count import queries

    found = msgspec.json.decode(filters)
    if bool(name) == bool(found):
        raise InvalidInput("give a query with its target, or filters")
    if name is None:
        if target:
            raise InvalidInput("a target goes with a query")
        return queries.query([filter_of(one) for one in found])
    if not target:
        raise InvalidInput(f"{name} needs a target")
    return queries.canonical(name, target)


def switched(urls: Iterable[str], url: str) -> tuple[str, ...]:
    """Return relays with one more, or without it if it is one of them; normalised.

    Raises InvalidRelayURL.
    """
    held, one = list(map(normalize, urls)), normalize(url)
    return tuple(other for other in held if other != one) if one in held else (*held, one)


def check_name(name: str) -> None:
    """Raise InvalidInput for an invalid name of a watch."""
    if not _is_name(name):
        raise InvalidInput(f"a watch's name is {WATCH_NAME_IN_WORDS}, not {clip(repr(name), 80)}")


def _is_name(name: str) -> bool:
    try:
        msgspec.convert(name, Name)
    except msgspec.ValidationError:
        return False
    return True


def check_interval(interval: str, least: float = SHORTEST) -> None:
    """Raise InvalidInput for less than `least` seconds."""
    if seconds(interval) < least:
        raise InvalidInput(f"is {least:g} seconds at least")


def shown(spec: Watch) -> Watch:
    """Return a watch as it is shown: of webhooks only the host, of commands only the program."""
    return msgspec.structs.replace(spec, alerts=shown_alerts(spec.alerts))


def shown_alerts(alerts: Sequence[_Alert]) -> tuple[_Alert, ...]:
    """Return alerts as they are shown: of webhooks only the host, of commands only the program."""
    return tuple(
        msgspec.structs.replace(
            one,
            webhook=host_alone(one.webhook) if one.webhook else "",
            command=one.command[:1],
        )
        for one in alerts
    )
