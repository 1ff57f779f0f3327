"""Order relays by the evidence about each. Pure. No relay is removed.

Stored claims are the evidence, which other modules read. A relay that adds confirmed people to the
relays before it comes first. A person is confirmed if two relays show this person, so a relay that
invents people gains nothing. Of relays that add equally, one that answers reliably and quickly
comes first.
"""

from __future__ import annotations

import math
from itertools import combinations
from typing import TYPE_CHECKING, Final

import msgspec

from nostr_client import hll
from nostr_client.codecs.display import plural, whole_percent
from nostr_client.codecs.relay_url import host_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

TURN: Final = 10
"""In every tenth round, a relay that was never asked comes first, if there is one."""

WEEK_S: Final = 7 * 86_400.0
"""Seconds for which answers, failures and refusals count, because operators repair relays."""

MONTH_S: Final = 30 * 86_400.0
"""Seconds for which shown people count. The contents of relays change after that."""

CONFIRMS: Final = 0.05
"""Worth of a relay that adds no person, as a share of people. The relay confirms other answers."""

SLOW_MS: Final = 10_000.0
"""Milliseconds of an answer that halve the worth of a relay: about a deadline."""


class RelayEvidence(msgspec.Struct, frozen=True, kw_only=True):
    """Evidence about a relay. Each day of each question counts once, by its last answer.

    - `answered`, `refused`, `failed`: answers of the last week to all questions. `failed` means no
      connection or no answer in time.
    - `served`, `declined`: answers and refusals of the last week to questions of the current name.
    - `latency_ms`: mean time of the relay's answers.
    - `shown`: of the last month, a bit for each confirmed register that the relay's people reach.
    - `registers`: the confirmed registers in the questions that the relay answered.
    - `live`: a monitor that the user names reached the relay (NIP-66).
    - `answerers`: how many people who usually answer the target write to the relay.
    """

    answered: int = 0
    refused: int = 0
    failed: int = 0
    served: int = 0
    declined: int = 0
    latency_ms: float | None = None
    shown: int = 0
    registers: int = 0
    live: bool = False
    answerers: int = 0

    @property
    def is_known(self) -> bool:
        """Whether the relay was asked in the last week, or answered in the last month."""
        return bool(self.answered or self.refused or self.failed or self.registers)

    @property
    def reliability(self) -> float:
        """The estimated share of questions of this name that the relay answers. Half if unknown."""
        reached = self.answered + self.refused
        reach = (reached + 1) / (reached + self.failed + 2)
        return reach * (self.served + 1) / (self.served + self.declined + 1)

    def gain(self, before: int) -> float:
        """Return the share of confirmed people that the relay adds to `before`."""
        return (self.shown & ~before).bit_count() / self.registers if self.registers else 0.0


NO_EVIDENCE: Final = RelayEvidence()


class RankedRelay(msgspec.Struct, frozen=True, kw_only=True):
    """A relay and its rank. Shares are of confirmed people, from 0 to 1, or None if unknown.

    `holds`: share that the relay shows. `adds`: share that the relay adds to the relays before it.
    """

    relay: str
    holds: float | None = None
    adds: float | None = None
    evidence: RelayEvidence = NO_EVIDENCE

    @property
    def why(self) -> str:
        """Return the evidence in words."""
        return ", ".join(_reasons(self))


_SURE: Final = 3.0
"""Standard deviations above chance at which equal registers mean shared people.

Ten shared people are enough.
"""

_MOVE: Final = hll.M // 4
"""Positions by which registers move, to measure how many are equal by chance."""

_EMPTY_A: Final = bytes([0x7E, *range(1, 256)])
_EMPTY_B: Final = bytes([0x7F, *range(1, 256)])
"""Values for empty registers, different on the two sides, so that empty registers never match."""


def rank(
    relays: Iterable[str],
    evidence: Mapping[str, RelayEvidence],
    *,
    turn: bool = False,
    current: Collection[str] = (),
) -> list[RankedRelay]:
    """Return all relays, best first. Without evidence the given order stays.

    Relays that answer come first, then relays that were never asked, then relays that fail more
    often than not. `turn`: a relay that was never asked comes before all others. `current`: relays
    in use, which stay in front while they answer.
    """
    urls = list(dict.fromkeys(relays))
    place = {url: n for n, url in enumerate(urls)}
    found = {url: evidence.get(url, NO_EVIDENCE) for url in urls}
    known = [url for url in urls if found[url].is_known]
    good = [url for url in known if found[url].reliability >= 0.5]
    never = sorted(
        (url for url in urls if not found[url].is_known),
        key=lambda url: (not found[url].live, -found[url].answerers, place[url]),
    )
    first = never[:1] if turn else []
    groups = (
        [url for url in good if url in current],
        [url for url in good if url not in current],
        never[len(first) :],
        [url for url in known if url not in good],
    )
    ranked = [RankedRelay(relay=url, evidence=found[url]) for url in first]
    shown = 0
    for group in groups:
        shown = _append(ranked, group, found, shown)
    return ranked


def _append(
    ranked: list[RankedRelay],
    group: Collection[str],
    found: Mapping[str, RelayEvidence],
    shown: int,
) -> int:
    """Append a group, best first, and return all people shown so far.

    The given order breaks ties.
    """
    left = list(group)
    while left:
        best = max(left, key=lambda url: _worth(found[url], shown))
        left.remove(best)
        one = found[best]
        known = one.registers > 0
        holds, adds = (one.gain(0), one.gain(shown)) if known else (None, None)
        ranked.append(RankedRelay(relay=best, holds=holds, adds=adds, evidence=one))
        shown |= one.shown
    return shown


def _worth(one: RelayEvidence, shown: int) -> tuple[float, float]:
    """Return the relay's expected gain, then the people that it would confirm, for comparison."""
    if not one.is_known:
        return 0.0, 0.0  # the order decides
    odds = one.reliability / (1 + (one.latency_ms or 0.0) / SLOW_MS)
    return odds * (CONFIRMS + one.gain(shown)), odds * one.gain(0)


def _reasons(one: RankedRelay) -> Iterable[str]:
    found = one.evidence
    asked = found.answered + found.refused + found.failed
    if asked:
        questions = plural(asked, "question")
        yield f"answered {found.answered} of {questions} this week (each counts once a day)"
    if found.refused:
        yield f"refused {found.refused}"
    if found.latency_ms is not None:
        yield f"{found.latency_ms:.0f} ms"
    if one.holds is not None and one.adds is not None:
        yield f"shows ~{whole_percent(one.holds)} of confirmed people"
        yield f"adds ~{whole_percent(one.adds)}"
    if not found.is_known:
        yield "no answer and no failure is known"
    if found.live:
        yield "a monitor reached it"
    if found.answerers:
        people = plural(found.answerers, "person", "people")
        yield f"{people} who often answer write to it"


def confirmed_people(
    questions: Sequence[Mapping[str, bytes]],
) -> dict[str, tuple[int, int]]:
    """Return the confirmed registers that each relay shows, as bits, by URL.

    The second number counts the confirmed registers in the questions that the relay answered.
    `questions` has, for each question, the registers of the relays that answered. A register is
    confirmed if two relays that share people have the same value in it. The largest such value
    stands for one person whom both relays have. A relay with a larger value shows another person,
    whom no other relay confirms.
    """
    urls = list(dict.fromkeys(url for one in questions for url in one))
    number = {url: n for n, url in enumerate(urls)}
    share = _who_share(urls, questions)
    shown, registers = dict.fromkeys(urls, 0), dict.fromkeys(urls, 0)
    at = 0
    for question in questions:
        start = at
        for column in zip(*question.values(), strict=True):
            holders = _holders(zip(question, column, strict=True), number, share)
            for url in holders:
                shown[url] |= 1 << at
            at += bool(holders)
        for url in question:
            registers[url] += at - start
    return {url: (shown[url], registers[url]) for url in urls}


def _holders(
    column: Iterable[tuple[str, int]], number: Mapping[str, int], share: Sequence[int]
) -> list[str]:
    """Return the relays that show the person of a register whom two of them confirm."""
    by_value: dict[int, list[str]] = {}
    for url, value in column:
        if value:
            by_value.setdefault(value, []).append(url)
    for _, urls in sorted(by_value.items(), reverse=True):
        all_of_them = sum(1 << number[url] for url in urls)
        holders = [url for url in urls if share[number[url]] & all_of_them]
        if holders:
            return holders
    return []


def _who_share(urls: Sequence[str], questions: Sequence[Mapping[str, bytes]]) -> list[int]:
    """Return for each relay, as bits, the relays that share more people with it than by chance.

    Relays with different people also have equal registers, because most values are close together.
    The comparison with moved registers measures this chance. Relays that invent people therefore do
    not confirm each other.
    """
    own = [b"".join(one.get(url, hll.EMPTY) for one in questions) for url in urls]
    first = [int.from_bytes(one.translate(_EMPTY_A)) for one in own]
    second = [int.from_bytes(one.translate(_EMPTY_B)) for one in own]
    moved = [int.from_bytes(_moved(one).translate(_EMPTY_B)) for one in own]
    share = [0] * len(urls)
    size = len(questions) * hll.M
    ones = int.from_bytes(b"\x7f" * size)
    hosts = [host_of(url) for url in urls]
    for i, j in combinations(range(len(urls)), 2):
        if hosts[i] == hosts[j]:  # one relay with two URLs confirms nothing
            continue
        equal, chance = (_equal(first[i], other[j], ones, size) for other in (second, moved))
        if equal - chance > _SURE * math.sqrt(equal + chance):
            share[i] |= 1 << j
            share[j] |= 1 << i
    return share


def _moved(registers: bytes) -> bytes:
    """Return the registers of each question, moved to other positions."""
    parts = (registers[at : at + hll.M] for at in range(0, len(registers), hll.M))
    return b"".join(part[_MOVE:] + part[:_MOVE] for part in parts)


def _equal(one: int, other: int, ones: int, size: int) -> int:
    """Return how many of `size` bytes below 0x80 are equal. `ones` has 0x7f in each byte.

    The sum sets the highest bit of each byte in which the two differ, and no byte carries over.
    """
    return size - (((one ^ other) + ones) & ~ones).bit_count()
