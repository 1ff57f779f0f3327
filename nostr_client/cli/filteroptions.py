"""Build filters at the command line, from JSON or options; the same on every command."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

import click

from nostr_client.cli.parameters import TimeParameter

if TYPE_CHECKING:
    from nostr_client.codecs.filters import Filter

F = TypeVar("F", bound=Callable[..., Any])

_OPTIONS = (
    click.option(
        "--filter", "filters", metavar="JSON", multiple=True,
        help="Match this filter; repeat to OR more. The options below add to each.",
    ),
    click.option(
        "--id", "ids", metavar="ID", multiple=True,
        help="Match this event: note, nevent or hex.",
    ),
    click.option(
        "--author", "-a", "authors", metavar="KEY", multiple=True,
        help="Match this author: npub, nprofile or hex.",
    ),
    click.option(
        "--kind", "-k", "kinds", type=click.IntRange(0, 65535), metavar="KIND", multiple=True,
        help="Match this kind.",
    ),
    click.option(
        "--tag", "-t", "tags", metavar="NAME=VALUE", multiple=True,
        help="Match this tag, such as e=ID.",
    ),
    click.option(
        "-e", "events", metavar="ID", multiple=True,
        help="Match events that name this event: as --tag e=ID.",
    ),
    click.option(
        "-p", "people", metavar="KEY", multiple=True,
        help="Match events that name this person: as --tag p=KEY.",
    ),
    click.option(
        "--since", metavar="TIME", type=TimeParameter(),
        help='Match from this time on: a date, "2 weeks ago", 3d, or Unix seconds.',
    ),
    click.option(
        "--until", metavar="TIME", type=TimeParameter(),
        help="Match up to this time, written as --since.",
    ),
    click.option("--search", metavar="TEXT", help="Search for these words (NIP-50)."),
)  # fmt: skip

_LIMIT = click.option(
    "--limit", type=click.IntRange(min=0), metavar="N", help="Ask each relay only for the newest."
)


class Conditions(NamedTuple):
    """The values of the filter options."""

    filters: Sequence[str] = ()
    ids: Sequence[str] = ()
    authors: Sequence[str] = ()
    kinds: Sequence[int] = ()
    tags: Sequence[str] = ()
    events: Sequence[str] = ()
    people: Sequence[str] = ()
    since: int | None = None
    until: int | None = None
    search: str | None = None
    limit: int | None = None

    @property
    def given(self) -> bool:
        """Whether any of them was given."""
        return any(value not in (None, (), []) for value in self)

    def optional(self) -> list[Filter]:
        """As `chosen`, and an empty list if no option was given."""
        return self.chosen() if self.given else []

    def chosen(self) -> list[Filter]:
        """Return the filters: options add to each whole filter, or make one if none is given.

        As with nak, ids, authors, kinds and tag values join those of a filter; times, search and
        limit replace its own. Raises InvalidInput for bad JSON, ids or keys, click.UsageError
        without any.
        """
        from nostr_client.codecs.filters import Filter
        from nostr_client.codecs.nip19 import decode_pubkey
        from nostr_client.codecs.typed import event_id, filter_of

        if not self.given:
            raise click.UsageError("no filter: give --filter JSON, or --kind, --author, …")
        whole = [filter_of(text) for text in self.filters]
        lists: dict[str, Sequence[object]] = {
            "ids": [event_id(text) for text in self.ids],
            "authors": [decode_pubkey(text) for text in self.authors],
            "kinds": list(self.kinds),
        }
        short = [*(f"e={id}" for id in self.events), *(f"p={key}" for key in self.people)]
        named = _tags([*self.tags, *short])
        bounds = {name: getattr(self, name) for name in ("since", "until", "search", "limit")}
        given = {name: value for name, value in bounds.items() if value is not None}
        return [_with(one, lists, named, given) for one in whole or [Filter()]]


def filter_options(command: F) -> F:
    """Add the filter options; the command receives them as `conditions`."""
    return _filter_options(command)


def limited_filter_options(command: F) -> F:
    """Add `filter_options` and `--limit`, for commands that return events, newest first."""
    return _filter_options(_LIMIT(command))


def _filter_options(command: F) -> F:
    names = Conditions._fields

    @functools.wraps(command)
    def with_conditions(*args: Any, **given: Any) -> Any:
        found = {name: given.pop(name) for name in names if name in given}
        return command(*args, conditions=Conditions(**found), **given)

    wrapped: Any = with_conditions
    for option in reversed(_OPTIONS):
        wrapped = option(wrapped)
    return cast("F", wrapped)


def _with(
    filter: Filter,
    lists: Mapping[str, Sequence[object]],
    tags: Mapping[str, Sequence[str]],
    bounds: Mapping[str, Any],
) -> Filter:
    """Return a filter with further values in its lists and tags, and other bounds."""
    changes: dict[str, Any] = {
        name: [*(getattr(filter, name) or ()), *more] for name, more in lists.items() if more
    }
    if tags:
        own = dict(filter.tags)
        changes["tags"] = own | {name: [*own.get(name, ()), *more] for name, more in tags.items()}
    return filter.replace(**changes, **bounds) if changes or bounds else filter


def refuse_limits(filters: Sequence[Filter], what: str) -> None:
    """Raise click.UsageError for a filter with a limit, as `what` takes all events."""
    if any(one.limit is not None for one in filters):
        raise click.UsageError(f"{what} has no limit: `store query` prints the newest ones")


def _tags(pairs: Sequence[str]) -> dict[str, list[str]]:
    from nostr_client.codecs.typed import tag_value

    tags: dict[str, list[str]] = {}
    for pair in pairs:
        name, sign, value = pair.partition("=")
        if not sign:
            raise click.UsageError("--tag wants NAME=VALUE")
        tags.setdefault(f"#{name}", []).append(tag_value(name, value))
    return tags
