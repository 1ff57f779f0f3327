"""Names of watches and syncs that were added beside the file: none of it may have one of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from agent.config.check import Found, Path


class Added(NamedTuple):
    """Names of what commands and the API added to the store."""

    watches: frozenset[str] = frozenset()
    syncs: frozenset[str] = frozenset()


NOTHING: Final = Added()


def taken(kind: str, name: str) -> str:
    """Why a watch or sync of the file cannot be called so, and what to do."""
    return (
        f"there is an added {kind} called {name} already, which stays: give this one another name,"
        f" or remove that one (nostr-agent {kind} rm {name})"
    )


def check_added(found: Found, added: Added, complain: Callable[[Path, str], None]) -> None:
    """Complain about each watch and sync of the file whose name is taken."""
    for path, kind, name in _named(found):
        if name in (added.watches if kind == "watch" else added.syncs):
            complain(path, taken(kind, name))


def _named(found: Found) -> Iterator[tuple[Path, str, str]]:
    for n, watch in found.watches:
        yield ("watches", n, "name"), "watch", watch.name
    for n, sync in found.syncs:
        yield ("syncs", n, "name"), "sync", sync.name
