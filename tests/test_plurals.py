"""Sentences for people with a number in them: `1 relay`, `2 relays`, and never `about inf`."""

from __future__ import annotations

import ast
import math
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from nostr_client import hll
from nostr_client.codecs.display import plural, roughly, said, sats, unit_noun
from nostr_client.count import trust
from nostr_client.count.merge import Claim, ClaimStatus, Figure, merge_claims

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parent.parent
SOURCES = sorted(
    path for package in ("nostr_client", "agent", "tui") for path in (ROOT / package).rglob("*.py")
)
NOUNS = re.compile(
    r" (more |other |distinct |new )?(keys|sats|people|registers|clients|reactions|entries"
    r"|seconds|minutes|hours|days|relays|events|ids|frames|receipts|authors|windows|rounds"
    r"|requests|messages|watches|syncs|tasks|rows|points|lines|counters|wallets|problems"
    r"|differences|filters)\b"
)
COUNTED = ("said", "plural", "noun_for")
"""Functions of `codecs.display` that take the noun of one."""
FIXED = re.compile(r"[A-Z][A-Z_]*( / 3600)?|.*\blimits\..*|most|least.*|found\['hot'\]")
"""Numbers that are never one: constants, limits, and what is least or most."""


def sentences(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """The numbers before a noun of several: line, and the expression that gives the number."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.JoinedStr):
            continue
        for number, text in zip(node.values, node.values[1:], strict=False):
            follows = isinstance(text, ast.Constant) and NOUNS.match(str(text.value))
            if follows and isinstance(number, ast.FormattedValue):
                yield node.lineno, ast.unparse(number.value)


def test_a_number_and_its_noun_agree_everywhere() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}: {number}"
        for path in SOURCES
        for line, number in sentences(ast.parse(path.read_text("utf-8")))
        if not FIXED.fullmatch(number)
    ]
    assert found == [], "use display.plural"


def nouns(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """The nouns that are given to functions which make the plural: line, and noun."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] in COUNTED:
            for noun in node.args[1:2]:
                if isinstance(noun, ast.Constant):
                    yield node.lineno, str(noun.value)


def test_what_makes_the_plural_gets_the_noun_of_one() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}: {noun}"
        for path in SOURCES
        for line, noun in nouns(ast.parse(path.read_text("utf-8")))
        if NOUNS.fullmatch(f" {noun}")
    ]
    assert found == []


@pytest.mark.parametrize("unit", ["distinct_authors", "events"])
@pytest.mark.parametrize(
    "figure",
    [
        Figure.exactly(1),
        Figure.at_least(1),
        Figure.at_least(5, 1),
        Figure(value=1, low=0, high=4),
        Figure(value=1, low=1, high=None, as_said=True),
    ],
)
def test_one_of_a_unit_is_said_as_one(unit: str, figure: Figure) -> None:
    text = said(figure, unit_noun(unit))
    number, _, rest = re.sub(r" \(.*?\)|about |at least ", "", text).partition(" ")
    assert rest.startswith(unit_noun(unit) + ("" if number == "1" else "s")), text
    assert not re.search(r"\b1 \w*( \w+)?s\b", text), text


@pytest.mark.parametrize(
    ("msats", "text"),
    [
        (0, "0 sats"),
        (1, "0.001 sats"),
        (500, "0.5 sats"),
        (1000, "1 sat"),
        (1500, "1.5 sats"),
        (21_000, "21 sats"),
        (1_234_567, "1,234.567 sats"),
    ],
)
def test_no_part_of_a_sat_is_cut(msats: int, text: str) -> None:
    assert sats(msats) == text


@pytest.mark.parametrize(
    ("number", "text"), [(0, "0 relays"), (1, "1 relay"), (2, "2 relays"), (1204, "1,204 relays")]
)
def test_a_number_and_what_it_counts(number: int, text: str) -> None:
    assert plural(number, "relay") == text


def test_other_forms() -> None:
    assert plural(1, "event was", "events were") == "1 event was"
    assert plural(3, "watch", "watches") == "3 watches"


def test_no_number_is_about_infinity() -> None:
    assert roughly(12.4) == "about 12"
    assert "inf" not in roughly(math.inf)
    full = bytes([57]) * hll.M
    told = trust.count_consistency(9, full, one_per_author=True)
    claims = [Claim(relay=name, status=ClaimStatus.OK, count=5, registers=full) for name in "abcde"]
    merged = [merge_claims(claims, one_per_author=one) for one in (True, False)]
    texts = [w for one in merged for claim in one.claims for w in claim.warnings]
    assert texts
    assert not any("inf" in text for text in (*told.reasons, *texts))
