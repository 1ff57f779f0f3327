"""Every command of the README and the documents is run, page by page, against local relays."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest

from tests.docs.blocks import SHELL, Block, Line, blocks, lines
from tests.docs.pages import BEFORE, CODES, CONFIGURED
from tests.docs.shell import DEADLINE_S, Shell
from tests.docs.world import World, world

if TYPE_CHECKING:
    from pathlib import Path

ELSEWHERE = {"docs/tutorial.md"}  # tests/test_tutorial.py
WITH_SPARK = {"docs/how-to/reindex.md", "docs/how-to/reindex-cluster.md"}
SPARK_DEADLINE_S = 300
ABOUT_THE_AGENT = {"docs/how-to/service.md", "docs/how-to/fleet.md"}
STARTED = "README.md"
"""The page whose programs are started as users start them; those of other pages are forked."""
WITH_NATS = {"docs/how-to/nats.md"}
WITH_PROXY = {"docs/how-to/tor.md"}
PAGES = {
    page: list(those)
    for page, those in itertools.groupby(
        (one for one in blocks(*SHELL) if one.mark != "not run"), lambda block: block.page
    )
    if page not in ELSEWHERE
}


async def run_page(page: str, home: Path) -> None:
    about = {"nats": page in WITH_NATS, "proxied": page in WITH_PROXY, "forked": page != STARTED}
    async with world(home, **about) as there:
        configure(page, there)
        seconds = SPARK_DEADLINE_S if page in WITH_SPARK else DEADLINE_S
        shell = Shell(there, seconds, through_agent=page in ABOUT_THE_AGENT)
        try:
            for command in BEFORE.get(page, ()):
                await shell.run(Line(f"before {page}", command, ()))
            for block in PAGES[page]:
                for line in lines(block):
                    await shell.run(line, CODES.get(line.command, 0))
        finally:
            await shell.close()


def configure(page: str, there: World) -> None:
    """The page's files: its configuration, and the programs that begin with their name."""
    home = there.home
    if page in CONFIGURED:
        of, number = CONFIGURED[page]
        text = [block for block in blocks("toml") if block.page == of][number].text
        path = home / ".config/nostr-tally/agent.toml"
        path.parent.mkdir(parents=True)
        path.write_text(there.substituted(text), "utf-8")
    for block in blocks("python"):
        if block.page == page and (name := file_name(block)):
            (home / name).write_text(block.text, "utf-8")


def file_name(block: Block) -> str:
    """`policies.py` of a block whose first line is `# policies.py`."""
    first = block.text.split("\n", 1)[0]
    return first.removeprefix("# ") if first.endswith(".py") else ""


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(
            page, marks=[pytest.mark.long, pytest.mark.timeout(900)] if page in WITH_SPARK else []
        )
        for page in PAGES
    ],
)
async def test_commands_of(page: str, tmp_path: Path) -> None:
    await run_page(page, tmp_path)
