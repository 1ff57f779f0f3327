"""Links of the documents lead somewhere, and so do their anchors."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.docs.blocks import FENCE, ROOT, documents

if TYPE_CHECKING:
    from pathlib import Path

DOCS = ROOT / "docs"
LINK = re.compile(r"\]\((?!\w+:)([^)#\s]*)(?:#([^)\s]+))?[^)]*\)")
HEADING = re.compile(r"^#{1,6} +(.+?)(?: *\{ *#([\w.-]+) *\})?$", re.MULTILINE)


def anchors(path: Path) -> set[str]:
    """What the site, and a forge, make of a page's headings."""
    text = FENCE.sub("", path.read_text("utf-8"))
    found: set[str] = set()
    for title, given in HEADING.findall(text):
        slug = given or re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", title).strip().lower())
        number = 1
        while slug in found:
            slug = f"{re.sub('_[0-9]+$', '', slug)}_{number}"
            number += 1
        found.add(slug)
    return found


@pytest.mark.parametrize("path", documents(), ids=lambda path: path.name)
def test_links_and_anchors_lead_somewhere(path: Path) -> None:
    for target, anchor in LINK.findall(FENCE.sub("", path.read_text("utf-8"))):
        page = path.parent / target if target else path
        assert page.exists(), target
        if anchor and page.suffix == ".md" and page.name != "sdk.md":
            assert anchor in anchors(page), f"{target}#{anchor}"


def test_the_index_and_the_site_list_every_page() -> None:
    pages = {str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md")} - {"index.md"}
    assert len(pages) > 40
    listed = {target for target, _ in LINK.findall((DOCS / "index.md").read_text("utf-8"))}
    assert pages - listed == set()
    nav = (DOCS.parent / "mkdocs.yml").read_text("utf-8").partition("\nnav:\n")[2]
    assert pages == set(re.findall(r"[\w/-]+\.md", nav)) - {"index.md"}


def test_the_index_links_the_how_to_of_badges() -> None:
    found = LINK.findall((DOCS / "index.md").read_text("utf-8"))
    assert ("how-to/watch.md", "show-a-badge-on-a-web-page") in found


def test_there_is_something_to_check() -> None:
    links = [link for path in documents() for link in LINK.findall(path.read_text("utf-8"))]
    assert len(links) > 50
    assert any(anchor for _, anchor in links)
