"""What is wrong with a watch: one sentence for each cause, which all pages count and show. Pure.

A relay is one cause, with all of its warnings, whether it fails or answers. Each warning about the
watch as a whole is one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from nostr_client.codecs.display import plural
from nostr_client.codecs.relay_url import normal_or_none
from tui import format

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from agent.api.schema import RelayState, WatchState

_SCHEMES: Final = ("ws://", "wss://")


class Trouble(NamedTuple):
    """One cause: a relay, or "" for the watch as a whole, and the reasons of what is wrong."""

    relay: str
    reasons: tuple[str, ...]
    fails: bool = False

    @property
    def sentence(self) -> str:
        """The cause, where its watch is known."""
        return self.said(self.relay, "")

    def said(self, relay: str, where: str) -> str:
        """The cause with a name for the relay, and where it is one."""
        why = "; ".join(self.reasons)
        if not self.relay:
            return f"{where}: {why}" if where else why
        verb = "fails" if self.fails else "has a warning"
        return f"{relay} {verb}{f' in {where}' if where else ''}{f': {why}' if why else ''}"


def number_of(one: WatchState) -> int:
    """Return how many causes there are."""
    if not one.warnings and not one.failing:  # most of thousands
        return 0
    general, of_relays = _sorted(one)
    return len(general) + len(of_relays)


def troubles_of(one: WatchState, relays: Mapping[str, RelayState]) -> list[Trouble]:
    """Return the causes: of the watch as a whole, then relays, those that fail first.

    `relays` has their last errors.
    """
    general, of_relays = _sorted(one)
    failing = set(one.failing)
    found = [Trouble("", (text,)) for text in general]
    for url, texts in of_relays.items():
        state = relays.get(normal_or_none(url) or url)
        errors = [state.last_error] if state is not None and state.last_error else []
        reasons = texts or (errors if url in failing else [])
        found.append(Trouble(url, tuple(reasons), url in failing))
    return found


def _sorted(one: WatchState) -> tuple[list[str], dict[str, list[str]]]:
    """The warnings about the watch as a whole, and those of each relay, which may have none."""
    general: dict[str, None] = {}
    of_relays: dict[str, list[str]] = {url: [] for url in one.failing}
    spelled = {normal_or_none(url): url for url in one.failing}
    for warning in one.warnings:
        url, colon, text = warning.partition(": ")
        if not colon or not url.startswith(_SCHEMES):
            general[warning] = None
            continue
        texts = of_relays.setdefault(spelled.get(normal_or_none(url), url), [])
        texts += [] if text in texts else [text]
    return list(general), of_relays


def of_all(watches: Iterable[WatchState], relays: Mapping[str, RelayState]) -> list[str]:
    """Return the causes of all watches, each once, with the watch or the number of watches.

    Of a relay's reasons, those of all these watches are named, or else the first.
    """
    found: dict[object, list[tuple[str, Trouble]]] = {}
    for one in watches:
        for trouble in troubles_of(one, relays) if number_of(one) else ():
            key = (trouble.relay, trouble.fails) if trouble.relay else trouble
            found.setdefault(key, []).append((one.spec.name, trouble))
    return [_of_watches(each) for each in found.values()]


def _of_watches(found: list[tuple[str, Trouble]]) -> str:
    name, first = found[0]
    common = [one for one in first.reasons if all(one in other.reasons for _, other in found)]
    reasons = tuple(common or first.reasons[:1])
    where = name if len(found) == 1 else plural(len(found), "watch", "watches")
    return first._replace(reasons=reasons).said(format.host(first.relay), where)
