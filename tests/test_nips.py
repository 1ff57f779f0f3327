"""The tables of NIPs say what the local relay says of itself, and what the code names."""

from __future__ import annotations

import re
from pathlib import Path
from typing import cast

from agent.relay.info import document
from agent.relay.options import RelayOptions

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs/reference/nips.md").read_text("utf-8")
ROWS = re.findall(r"^\| (\d\d) [^|]*\| ([^|]*) \| ([^|]*) \|$", PAGE, re.MULTILINE)
README = (ROOT / "README.md").read_text("utf-8").partition("## Supported NIPs")[2]

NAMES_OF_KINDS = {4, 10, 17, 23, 36, 37, 56, 60, 73, 90, 98, 99}
"""Named in the code for a kind of theirs or for what a caller may bring, and not supported."""


def readme() -> dict[str, set[int]]:
    """What each row of the README's table lists."""
    rows = re.findall(r"^\| ([A-Z][^|]*) \| ([^|]*) \|$", README, re.MULTILINE)
    return {name: {int(nip) for nip in re.findall(r"\b\d\d\b", nips)} for name, nips in rows}


def served() -> set[int]:
    told = document(RelayOptions(), search=True, write_restricted=False)["supported_nips"]
    return set(cast("list[int]", told))


def test_the_relays_column() -> None:
    yes = {int(nip) for nip, _, relay in ROWS if relay not in ("no", "–", "as any event")}
    assert yes == served()


def test_the_rows_are_in_order() -> None:
    numbers = [int(nip) for nip, _, _ in ROWS]
    assert len(numbers) > 15
    assert numbers == sorted(set(numbers))


def test_the_readme_lists_what_the_page_lists() -> None:
    rows = readme()
    assert rows.pop("Supported by the local relay") == served()
    ours = {int(nip) for nip, sdk, _ in ROWS if sdk not in ("no", "–")}
    assert set.union(*rows.values()) == ours


def test_the_code_names_every_nip_that_is_listed_and_no_other() -> None:
    files = (path for name in ("nostr_client", "agent") for path in (ROOT / name).rglob("*.py"))
    named = {int(nip) for path in files for nip in re.findall(r"NIP-(\d\d)", path.read_text())}
    listed = {int(nip) for nip, sdk, relay in ROWS if (sdk, relay) != ("no", "no")}
    assert named - NAMES_OF_KINDS == listed
