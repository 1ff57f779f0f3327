"""Few relays for many targets: a greedy cover (Chvátal 1979). Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


def greedy_cover(
    wanted: Mapping[str, Sequence[str]], *, per_target: int, most_relays: int | None = None
) -> dict[str, tuple[str, ...]]:
    """For each target at most `per_target` of the relays that it wants, few different ones in all.

    Every target gets one relay before any gets its second, and so on: relays in use already come
    first, then the relay that most targets still lack, of equals the one further in front in
    their lists, then by URL. `most_relays` bounds the different relays; a target that none of them
    serves gets (). The order of the targets does not matter.
    """
    given: dict[str, list[str]] = {target: [] for target in wanted}
    used: set[str] = set()
    for level in range(1, per_target + 1):
        lacking = {t: urls for t, urls in wanted.items() if len(given[t]) < level}
        left = _share(lacking, given, used)
        _take_new(left, given, used, most_relays)
    return {target: _in_order(given[target], urls) for target, urls in wanted.items()}


def _share(
    lacking: Mapping[str, Sequence[str]], given: dict[str, list[str]], used: set[str]
) -> dict[str, Sequence[str]]:
    """Give each target a relay that is in use already; those left that could take another one."""
    left: dict[str, Sequence[str]] = {}
    for target, urls in lacking.items():
        fresh = [url for url in urls if url not in given[target]]
        shared = next((url for url in fresh if url in used), None)
        if shared is not None:
            given[target].append(shared)
        elif fresh:
            left[target] = fresh
    return left


def _take_new(
    left: Mapping[str, Sequence[str]],
    given: dict[str, list[str]],
    used: set[str],
    most_relays: int | None,
) -> None:
    """Bring new relays into use until every target has one more."""
    serving = _serving(left)
    while serving and (most_relays is None or len(used) < most_relays):
        best = min(serving, key=lambda url: (-len(serving[url]), _places(url, serving, left), url))
        used.add(best)
        for target in serving.pop(best):
            given[target].append(best)
            _forget(target, left[target], serving)


def _serving(left: Mapping[str, Iterable[str]]) -> dict[str, set[str]]:
    """For each relay the targets that want it."""
    serving: dict[str, set[str]] = {}
    for target, urls in left.items():
        for url in urls:
            serving.setdefault(url, set()).add(target)
    return serving


def _forget(target: str, urls: Iterable[str], serving: dict[str, set[str]]) -> None:
    for url in urls:
        if url in serving:
            serving[url].discard(target)
            if not serving[url]:
                del serving[url]


def _places(url: str, serving: Mapping[str, set[str]], left: Mapping[str, Sequence[str]]) -> int:
    """How far back a relay stands in the lists of those who want it, summed."""
    return sum(left[target].index(url) for target in serving[url])


def _in_order(relays: Iterable[str], wanted: Sequence[str]) -> tuple[str, ...]:
    taken = set(relays)
    return tuple(url for url in dict.fromkeys(wanted) if url in taken)
