"""Show the people that each pair of relays shares: `nostr-client count --overlap`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nostr_client.cli.output import console, plain_table, say
from nostr_client.errors import clip

if TYPE_CHECKING:
    from nostr_client.count.overlaps import Shared
    from nostr_client.count.result import CountResult


def overlap_dict(result: CountResult) -> dict[str, Any]:
    """Return the pairs as a part of the result's JSON."""
    return {"overlaps": [one.to_dict() for one in _overlaps(result)]}


def show_overlap(result: CountResult) -> None:
    """Print a matrix: the Jaccard index of each pair of relays in per cent, with its interval."""
    from rich.text import Text

    found = {one.relays: one for one in _overlaps(result)}
    if not found:
        say("no two relays gave registers or events to compare")
        return
    names = [c.relay for c in result.relays if any(c.relay in pair for pair in found)]
    table = plain_table("shared people", *(f"{n}" for n in range(1, len(names))))
    for row, name in enumerate(names):
        cells = [_cell(found.get((other, name))) for other in names[:row]]
        table.add_row(Text(f"{row + 1} {clip(name, 60)}"), *cells)
    console().print(table)


def _overlaps(result: CountResult) -> list[Shared]:
    from nostr_client.count.overlaps import overlaps

    return overlaps(result.relays, result.query.offset)


def _cell(one: Shared | None) -> str:
    """Return text such as `1,204 (41 %)`, `~900 (30-52 %)` or `few (0-4 %)`."""
    if one is None:
        return "?"
    if one.exact:
        return f"{one.people:,} ({100 * one.jaccard:.0f} %)"
    people = "few" if one.noise else f"~{one.people:,}"
    return f"{people} ({100 * one.low:.0f}-{100 * one.high:.0f} %)"
