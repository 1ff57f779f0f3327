"""Show the people that each pair of relays shares: `--overlap`."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click
import msgspec

from nostr_client.cli.output import console, plain_table, say
from nostr_client.codecs.display import whole_percent
from nostr_client.errors import clip

if TYPE_CHECKING:
    from nostr_client.count.figures import RelayOverlaps, SharedPeople

F = TypeVar("F", bound=Callable[..., Any])

overlap_option: Callable[[F], F] = click.option(
    "--overlap", is_flag=True, help="Print how many people each pair of relays shares."
)


def overlap_fields(found: RelayOverlaps) -> dict[str, Any]:
    """Return the pairs, and the relays that cannot be compared, as fields of a result's JSON."""
    fields: dict[str, Any] = msgspec.to_builtins(
        {"overlaps": found.overlaps, "uncompared": found.uncompared}
    )
    return fields


def show_overlap(found: RelayOverlaps) -> None:
    """Print a matrix: the Jaccard index of each pair of relays in per cent, with its interval.

    stderr has the relays that cannot be compared, with the reason.
    """
    if found.overlaps:
        _print_matrix({one.relays: one for one in found.overlaps})
    else:
        say("no two relays gave registers or events to compare")
    for lacking in found.uncompared:
        say(f"not compared: {clip(lacking.relay, 60)}: {clip(lacking.why)}")


def _print_matrix(pairs: dict[tuple[str, str], SharedPeople]) -> None:
    from rich.text import Text

    names = list(dict.fromkeys(name for pair in pairs for name in pair))
    table = plain_table("shared people", *(f"{n}" for n in range(1, len(names))))
    for row, name in enumerate(names):
        cells = [_cell(pairs[other, name]) for other in names[:row]]
        table.add_row(Text(f"{row + 1} {clip(name, 60)}"), *cells)
    console().print(table)


def _cell(one: SharedPeople) -> str:
    """Return text such as `1,204 (41 %)`, `~900 (30-52 %)` or `maybe none (0-4 %)`."""
    if one.exact:
        return f"{one.people:,} ({whole_percent(one.jaccard)})"
    people = "maybe none" if one.noise else f"~{one.people:,}"
    return f"{people} ({math.floor(100 * one.low)}-{math.ceil(100 * one.high)} %)"
