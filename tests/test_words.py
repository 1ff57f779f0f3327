"""The words that only this project would understand are refused in names and in prose."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from scripts import words

if TYPE_CHECKING:
    from pathlib import Path


def refused(text: str) -> list[str]:
    return [one.word for one in words.in_python("x.py", text)]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("told = 1\n", ["told"]),
        ("class WatchBook: pass\n", ["WatchBook"]),
        ("_heard_of = 1\n", ["heard"]),
        ("'''Build it\n\nanew.'''\n", ["anew"]),
        ("# in the place  of a path\n", ["in the place  of"]),
        ("raise E(f'{x} for whoever asks')\n", ["whoever"]),
        ("threshold = stoldered = 'intelligent, amended, recommended'\n", []),
    ],
)
def test_names_comments_and_texts_are_read(text: str, found: list[str]) -> None:
    assert refused(text) == found


def test_code_within_a_page_is_not_read() -> None:
    page = "Ask `told`.\n\n```text\nwhoever\n```\n\n[a](journal.md) What is\nno event is told.\n"
    found = list(words.in_document("x.md", page))
    assert [(one.line, one.word) for one in found] == [(7, "What is\nno"), (8, "told")]
    assert str(found[1]) == "x.md:8: 'told': write reported, received"


def test_nothing_is_refused_and_every_exception_is_needed(tmp_path: Path) -> None:
    assert not list(words.findings(tmp_path))
    found = [one for one in words.findings() if not words.is_not_yet(one.path)]
    assert not found, "\n".join(map(str, found))
    for path in words.ALLOWED:
        assert (words.ROOT / path).exists(), path
