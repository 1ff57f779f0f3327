"""What several commands ask alike: the question, whom to believe, where relays are, what moves."""

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
    help="What to do about claims that cannot be true: exclude (by default), flag or off.",
)

trusted_option: Callable[[F], F] = click.option(
    "--trusted", metavar="URL", multiple=True, help="Believe this relay in any case."
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

max_events_option: Callable[[F], F] = click.option(
    "--max-events",
    type=click.IntRange(min=1),
    default=20_000,
    show_default=True,
    help="Read so many events from one relay.",
)

keep_option: Callable[[F], F] = click.option(
    "--keep-events", is_flag=True, help="Keep events that are read in the store, not claims alone."
)


interval_option: Callable[[F], F] = click.option(
    "--interval",
    metavar="DURATION",
    type=Duration(),
    help="How often, as 30s or 6h; 10s at least. Else 30m for a watch, and 1h for a sync.",
)


include_private_option: Callable[[F], F] = click.option(
    "--include-private",
    is_flag=True,
    help="Events of private kinds too, without naming them by --kind: messages, drafts, wallets, "
    "application data, lists.",
)

_MOVING = (
    click.option(
        "--direction",
        metavar="WAY",
        type=click.Choice(["down", "up", "both"]),
        default="down",
        show_default=True,
        help="down: from the relays, or from RELAY_A to RELAY_B; up: the other way; or both.",
    ),
    include_private_option,
    click.option(
        "--include-others",
        is_flag=True,
        help="Hand over events by other keys than yours too.",
    ),
)

window_option: Callable[[F], F] = click.option(
    "--window",
    metavar="N",
    type=click.IntRange(min=1),
    default=25_000,
    show_default=True,
    help="Local events compared in one session.",
)

dry_run_option: Callable[[F], F] = click.option(
    "--dry-run", is_flag=True, help="Print what would be done, and do nothing."
)


def moving_options(command: F) -> F:
    """Which way events go, and what may leave besides the user's own public events."""
    for option in reversed(_MOVING):
        command = option(command)
    return command


from_option: Callable[[F], F] = click.option(
    "--from",
    "file",
    metavar="FILE",
    type=UserPath(path_type=str, allow_dash=True),
    help="More of them, one a line, from a file; - is stdin.",
)

_LARGEST_LIST = 64 * 2**20
"""Bytes of a list of targets."""


def listed(file: str | None) -> list[tuple[int, str]]:
    """The lines of a list that are neither empty nor a comment (#), with their numbers.

    None: no list. Raises InvalidInput for one that cannot be read or is too long.
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
    """The question of WHAT and TARGET, or of the filter options.

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
    indexers: Sequence[str], denied: Sequence[str] = (), most: int = 4
) -> RelayChoice | None:
    """How relays are found where none is named; None without an indexer."""
    from nostr_client.network.outbox import RelayChoice

    if not indexers:
        return None
    return RelayChoice(indexers=tuple(indexers), deny=frozenset(denied), most=most)
