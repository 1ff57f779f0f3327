"""Choose which relays to ask among those that other people name. Pure.

The functions bound the number of relays, refuse some, and find few relays that serve many targets.
A relay that the user names is refused only by the user's own deny list. Evidence about relays
(`evidence`) breaks ties, and orders added relays.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import msgspec

from nostr_client.codecs import nip19
from nostr_client.codecs.relay_url import host_of, normalize
from nostr_client.errors import InvalidInput
from nostr_client.network.access.routes import objection
from nostr_client.network.outbox.evidence import rank
from nostr_client.options import ConnectionOptions

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from nostr_client.network.outbox.evidence import RelayEvidence

_EMPTY: Final[Mapping[str, Any]] = MappingProxyType({})


def greedy_cover(
    wanted: Mapping[str, Sequence[str]], *, per_target: int, most_relays: int | None = None
) -> dict[str, tuple[str, ...]]:
    """Give each target at most `per_target` of its wanted relays, with few different relays in all.

    Every target gets one relay before any target gets a second one, and so on. Relays in use come
    first. Then comes the relay that most targets still lack. Of equal relays, the one that is
    nearer to the front of the targets' lists comes first, then the order is by URL. `most_relays`
    bounds the different relays. A target that none of them serves gets (). The order of the targets
    does not matter.
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
    """Give each target a relay that is already in use. Return the targets that need a new one."""
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
    """Add new relays until every target has one more."""
    serving = _serving(left)
    while serving and (most_relays is None or len(used) < most_relays):
        best = min(serving, key=lambda url: (-len(serving[url]), _places(url, serving, left), url))
        used.add(best)
        for target in serving.pop(best):
            given[target].append(best)
            _forget(target, left[target], serving)


def _serving(left: Mapping[str, Iterable[str]]) -> dict[str, set[str]]:
    """Return for each relay the targets that want it."""
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
    """Return the sum of a relay's positions in the lists of the targets that want it."""
    return sum(left[target].index(url) for target in serving[url])


def _in_order(relays: Iterable[str], wanted: Sequence[str]) -> tuple[str, ...]:
    taken = set(relays)
    return tuple(url for url in dict.fromkeys(wanted) if url in taken)


@dataclass(frozen=True, slots=True, kw_only=True)
class RelayChoice:
    """How the client chooses relays for a target (NIP-65).

    URLs may be written in any form. Raises InvalidRelayURL for a bad URL and InvalidIdentifier for
    a bad key of a monitor. Raises InvalidInput if `most` is below 1.
    """

    own: tuple[str, ...] = ()
    """The user's own relays. The client asks them for every target, before the relays of lists."""

    defaults: tuple[str, ...] = ()
    """Relays to ask if the target has no relay list, or if the list has no relay to ask."""

    indexers: tuple[str, ...] = ()
    """Relays where the client looks up relay lists and events by id."""

    deny: frozenset[str] = frozenset()
    """Relays that the client never asks: URLs or hosts. A host includes its subdomains."""

    most: int = 4
    """The number of relays to take from a target's list. NIP-65 asks users to list two to four
    relays."""

    monitors: tuple[str, ...] = ()
    """Keys (npub or hex) of monitors that report live relays (NIP-66). The reports change the order
    of the relays that the client has never asked, but they remove no relay. The client reads the
    reports from the indexers."""

    connection: ConnectionOptions = field(default_factory=ConnectionOptions)
    """How the client connects. A proxy reaches `.onion` hosts and hides the user's address.
    `NostrClient` replaces this value with its own."""

    def __post_init__(self) -> None:
        if self.most < 1:
            raise InvalidInput(f"RelayChoice.most must be above 0, not {self.most}")
        for name in ("own", "defaults", "indexers"):
            once = tuple(dict.fromkeys(map(normalize, getattr(self, name))))
            object.__setattr__(self, name, once)
        object.__setattr__(self, "deny", frozenset(map(_deny_entry, self.deny)))
        object.__setattr__(self, "monitors", tuple(map(nip19.decode_pubkey, self.monitors)))

    def denies(self, url: str) -> bool:
        """Return True if the user's deny list contains this relay."""
        if not self.deny:
            return False
        host = host_of(url)
        parents = {host[i:] for i in range(len(host)) if i == 0 or host[i - 1] == "."}
        return normalize(url) in self.deny or not self.deny.isdisjoint(parents)

    def objection(self, url: str) -> str | None:
        """Return why the client must not ask a relay that a stranger names, or None if it may."""
        reason = objection(url, self.connection)
        if reason is None and self.denies(url):
            return "on the deny list"
        return reason


class ChosenRelays(msgspec.Struct, frozen=True, kw_only=True):
    """Relays for one target, normalised, with the user's own relays first.

    `strangers` are the relays that only other people name. Check their addresses when you connect
    (`relay_url.is_public`). `refused` has the reason for each refused relay. If no relay was found,
    `why` is a sentence about the step that failed.
    """

    relays: tuple[str, ...]
    strangers: frozenset[str] = frozenset()
    refused: tuple[tuple[str, str], ...] = ()
    why: str = ""

    @property
    def lack(self) -> str:
        """Why a target has no relays, or "" if it has some."""
        if self.relays:
            return ""
        return f"no relay to ask: {self.why or 'the deny list holds all of them'}"


def choose(
    named: Iterable[str],
    choice: RelayChoice,
    *,
    also: Iterable[str] = (),
    evidence: Mapping[str, RelayEvidence] = _EMPTY,
    current: Collection[str] = (),
    turn: bool = False,
) -> ChosenRelays:
    """Choose the relays of one target from the relays that its author's list names, best first.

    `named` are normalised URLs, as `parse_relay_list` returns them. `also` are other relays that
    may have the wanted events. They fill the places that `named` leaves free. `rank` describes
    `evidence`, `current` and `turn`. Without them the order of the list decides.
    """
    own = [url for url in choice.own if not choice.denies(url)]
    taken, refused = _acceptable(named, own, choice)
    if evidence or turn:
        best = _ranked(taken, evidence, current, turn=turn)[: choice.most]
        taken = [url for url in taken if url in best]
    else:
        taken = taken[: choice.most]
    relays = own + taken
    if not relays:
        relays = [url for url in choice.defaults if not choice.denies(url)]
    more = [url for url in also if url not in relays and choice.objection(url) is None]
    free = choice.most - len(taken)
    added = _ranked(more, evidence, current)[:free] if free else []
    return ChosenRelays(
        relays=(*relays, *added),
        strangers=frozenset([*taken, *added]),
        refused=tuple(refused),
    )


def choose_many(
    named: Mapping[str, Sequence[str]],
    choice: RelayChoice,
    *,
    most_relays: int | None = None,
    also: Mapping[str, Sequence[str]] = _EMPTY,
    evidence: Mapping[str, RelayEvidence] = _EMPTY,
    current: Mapping[str, Collection[str]] = _EMPTY,
) -> dict[str, ChosenRelays]:
    """Choose the relays of many targets together, with as few relays in all as possible.

    Each target keeps up to `choice.most` relays of its own list. Relays that other targets also
    name come first, so that targets share connections. `most_relays` bounds the relays from lists
    and from `also` in all. A target that none of these relays serves gets the user's own relays and
    the defaults. `also`, `evidence` and `current` are by target, and `choose` describes them. With
    evidence, every target has at least as many relays of its list as without, and the total is not
    larger.
    """
    checked = {target: _acceptable(urls, choice.own, choice) for target, urls in named.items()}
    wanted = {target: found[0] for target, found in checked.items()}
    given = greedy_cover(wanted, per_target=choice.most, most_relays=most_relays)
    if evidence:
        ordered = {
            target: _ranked(urls, evidence, current.get(target, ()))
            for target, urls in wanted.items()
        }
        learned = greedy_cover(ordered, per_target=choice.most, most_relays=most_relays)
        if _is_as_good(learned, given):
            given = {target: _in_order(learned[target], urls) for target, urls in wanted.items()}
    used = {url for urls in given.values() for url in urls}
    out = {}
    for target, (_, refused) in checked.items():
        more = _acceptable(also.get(target, ()), choice.own, choice)[0]
        if most_relays is not None:
            fresh = _ranked((u for u in more if u not in used), evidence, current.get(target, ()))
            more = [*(u for u in more if u in used), *fresh[: max(most_relays - len(used), 0)]]
        chosen = choose(
            given[target],
            choice,
            also=more,
            evidence=evidence,
            current=current.get(target, ()),
        )
        used |= chosen.strangers
        out[target] = msgspec.structs.replace(chosen, refused=tuple(refused))
    return out


def _ranked(
    urls: Iterable[str],
    evidence: Mapping[str, RelayEvidence],
    current: Collection[str],
    *,
    turn: bool = False,
) -> list[str]:
    return [one.relay for one in rank(urls, evidence, current=current, turn=turn)]


def _is_as_good(learned: Mapping[str, Sequence[str]], plain: Mapping[str, Sequence[str]]) -> bool:
    """Return True if a cover gives no target fewer relays, and uses no more relays in all."""
    fewer = any(len(learned[target]) < len(urls) for target, urls in plain.items())
    number, bound = (len({u for urls in one.values() for u in urls}) for one in (learned, plain))
    return not fewer and number <= bound


def _acceptable(
    named: Iterable[str], own: Iterable[str], choice: RelayChoice
) -> tuple[list[str], list[tuple[str, str]]]:
    """Return the named relays that may be asked, and why the others may not be asked."""
    mine = set(own)
    taken: list[str] = []
    refused: list[tuple[str, str]] = []
    for url in dict.fromkeys(named):
        if url in mine:
            continue
        reason = choice.objection(url)
        if reason is None:
            taken.append(url)
        else:
            refused.append((url, reason))
    return taken, refused


def _deny_entry(text: str) -> str:
    return normalize(text) if "://" in text else text.strip().lower().removesuffix(".")
