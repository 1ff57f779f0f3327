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
    from collections.abc import Iterable, Mapping, Sequence

    from agent.api.schema import RelayState, WatchState

NO_REASON: Final = "the reason is not known"
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
        return self._sentence(relay, where, "; ".join(self.reasons))

    def _sentence(self, relay: str, where: str, why: str) -> str:
        if not self.relay:
            return f"{where}: {why}" if where else why
        verb = "fails" if self.fails else "has a warning"
        return f"{relay} {verb}{f' in {where}' if where else ''}{f': {why}' if why else ''}"

    def said_of(self, found: Sequence[tuple[str, Trouble]], most: int | None) -> str:
        """The cause in several watches, each reason with the watches that have it.

        `most`: as many watches are named; None: all.
        """
        relay, names = format.host(self.relay), [name for name, _ in found]
        if len({frozenset(other.reasons) for _, other in found}) == 1:
            return self.said(relay, _where(names, most))
        by_reason: dict[str, list[str]] = {}
        for name, other in found:
            for reason in other.reasons or (NO_REASON,):
                by_reason.setdefault(reason, []).append(name)
        why = "; ".join(f"{reason} ({_named(of, most)})" for reason, of in by_reason.items())
        return self._sentence(relay, plural(len(names), "watch", "watches"), why)


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


def of_all(
    watches: Iterable[WatchState], relays: Mapping[str, RelayState], most: int | None = None
) -> list[str]:
    """Return the causes of all watches, each once, with the watches that have it.

    Of several watches, each of a relay's reasons has the names of its own. `most`: as many watches
    are named; None: all.
    """
    found: dict[object, list[tuple[str, Trouble]]] = {}
    for one in watches:
        for trouble in troubles_of(one, relays) if number_of(one) else ():
            key = (trouble.relay, trouble.fails) if trouble.relay else trouble
            found.setdefault(key, []).append((one.spec.name, trouble))
    return [each[0][1].said_of(each, most) for each in found.values()]


def _where(names: Sequence[str], most: int | None) -> str:
    """The watches of a cause: the one, or how many and which."""
    if len(names) == 1:
        return names[0]
    return f"{plural(len(names), 'watch', 'watches')} ({_named(names, most)})"


def _named(names: Sequence[str], most: int | None) -> str:
    """The names of watches, or the first ones and how many more there are."""
    shown = names if most is None or len(names) <= most + 1 else names[:most]
    more = len(names) - len(shown)
    return ", ".join(shown) + (f" and {more:,} more" if more else "")
