"""Filters at the command line: as JSON, or put together from options."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from nostr_client.cli.parameters import Moment

if TYPE_CHECKING:
    from nostr_client.codecs.filters import Filter

F = TypeVar("F", bound=Callable[..., Any])

_OPTIONS = (
    click.option(
        "--filter",
        "filters",
        metavar="JSON",
        multiple=True,
        help="A whole filter; more are OR'd. The options below add to each.",
    ),
    click.option("--id", "ids", metavar="ID", multiple=True, help="note, nevent or hex."),
    click.option(
        "--author", "authors", metavar="KEY", multiple=True, help="npub, nprofile or hex."
    ),
    click.option(
        "--kind", "kinds", type=click.IntRange(0, 65535), multiple=True, help="Of this kind."
    ),
    click.option("--tag", "tags", metavar="NAME=VALUE", multiple=True, help="Such as e=ID."),
    click.option(
        "--since", metavar="TIME", type=Moment(), help='A date, "2 weeks ago", 3d, or Unix seconds.'
    ),
    click.option("--until", metavar="TIME", type=Moment(), help="The same."),
)


def _limit(**how: Any) -> Callable[[F], F]:
    option: Callable[[F], F] = click.option("--limit", type=click.IntRange(min=0), **how)
    return option


def filter_options(command: F) -> F:
    """Add the filter options; the command hands them on to `chosen_filters`."""
    return _conditions(_limit(help="The newest alone, of each relay.")(command))


def stored_filter_options(command: F) -> F:
    """As `filter_options`, for what asks the store alone."""
    return _conditions(_limit(help="The newest alone.")(command))


def unlimited_filter_options(command: F) -> F:
    """As `filter_options`, for what goes with `refuse_limits`: it says where a limit belongs."""
    return _conditions(_limit(hidden=True)(command))


def _conditions(command: F) -> F:
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def chosen_filters(
    *,
    filters: Sequence[str],
    ids: Sequence[str],
    authors: Sequence[str],
    kinds: Sequence[int],
    tags: Sequence[str],
    since: int | None,
    until: int | None,
    limit: int | None,
) -> list[Filter]:
    """The filters that the options say: they add to each whole filter, or make one where none is.

    As with nak, ids, authors, kinds and tag values join those of a filter; times and the limit take
    the place of its own. Raises InvalidInput for bad JSON, ids or keys, click.UsageError for none
    at all.
    """
    from nostr_client.codecs.filters import Filter
    from nostr_client.codecs.nip19 import decode_pubkey
    from nostr_client.codecs.typed import event_id, filter_of

    whole = [filter_of(text) for text in filters]
    lists: dict[str, Sequence[object]] = {
        "ids": [event_id(text) for text in ids],
        "authors": [decode_pubkey(text) for text in authors],
        "kinds": list(kinds),
    }
    named = _tags(tags)
    given = {"since": since, "until": until, "limit": limit}
    bounds = {name: value for name, value in given.items() if value is not None}
    if not (whole or named or bounds or any(lists.values())):
        raise click.UsageError("no filter: give --filter JSON, or --kind, --author, …")
    return [_with(one, lists, named, bounds) for one in whole or [Filter()]]


def _with(
    filter: Filter,
    lists: Mapping[str, Sequence[object]],
    tags: Mapping[str, Sequence[str]],
    bounds: Mapping[str, int],
) -> Filter:
    """A filter with further values in its lists and tags, and other bounds."""
    changes: dict[str, Any] = {
        name: [*(getattr(filter, name) or ()), *more] for name, more in lists.items() if more
    }
    if tags:
        own = dict(filter.tags)
        changes["tags"] = own | {name: [*own.get(name, ()), *more] for name, more in tags.items()}
    return filter.replace(**changes, **bounds) if changes or bounds else filter


def refuse_limits(filters: Sequence[Filter], what: str) -> None:
    """Raise click.UsageError for a limit, in a filter or as an option, of `what` takes all."""
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
