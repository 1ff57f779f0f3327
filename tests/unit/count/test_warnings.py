"""Warnings are sentences for people: what is wrong with an answer, in words that anybody knows."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest

from nostr_client import Claim, ClaimStatus
from nostr_client.cli.count.command import second_lines
from nostr_client.count.merge import Method, Proven, Reading, merge_claims
from nostr_client.count.queries import followers
from nostr_client.count.result import CountResult

if TYPE_CHECKING:
    from collections.abc import Iterator

COUNT = Path(__file__).parents[3] / "nostr_client" / "count"
TEXT = re.compile(r"(count|read|ids|hll|zaps|followers|search): ")
"""How a warning begins: with the part of the answer that it is about."""

OURS = re.compile(
    r"\b(held|bare|void|word|incomplete|stalled|sketch)\b|what is|\(p = |: a lower bound$"
)
"""Words of this code, and ends that leave open why."""

KEY = "11" * 32


def texts() -> Iterator[str]:
    """All texts of the package that are warnings; `{}` stands for what is put in."""
    for path in COUNT.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            match node:
                case ast.JoinedStr(values):
                    parts = [str(v.value) if isinstance(v, ast.Constant) else "{}" for v in values]
                    text = "".join(parts)
                case ast.Constant(str(text)):
                    pass
                case _:
                    continue
            if TEXT.match(text):
                yield text


def test_no_warning_has_words_of_our_own() -> None:
    found = list(texts())
    assert len(found) > 25
    assert [text for text in found if OURS.search(text)] == []


def read(proven: Proven, *, whole_at: int | None = 0, number: int = 3) -> Claim:
    members = frozenset(bytes([n]) * 32 for n in range(number))
    reading = Reading(
        authors=members, events=members, complete=True, proven=proven, whole_at=whole_at
    )
    return Claim(
        relay="wss://a.example",
        status=ClaimStatus.OK,
        method=Method.EVENTS,
        count=number,
        reading=reading,
    )


@pytest.mark.parametrize(
    ("proven", "note"),
    [
        (Proven.MEMBERS, None),
        (Proven.NUMBER, "since then only new ones, and its count agrees"),
        (Proven.NOTHING, "since then only new ones"),
    ],
)
def test_when_all_was_read_is_a_note_and_no_warning(proven: Proven, note: str | None) -> None:
    claim = read(proven)
    assert claim.warnings == ()
    wanted = None if note is None else f"all of its events were read 1970-01-01 00:00 UTC, {note}"
    assert claim.note == claim.to_dict()["note"] == wanted
    other = msgspec.structs.replace(read(Proven.MEMBERS), relay="wss://b.example")
    claims = (claim, other)
    merged = merge_claims(claims, one_per_author=True)
    result = CountResult(query=followers(KEY), merged=merged, relays=claims)
    assert [one.note for one in result.counted().relays] == [wanted, None]
    lines = [line for line in second_lines(result) if line.startswith("at least: ")]
    assert lines == ([f"at least: {claim.relay}: {wanted}"] if wanted else [])
