"""Which of the relays that others name are asked: bounds, refusals, and a cover of many targets.

Pure. What the user names is never refused here, apart from the user's own deny list.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec

from nostr_client.addresses import host_of
from nostr_client.errors import InvalidInput
from nostr_client.options import ConnectionOptions
from nostr_client.outbox.cover import greedy_cover
from nostr_client.relayurl import normalize
from nostr_client.routes import objection

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


@dataclass(frozen=True, slots=True, kw_only=True)
class RelayChoice:
    """How relays are chosen. URLs in any spelling; they are normalised here.

    Raises InvalidRelayURL for what is none, InvalidInput for a bound below 1.
    """

    own: tuple[str, ...] = ()
    """Relays of the user: asked for every target, in front of those of the lists."""

    defaults: tuple[str, ...] = ()
    """Relays for targets whose list is not found or names nothing that may be asked."""

    indexers: tuple[str, ...] = ()
    """Relays where relay lists and events by id are looked up."""

    deny: frozenset[str] = frozenset()
    """Relays never to be asked: a URL, or a host, which means it and its subdomains."""

    most: int = 4
    """Relays from the lists for one target: NIP-65 asks people to name two to four."""

    connection: ConnectionOptions = field(default_factory=ConnectionOptions)
    """How relays are reached: a proxy reaches `.onion` hosts, and hides where other names lead.
    `NostrClient` puts its own here."""

    def __post_init__(self) -> None:
        if self.most < 1:
            raise InvalidInput(f"RelayChoice.most must be above 0, not {self.most}")
        for name in ("own", "defaults", "indexers"):
            once = tuple(dict.fromkeys(map(normalize, getattr(self, name))))
            object.__setattr__(self, name, once)
        object.__setattr__(self, "deny", frozenset(map(_deny_entry, self.deny)))

    def denies(self, url: str) -> bool:
        """Whether the user's deny list holds this relay."""
        if not self.deny:
            return False
        host = host_of(url)
        parents = {host[i:] for i in range(len(host)) if i == 0 or host[i - 1] == "."}
        return normalize(url) in self.deny or not self.deny.isdisjoint(parents)

    def objection(self, url: str) -> str | None:
        """Why a relay that a stranger names is not asked, or None."""
        reason = objection(url, self.connection)
        if reason is None and self.denies(url):
            return "on the deny list"
        return reason


class Chosen(msgspec.Struct, frozen=True, kw_only=True):
    """The relays for one target, normalised, the user's own first.

    `strangers` are those of them that only the target's list names: connect to these with
    addresses checked (`addresses.is_public`). `refused` tells why others were not taken. `why`: a
    sentence about which step failed, where no relay was found.
    """

    relays: tuple[str, ...]
    strangers: frozenset[str] = frozenset()
    refused: tuple[tuple[str, str], ...] = ()
    why: str = ""

    @property
    def lack(self) -> str:
        """What to say of a target without relays; empty where it has some."""
        if self.relays:
            return ""
        return f"no relay to ask: {self.why or 'the deny list holds all of them'}"


def choose(named: Iterable[str], choice: RelayChoice) -> Chosen:
    """The relays of one target from the relays that its author's list names, best first.

    `named` are normalised URLs, as `parse_relay_list` gives them.
    """
    own = [url for url in choice.own if not choice.denies(url)]
    taken, refused = _acceptable(named, own, choice)
    taken = taken[: choice.most]
    relays = own + taken
    if not relays:
        relays = [url for url in choice.defaults if not choice.denies(url)]
    return Chosen(relays=tuple(relays), strangers=frozenset(taken), refused=tuple(refused))


def choose_many(
    named: Mapping[str, Sequence[str]], choice: RelayChoice, *, most_relays: int | None = None
) -> dict[str, Chosen]:
    """The relays of many targets at once, with as few relays in all as the cover needs.

    Each target keeps up to `choice.most` relays of its own list, those that other targets name as
    well before those that it names alone, so that connections are shared. `most_relays` bounds
    the relays from lists in all; a target that none of them serves gets the user's own and the
    defaults.
    """
    checked = {target: _acceptable(urls, choice.own, choice) for target, urls in named.items()}
    wanted = {target: found[0] for target, found in checked.items()}
    given = greedy_cover(wanted, per_target=choice.most, most_relays=most_relays)
    out = {}
    for target, (_, refused) in checked.items():
        chosen = choose(given[target], choice)
        out[target] = msgspec.structs.replace(chosen, refused=tuple(refused))
    return out


def _acceptable(
    named: Iterable[str], own: Iterable[str], choice: RelayChoice
) -> tuple[list[str], list[tuple[str, str]]]:
    """Those of the named relays that may be asked, and why the others may not."""
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
