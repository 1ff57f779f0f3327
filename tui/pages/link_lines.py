"""Links of counters as lines of text: where counts come from, where they go, what delays them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from nostr_client.codecs.display import plural
from tui import format

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from agent.api.schema import CounterLink

MOST: Final = 5
"""Lines at most: what is not well comes first."""

_ORDER: Final = ("stopped", "failing", "behind", "waiting", "ok")


def lines(links: Iterable[CounterLink], most: int = MOST) -> list[str]:
    """One line for each link, the failing ones first; a last one for those that do not fit."""
    found = sorted(links, key=lambda one: (_ORDER.index(one.state), one.name))
    shown = [_line(one) for one in found[:most]]
    more = len(found) - most
    return [*shown, f"{more} more: nostr-client counter link list"] if more > 0 else shown


def _line(one: CounterLink) -> str:
    way = "from" if one.direction == "in" else "to"
    head = f"{one.state:<8}{one.name}: {one.stream} {way} {one.peer}"
    parts = [head, *_numbers(one)]
    if one.why:
        parts.append(one.why)
    if one.path:
        parts.append(" <- ".join(one.path))
    if one.confirmable:
        parts.append(f"nostr-client counter link confirm {one.name}")
    return "   ".join(parts)


def _numbers(one: CounterLink) -> list[str]:
    parts = []
    if one.last_value is not None:
        parts.append(f"{one.last_subject}={format.integer(one.last_value)}")
    if one.lag:
        parts.append(f"{_UNITS[one.via](round(one.lag))} behind")
    counts = (("gaps", one.gaps), ("parked", one.parked), ("left out", one.left_out))
    parts += [f"{n} {name}" for name, n in counts if n]
    return parts


_UNITS: Final[Mapping[str, Callable[[int], str]]] = {
    "agent": lambda number: plural(number, "message"),
    "nats": lambda number: plural(number, "counter"),
    "nostr": lambda number: f"{number} s",
}
