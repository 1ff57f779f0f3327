"""Options that several commands share: the question, trust, where relays are found, what moves."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar, get_args

import click

from nostr_client.cli.output import say
from nostr_client.cli.parameters import Duration, UserPath, read_given
from nostr_client.count import QueryName
from nostr_client.errors import InvalidInput

if TYPE_CHECKING:
    from nostr_client.cli.filteroptions import Conditions
    from nostr_client.count import Query
    from nostr_client.network.outbox import RelayChoice

INDEXERS_VARIABLE = "NOSTR_TALLY_INDEXERS"

NAMES: Final = get_args(QueryName)

F = TypeVar("F", bound=Callable[..., Any])

trust_option: Callable[[F], F] = click.option(
    "--trust",
    metavar="POLICY",
    type=click.Choice(["exclude", "flag", "off"]),
    help="Handle claims that cannot be true: exclude (the default), flag or off.",
)

trusted_option: Callable[[F], F] = click.option(
    "--trusted", metavar="URL", multiple=True, help="Trust this relay whatever the tests say."
)

indexer_option: Callable[[F], F] = click.option(
    "--indexer",
    "indexers",
    metavar="URL",
    multiple=True,
    envvar=INDEXERS_VARIABLE,
    help=f"Look relay lists (NIP-65) up here; if no relay is named, the target's author's relays "
    f"are asked. Default: those of ${INDEXERS_VARIABLE}.",
)

provider_option: Callable[[F], F] = click.option(
    "--provider", "providers", metavar="KEY", multiple=True,
    help="Name a provider of assertions (NIP-85); repeat for more.",
)  # fmt: skip

deny_option: Callable[[F], F] = click.option(
    "--deny",
    "denied",
    metavar="URL|HOST",
    multiple=True,
    help="Never ask this relay, or this host and its subdomains, even if a relay list names it.",
)

most_option: Callable[[F], F] = click.option(
    "--most",
    type=click.IntRange(min=1, max=100),
    default=4,
    show_default=True,
    help="Ask at most this many relays of a relay list.",
)

monitor_option: Callable[[F], F] = click.option(
    "--monitor",
    "monitors",
    metavar="KEY",
    multiple=True,
    help="Ask relays of a list that this monitor reached (NIP-66) before others that were never "
    "asked; repeat for more. It is looked up where relay lists are.",
)

max_events_option: Callable[[F], F] = click.option(
    "--max-events",
    type=click.IntRange(min=1),
    default=20_000,
    show_default=True,
    help="Read at most this many events from one relay.",
)

within_option: Callable[[F], F] = click.option(
    "--within",
    metavar="KEY[:DEPTH]",
    help="Also count the authors whom this key follows, or with :2 also those whom they follow, by "
    "the follow lists in the store. Relays are asked for these people's events. A count takes me "
    "for the key of --key-file.",
)

keep_option: Callable[[F], F] = click.option(
    "--keep-events", is_flag=True, help="Store the events that are read, not only claims."
)


interval_option: Callable[[F], F] = click.option(
    "--interval",
    metavar="DURATION",
    type=Duration(),
    help="Repeat this often, as 30s or 6h; 10s at least. Default: 30m for a watch, 1h for a sync.",
)


include_private_option: Callable[[F], F] = click.option(
    "--include-private",
    is_flag=True,
    help="Include events of private kinds, even without naming them by --kind: messages, drafts, "
    "wallets, application data, lists.",
)

_MOVING = (
    click.option(
        "--direction",
        metavar="WAY",
        type=click.Choice(["down", "up", "both"]),
        default="down",
        show_default=True,
        help="Move events down: from the relays, or from RELAY_A to RELAY_B; up: the other way; or "
        "both.",
    ),
    include_private_option,
    click.option(
        "--include-others",
        is_flag=True,
        help="Also send events by other keys than yours.",
    ),
)

window_option: Callable[[F], F] = click.option(
    "--window",
    metavar="N",
    type=click.IntRange(min=1),
    default=25_000,
    show_default=True,
    help="Compare this many local events in one session.",
)

dry_run_option: Callable[[F], F] = click.option(
    "--dry-run", is_flag=True, help="Print what would be done, and do nothing."
)


def moving_options(command: F) -> F:
    """Add the direction, and what may leave besides the user's own public events."""
    for option in reversed(_MOVING):
        command = option(command)
    return command


from_option: Callable[[F], F] = click.option(
    "--from",
    "file",
    metavar="FILE",
    type=UserPath(path_type=str, allow_dash=True),
    help="Read more of the arguments from this file, one a line; - is stdin.",
)

_LARGEST_LIST = 64 * 2**20
"""Most bytes of a list of targets."""


def listed(file: str | None) -> list[tuple[int, str]]:
    """Return the lines of a list that are neither empty nor a comment (#), with their numbers.

    None: an empty list. Raises InvalidInput if the list cannot be read or is too long.
    """
    if file is None:
        return []
    most = _LARGEST_LIST + 1
    raw = sys.stdin.buffer.read(most) if file == "-" else read_given(file, most)
    if len(raw) > _LARGEST_LIST:
        raise InvalidInput(f"a list of more than {_LARGEST_LIST} bytes")
    lines = enumerate(raw.decode("utf-8", "replace").splitlines(), 1)
    return [(n, line.strip()) for n, line in lines if line.strip() and line[0] != "#"]


def asked_query(what: str | None, target: str | None, conditions: Conditions) -> Query:
    """Return the question of WHAT and TARGET, or of the filter options.

    Raises click.UsageError, InvalidFilter, InvalidIdentifier.
    """
    from nostr_client import count as counting
    from nostr_client.codecs import nip19

    if conditions.given and what is not None:
        raise click.UsageError("give WHAT and TARGET, or a filter, not both")
    if conditions.given:
        return counting.query(conditions.chosen())
    if what is None or target is None:
        raise click.UsageError("say what to count: WHAT and TARGET, or a filter as --kind 1")
    query = counting.canonical(what, target)
    if not nip19.is_address(target.strip()):
        for warning in nip19.read(target).warnings:
            say(f"nostr-client: {nip19.named(target)}: {warning}")
    return query


def relay_choice(
    indexers: Sequence[str],
    denied: Sequence[str] = (),
    most: int = 4,
    monitors: Sequence[str] = (),
) -> RelayChoice | None:
    """Return how to find relays if none is named; None without an indexer."""
    from nostr_client.network.outbox import RelayChoice

    if not indexers:
        return None
    return RelayChoice(
        indexers=tuple(indexers), deny=frozenset(denied), most=most, monitors=tuple(monitors)
    )
