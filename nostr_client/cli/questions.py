"""What count and watch share: the question, whom to believe, where to look for relays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar, get_args

import click

from nostr_client.cli.output import say
from nostr_client.codecs.display import seconds
from nostr_client.count import QueryName
from nostr_client.errors import InvalidInput

if TYPE_CHECKING:
    from nostr_client.count import Query
    from nostr_client.network.outbox import RelayChoice

    _FloatType = click.ParamType[float]
else:
    _FloatType = click.ParamType  # generic since click 8.2 only

INDEXERS_VARIABLE = "NOSTR_TALLY_INDEXERS"

NAMES: Final = get_args(QueryName)

F = TypeVar("F", bound=Callable[..., Any])

trust_option: Callable[[F], F] = click.option(
    "--trust",
    type=click.Choice(["exclude", "flag", "off"]),
    default="exclude",
    show_default=True,
    help="What to do about claims that cannot be true.",
)

trusted_option: Callable[[F], F] = click.option(
    "--trusted", metavar="URL", multiple=True, help="Believe this relay in any case."
)

filter_option: Callable[[F], F] = click.option(
    "--filter", "filters", metavar="JSON", multiple=True, help="A filter; more are OR'd."
)

indexer_option: Callable[[F], F] = click.option(
    "--indexer",
    "indexers",
    metavar="URL",
    multiple=True,
    envvar=INDEXERS_VARIABLE,
    help=f"Where relay lists are found (NIP-65): where no relay is named, the target's author's "
    f"are asked. Else those of ${INDEXERS_VARIABLE}.",
)

deny_option: Callable[[F], F] = click.option(
    "--deny",
    "denied",
    metavar="URL|HOST",
    multiple=True,
    help="Never ask this relay, or this host and its subdomains, where a relay list names it.",
)

most_option: Callable[[F], F] = click.option(
    "--most",
    type=click.IntRange(min=1, max=100),
    default=4,
    show_default=True,
    help="Ask so many relays of a relay list at most.",
)

keep_option: Callable[[F], F] = click.option(
    "--keep-events", is_flag=True, help="Keep events that are read in the store, not claims alone."
)


class Duration(_FloatType):
    """Seconds, given as `90s`, `15m`, `2h`, `1d` or `1w`."""

    name = "duration"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        if isinstance(value, float):
            return value
        try:
            return seconds(str(value).strip())
        except InvalidInput as error:
            self.fail(str(error), param, ctx)


def asked_query(what: str | None, target: str | None, filters: Sequence[str]) -> Query:
    """The question of WHAT and TARGET, or of filters.

    Raises click.UsageError, InvalidFilter, InvalidIdentifier.
    """
    from nostr_client import count as counting
    from nostr_client.codecs import nip19
    from nostr_client.codecs.typed import filter_of

    if filters and what is not None:
        raise click.UsageError("give WHAT and TARGET, or --filter, not both")
    if filters:
        return counting.query([filter_of(text) for text in filters])
    if what is None or target is None:
        raise click.UsageError("say what to count: WHAT and TARGET, or --filter JSON")
    query = counting.canonical(what, target)
    if not nip19.is_address(target.strip()):
        for warning in nip19.read(target).warnings:
            say(f"nostr-client: {nip19.named(target)}: {warning}")
    return query


def relay_choice(
    indexers: Sequence[str], denied: Sequence[str] = (), most: int = 4
) -> RelayChoice | None:
    """How relays are found where none is named; None without an indexer."""
    from nostr_client.network.outbox import RelayChoice

    if not indexers:
        return None
    return RelayChoice(indexers=tuple(indexers), deny=frozenset(denied), most=most)
