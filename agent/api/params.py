"""What may stand in the path and the query string of a request."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from agent.api import schema
from agent.api.shapes import Body
from agent.specs import Name

Limit = Annotated[int, Meta(ge=1, le=10_000)]
StreamName = Annotated[str, Meta(min_length=1, max_length=255)]


class Nothing(Body, frozen=True):
    """No parameters."""


class Named(Body, frozen=True):
    """A watch or a sync in the path."""

    name: Name


class InStream(Body, frozen=True):
    """A stream of counters in the path."""

    stream: StreamName


class HistoryQuery(Body, frozen=True):
    """From when, and how many at most: the newest ones."""

    since: Annotated[float, Meta(ge=0, le=1e12)] = 0.0
    limit: Limit = 2000


class CountersQuery(Body, frozen=True):
    """Which counters: a subject, where `*` stands for one token and a last `>` for the rest."""

    pattern: Annotated[str, Meta(min_length=1, max_length=256)] = ">"
    limit: Limit = 1000


class CounterHistoryQuery(Body, frozen=True):
    """One counter's messages after a sequence."""

    subject: schema.Subject
    after: Annotated[int, Meta(ge=0, le=2**53)] = 0
    limit: Limit = 1000


class MessagesQuery(Body, frozen=True):
    """A stream's messages after a sequence; `newest`: of each subject the newest one alone."""

    after: Annotated[int, Meta(ge=0, le=2**53)] = 0
    limit: Limit = 1000
    newest: bool = False


class RelayQuery(Body, frozen=True):
    """Which relay, as /v1/relays names it: ASCII, so that it fits into a request line."""

    url: Annotated[str, Meta(min_length=1, max_length=500, pattern=r"^[!-~]+(?!\n)$")]


class OfLink(Body, frozen=True):
    """A link of counters in the path."""

    name: Annotated[str, Meta(min_length=1, max_length=255)]


class HotQuery(Body, frozen=True):
    """Of which tag name and kind, and how many at most."""

    name: Annotated[str, Meta(min_length=1, max_length=64)] | None = None
    kind: Annotated[int, Meta(ge=0, le=65_535)] | None = None
    limit: Annotated[int, Meta(ge=1, le=1000)] = 50


class LogQuery(Body, frozen=True):
    """The lines after a number, and how many at most: the newest ones."""

    after: Annotated[int, Meta(ge=0, le=2**53)] = 0
    limit: Annotated[int, Meta(ge=1, le=1000)] = 200


class EventsQuery(Body, frozen=True):
    """The run and number that were seen last, `run:n`, to go on from there."""

    last: Annotated[
        str, Meta(max_length=64, pattern=r"^([A-Za-z0-9]{1,40}:[0-9]{1,15})?(?!\n)$")
    ] = ""
