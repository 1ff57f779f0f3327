"""Filters at the command line: as JSON, or put together from options."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from nostr_client.filters import Filter

F = TypeVar("F", bound=Callable[..., Any])

_OPTIONS = (
    click.option(
        "--filter",
        "filters",
        metavar="JSON",
        multiple=True,
        help="A whole filter. More are OR'd, and so is what the options below say together.",
    ),
    click.option("--id", "ids", metavar="ID", multiple=True, help="note, nevent or hex."),
    click.option(
        "--author", "authors", metavar="KEY", multiple=True, help="npub, nprofile or hex."
    ),
    click.option(
        "--kind", "kinds", type=click.IntRange(0, 65535), multiple=True, help="Of this kind."
    ),
    click.option("--tag", "tags", metavar="NAME=VALUE", multiple=True, help="Such as e=ID."),
    click.option("--since", type=click.IntRange(min=0), help="Unix seconds."),
    click.option("--until", type=click.IntRange(min=0), help="Unix seconds."),
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
    """The filters that the options say; whole ones and one of single conditions are OR'd.

    Raises InvalidInput for bad JSON, ids or keys, click.UsageError for none at all.
    """
    from nostr_client.filters import Filter
    from nostr_client.nip19 import decode_pubkey
    from nostr_client.typed import event_id, filter_of

    chosen = [filter_of(text) for text in filters]
    if ids or authors or kinds or tags or any(n is not None for n in (since, until, limit)):
        built = Filter(
            ids=[event_id(text) for text in ids] or None,
            authors=[decode_pubkey(text) for text in authors] or None,
            kinds=kinds or None,
            tags=_tags(tags),
            since=since,
            until=until,
            limit=limit,
        )
        chosen.append(built)
    if not chosen:
        raise click.UsageError("no filter: give --filter JSON, or --kind, --author, …")
    return chosen


def refuse_limits(filters: Sequence[Filter], what: str) -> None:
    """Raise click.UsageError for a limit, in a filter or as an option, of `what` takes all."""
    if any(one.limit is not None for one in filters):
        raise click.UsageError(f"{what} has no limit: `store query` prints the newest ones")


def _tags(pairs: Sequence[str]) -> dict[str, list[str]]:
    from nostr_client.typed import tag_value

    tags: dict[str, list[str]] = {}
    for pair in pairs:
        name, sign, value = pair.partition("=")
        if not sign:
            raise click.UsageError("--tag wants NAME=VALUE")
        tags.setdefault(f"#{name}", []).append(tag_value(name, value))
    return tags
