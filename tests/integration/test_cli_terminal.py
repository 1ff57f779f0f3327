"""What a person sees: a table that fits the terminal, colours, and none with NO_COLOR."""

from __future__ import annotations

import ast
import asyncio
import os
import pty
import re
from pathlib import Path

import pytest

from nostr_client.cli.app import run
from nostr_client.codecs.nip19 import PublicKey
from nostr_client.store.sqlite import SqliteStore
from tests import forks
from tests.conformance.store_events import make
from tests.faulty_relay import FaultyRelay
from tests.worlds import TARGET, Sketches, follow

FORMS = (".jsonl", ".jsonl.gz", ".jsonl.zst", ".parquet", ".sqlite")
ROOT = Path(__file__).parents[2]

WITH_BARS = {
    "nostr_client/cli/output.py": [
        "store verify",
        *(f"store import {{folder}}/in{form} --store {{folder}}/other.db" for form in FORMS),
        *(f"store export {{folder}}/out{form}" for form in FORMS),
    ],
    "nostr_client/cli/sync/commands.py": ["sync run --kind 1 --relay {relay}"],
    "agent/commands/backup.py": ["backup {folder}/copy.db"],
    "agent/commands/reindex.py": ["reindex"],
}
"""The commands of each module that draws progress bars."""

COLOUR = re.compile(r"\x1b\[[0-9;]*3[0-7]m")


async def on_terminal(*args: str, program: str = "nostr_client", **env: str) -> str:
    """What the program writes to a terminal of 100 columns."""
    ours, theirs = pty.openpty()
    clean = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "FORCE_COLOR", "CI")}
    process = await asyncio.create_subprocess_exec(
        *forks.command(program, **env),
        *args,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=theirs,
        stderr=theirs,
        env=clean | {"TERM": "xterm-256color", "COLUMNS": "100"} | env,
    )
    os.close(theirs)
    async with asyncio.timeout(40):
        read = asyncio.create_task(asyncio.to_thread(read_all, ours))
        await process.wait()
        said = await read
    assert process.returncode == 0, said
    return said


def read_all(terminal: int) -> str:
    parts = []
    while True:
        try:
            part = os.read(terminal, 65536)
        except OSError:  # the other end is closed
            part = b""
        if not part:
            os.close(terminal)
            return b"".join(parts).decode("utf-8", "replace")
        parts.append(part)


@pytest.mark.parametrize("no_colour", [False, True])
async def test_colours_are_for_terminals_and_can_be_turned_off(no_colour: bool) -> None:
    env = {"NO_COLOR": "1"} if no_colour else {}
    async with FaultyRelay(Sketches(), events=[follow(i) for i in range(9)]) as relay:
        npub = PublicKey(TARGET).encode()
        said = await on_terminal("count", "followers", npub, "--relay", relay.url, **env)
    assert "about 9 (8 to 10) distinct authors" in said
    assert relay.url in said
    assert bool(COLOUR.search(said)) is not no_colour


@pytest.fixture
async def folder(tmp_path: Path) -> Path:
    """A folder with a store and with a file to import."""
    async with await SqliteStore.open(tmp_path / "s.db") as store:
        await store.save([make(n % 3, at=n, content="word") for n in range(50)])
    for form in FORMS:
        words = ["store", "export", str(tmp_path / f"in{form}"), "--store", str(tmp_path / "s.db")]
        assert await asyncio.to_thread(run, words) == 0
    return tmp_path


@pytest.mark.parametrize(
    ("module", "words"), [(module, words) for module, all_ in WITH_BARS.items() for words in all_]
)
async def test_each_command_with_a_bar_ends_well(module: str, words: str, folder: Path) -> None:
    program = module.partition("/")[0]
    env = {"NOSTR_TALLY_STORE": str(folder / "s.db"), "XDG_CONFIG_HOME": str(folder)}
    async with FaultyRelay(Sketches(), events=[follow(1)]) as relay:
        args = words.format(folder=folder, relay=relay.url).split()
        said = await on_terminal(*args, program=program, **env)
    assert "Traceback" not in said
    if words.startswith("store import"):
        assert re.search(r"\d%.*\d:\d\d:\d\d", said), "a share of the whole, and the time left"


def test_each_module_that_draws_bars_has_a_command_above() -> None:
    files = [
        file for name in ("nostr_client", "agent", "tui") for file in (ROOT / name).rglob("*.py")
    ]
    drawing = {str(file.relative_to(ROOT)) for file in files if draws_bars(file)}
    assert drawing == set(WITH_BARS)


def draws_bars(file: Path) -> bool:
    nodes = ast.walk(ast.parse(file.read_text("utf-8")))
    imports = [node for node in nodes if isinstance(node, ast.ImportFrom)]
    return any(
        node.module == "rich.progress" and "Progress" in {alias.name for alias in node.names}
        for node in imports
        if node.col_offset  # for types alone otherwise
    )
