"""Which watches the first page lists, and in which order: states, groups and ranks. Pure."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from nostr_client.codecs import nip19
from nostr_client.errors import NostrTallyError
from nostr_client.watch.history import FIRST
from tui.pages.troubles import number_of
from tui.widgets.columns import matches

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from agent.api.schema import WatchState

STATES: Final = ("all", "changed today", "unsure", "failing", "with warnings")
GROUPS: Final = ("", "person", "tag", "query")
SORTS: Final = ("name", "value", "1h", "1d", "1w", "age", "relays", "warnings")
FALLING: Final = frozenset({"value", "1h", "1d", "1w", "warnings"})
"""Columns whose largest value comes first, as long as the order is not turned."""

NOBODY: Final = "no single person"

AS_LINKS_SAY: Final = ", as links say"
"""Follows a person of whom only a link says that the event is theirs."""

HEAD: Final = "\0"
"""Begins the key of a group's row: no name of a watch has this sign."""


def has_state(one: WatchState, state: str) -> bool:
    """Whether a watch is in a state of STATES."""
    match state:
        case "changed today":
            return bool(one.changes.get("1d", one.changes.get(FIRST)))
        case "unsure":
            return one.figure is None or one.figure.lower_bound or one.figure.high is None
        case "failing":
            return bool(one.failing) or bool(one.asked and not one.answered)
        case "with warnings":
            return bool(one.warnings)
    return True


def listed(
    watches: Iterable[WatchState],
    *,
    wanted: str = "",
    state: str = "all",
    sort: str = "name",
    reverse: bool = False,
) -> list[WatchState]:
    """Return the watches in a state that have all words of a filter, sorted."""
    found = [
        one
        for one in watches
        if has_state(one, state)
        and (
            not wanted
            or matches(wanted, one.spec.name, one.spec.query or "filter", one.spec.target)
        )
    ]
    found.sort(key=lambda one: (rank(one, sort), one.spec.name), reverse=reverse)
    return found


def rank(one: WatchState, sort: str) -> Any:
    """Return what a watch is sorted by: the largest number or change comes first."""
    match sort:
        case "value":
            return -(one.figure.value if one.figure else -1)
        case "1h" | "1d" | "1w":
            n = one.changes.get(sort)
            return 2**63 if n is None else -n
        case "age":
            return -(one.answered_at or 0.0)
        case "relays":
            return one.answered / max(1, one.asked)
        case "warnings":
            return -number_of(one)
    return one.spec.name


def groups_of(found: Iterable[WatchState], group: str) -> dict[str, list[str]]:
    """Return the names of each group's watches by the key of its row; empty without groups.

    A group stands where its first watch would.
    """
    label = _LABELS.get(group)
    groups: dict[str, list[str]] = {}
    if label is None:
        return groups
    for one in found:
        groups.setdefault(HEAD + label(one), []).append(one.spec.name)
    return groups


def rows_of(groups: Mapping[str, list[str]], folded: Collection[str]) -> list[str]:
    """Return the keys of rows: each group's row, then its watches, except of a folded group."""
    keys: list[str] = []
    for head, names in groups.items():
        keys += [head, *(() if head in folded else names)]
    return keys


def _person(one: WatchState) -> str:
    """The person whom a watch is about: by name with the key behind it, or as npub.

    Until the agent has reported one, it is the person whom the question names.
    """
    spec, known = one.spec, one.person
    if known is not None:
        claimed = AS_LINKS_SAY if known.claimed else ""
        return _called(known.pubkey, known.name) + claimed
    for field in ("authors", "#p"):
        keys = {str(key) for each in spec.filters for key in each.get(field, ())}
        if len(keys) == 1:
            return _called(keys.pop())
    return _person_of(spec.query, spec.target) if spec.target else NOBODY


@lru_cache(8192)  # each redraw groups all watches
def _person_of(query: str | None, target: str) -> str:
    """The person of a target; of an event only as its link says, which nobody has checked."""
    try:
        found = nip19.read(target, "target").target
    except NostrTallyError:
        return NOBODY
    match found:
        case nip19.PublicKey(key) | nip19.Profile(key):
            return _called(key)
        case nip19.Address():
            return _called(found.pubkey)
        case nip19.Hex(key) if query == "followers":
            return _called(key)
        case nip19.EventPointer() if found.author:
            return _called(found.author) + AS_LINKS_SAY
    return NOBODY


@lru_cache(8192)
def _called(key: str, name: str | None = None) -> str:
    """A name with the key behind it, or the key as npub; a filter may have anything as key."""
    try:
        npub = nip19.PublicKey(key).encode()
    except (NostrTallyError, ValueError):
        return key
    return npub if name is None else f"{name} ({npub})"


def _tag(one: WatchState) -> str:
    """The tags that the filters of a watch name."""
    found = {
        f"{name} {value}"
        for each in one.spec.filters
        for name, values in each.items()
        if name.startswith("#")
        for value in values
    }
    return ", ".join(sorted(found)) or "no tag"


def _query(one: WatchState) -> str:
    return one.spec.query or "filter"


_LABELS: Final[dict[str, Callable[[WatchState], str]]] = {
    "person": _person,
    "tag": _tag,
    "query": _query,
}
