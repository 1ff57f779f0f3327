"""Requests that schemathesis makes of the API's own document, against a running agent."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sqlite3
import sys
from contextlib import asynccontextmanager, closing
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import aiohttp
import pytest

from agent.api.document import document
from agent.reindex import engines
from agent.reindex.launcher import COMMAND as CHILD
from agent.specs import SyncSpec
from tests.agent.service.kit import an_agent, config_text, eventually
from tests.faulty_relay import FaultyRelay
from tests.running import running_agent
from tests.worlds import TARGET, follow

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

ROOT = Path(__file__).parents[3]
SEED = os.environ.get("SCHEMATHESIS_SEED", "1")
"""Another one asks other things: for whoever looks for faults."""


FOLLOWERS = f"""
[[watches]]
name = "followers"
query = "followers"
target = "{TARGET}"
"""

# What is no mistake: a filter or a target may be well-formed JSON and still mean nothing, which no
# schema can say.
EXPECTED = "positive_data_acceptance"

LOADED_S = 7_200
"""Seconds for a long run beside seven others on two cores; alone it takes half a minute."""

METHODS = {"get", "put", "post", "patch", "delete"}

KNOWN = """
[parameters]
name = "followers"
stream = "app"
"""


async def test_schemathesis_finds_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Generated requests, valid and not, against every operation; fewer than in the long set."""
    monkeypatch.setattr(engines, "has_spark", lambda: False)  # else it would start Java
    await finds_nothing(tmp_path, 1, known=True)


@pytest.mark.long
@pytest.mark.timeout(LOADED_S)
@pytest.mark.parametrize("known", [False, True], ids=["any-names", "known-names"])
async def test_schemathesis_finds_nothing_long(
    tmp_path: Path, known: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engines, "has_spark", lambda: False)
    await finds_nothing(tmp_path, 100, known=known)


async def finds_nothing(folder: Path, examples: int, *, known: bool) -> None:
    async with (
        FaultyRelay(events=[follow(1)]) as relay,
        an_agent(folder, [relay.url], FOLLOWERS) as agent,
    ):
        api = Api(agent.service.api.url, agent.service.tokens.manage)
        await schemathesis(folder, api, examples, known=known)
        assert (await agent.client.status()).pid


# The scopes, whatever is asked.


async def test_a_read_token_changes_nothing(tmp_path: Path) -> None:
    await changes_nothing(tmp_path, 1, known=True)


@pytest.mark.long
@pytest.mark.timeout(LOADED_S)
@pytest.mark.parametrize("known", [False, True], ids=["any-names", "known-names"])
async def test_a_read_token_changes_nothing_long(tmp_path: Path, known: bool) -> None:
    await changes_nothing(tmp_path, 100, known=known)


async def changes_nothing(folder: Path, examples: int, *, known: bool) -> None:
    """Every table of the store and of the index is the same before and after, row by row."""
    store = folder / "store"
    store.mkdir()
    text = config_text(store, ["{relay}"], FOLLOWERS)
    async with FaultyRelay(events=[follow(i) for i in range(5)]) as relay:
        text = text.replace("{relay}", relay.url)
        async with an_agent(store, text=text) as agent:
            await agent.client.add("app", "app.n", "3")
            await agent.client.add_sync(SyncSpec(name="followers", filters=({"kinds": [3]},)))
            await agent.until(lambda w: w.answered == 1, "followers")

            async def is_quiet() -> bool:
                before = digests(store)
                await asyncio.sleep(1.0)
                synced = (await agent.client.sync("followers")).outcome == "complete"
                return synced and digests(store) == before

            await eventually(is_quiet)
            await agent.service.agent.keep_relays()  # which it does by itself, now and then
            before, asked = digests(store), len(relay.received)
            api = Api(agent.service.api.url, agent.service.tokens.read)
            await schemathesis(folder, api, examples, known=known)
            assert digests(store) == before
            assert len(relay.received) == asked, "no relay is asked for a token that reads"


def digests(folder: Path) -> dict[tuple[str, str], str]:
    """The digest of the rows of every table of every database in a folder."""
    found = {}
    for path in sorted(folder.glob("*.db*")):
        if path.read_bytes()[:6] != b"SQLite":
            continue
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as conn:
            tables = "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name"
            for (table,) in conn.execute(tables).fetchall():
                rows = sorted(map(repr, conn.execute(f'SELECT * FROM "{table}"')))
                found[path.name, table] = sha256("\n".join(rows).encode()).hexdigest()
    assert len(found) > 10
    return found


async def test_a_manage_token_runs_no_command_and_writes_nowhere_else(tmp_path: Path) -> None:
    await runs_and_writes_nothing(tmp_path, 2)


@pytest.mark.long
@pytest.mark.timeout(LOADED_S)
async def test_a_manage_token_runs_no_command_and_writes_nowhere_else_long(tmp_path: Path) -> None:
    await runs_and_writes_nothing(tmp_path, 100)


COMMAND = ("touch", "ran")
ATTACKS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    (
        "POST",
        "/v1/watches",
        {
            "name": "attack",
            "filters": [{"kinds": [3]}],
            "alerts": [{"when": ">= 0", "command": COMMAND}],
        },
    ),
    ("POST", "/v1/store/index/adopt", {"path": "/etc/passwd"}),
    ("POST", "/v1/store/index/adopt", {"path": "../../../../tmp/index.db"}),
    ("POST", "/v1/store/rebuild", {"engine": "reference", "memory": "1g;touch ran"}),
)
"""What a generator of requests does not come upon."""


async def runs_and_writes_nothing(folder: Path, examples: int) -> None:
    """The agent and its children are audited by the interpreter while every route is asked."""
    log = folder / "audit.jsonl"
    store = folder / "store"
    store.mkdir()
    async with (
        FaultyRelay(events=[follow(1)]) as relay,
        an_audited_agent(folder, config_text(store, [relay.url], FOLLOWERS), log) as api,
    ):
        began = log.stat().st_size
        await schemathesis(folder, api, examples, known=True)
        async with aiohttp.ClientSession(headers=api.headers) as session:
            for method, path, body in ATTACKS:
                async with session.request(method, api.url + path, json=body) as response:
                    assert response.status in (400, 403), path
            rebuild = f"{api.url}/v1/store/rebuild"
            async with session.post(rebuild, json={"engine": "reference"}) as response:
                assert response.status in (202, 409)

            async def rebuilt() -> bool:
                async with session.get(rebuild) as response:
                    return not (await response.json())["running"]

            await eventually(rebuilt, 60)
    rows = [json.loads(line) for line in log.read_bytes()[began:].splitlines()]
    ran = {tuple(row[1:]) for row in rows if row[0] == "run"}
    assert {line[1:] for line in ran} <= {CHILD[1:]}, "the rebuild's own process, and nothing else"
    written = {row[1] for row in rows if row[0] == "write"}
    assert written, "the audit sees what is written"
    elsewhere = {path for path in written if not is_inside(path, store, folder)}
    assert elsewhere == set()


def is_inside(path: str, store: Path, home: Path) -> bool:
    """Whether a path is the store's folder or in it, or one that is no file of anybody's.

    `agent.json` in the user's state is removed when the agent ends.
    """
    if path in (os.devnull, ":memory:", "") or path.startswith("/dev/fd/"):
        return True
    bare = path.removeprefix("file:").partition("?")[0]
    found = Path(bare).resolve()
    state = home / "home"
    return found.is_relative_to(store) or found.is_relative_to(state)


@asynccontextmanager
async def an_audited_agent(folder: Path, text: str, log: Path) -> AsyncIterator[Api]:
    """A whole agent in a process of its own, whose interpreter writes down what it does."""
    (folder / "agent.toml").write_text(text)
    home = folder / "home"
    home.mkdir(exist_ok=True)
    names = ("XDG_STATE_HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR")
    environment = dict.fromkeys(names, str(home)) | {
        "PYTHONPATH": os.pathsep.join([str(ROOT / "tests/audit"), str(ROOT)]),
        "PYTHONDONTWRITEBYTECODE": "1",
        "NOSTR_TALLY_TEST_AUDIT": str(log),
    }
    async with running_agent(folder / "agent.toml", folder, **environment) as url:
        yield Api(url, (folder / "store" / "token").read_text().strip())


# Running it.


class Api(NamedTuple):
    """Where an API is, and the token to come in with."""

    url: str
    token: str

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"}


async def schemathesis(folder: Path, api: Api, examples: int, *, known: bool) -> None:
    """Ask every operation but the endless stream; fails with what was found."""
    (folder / "schemathesis.toml").write_text(KNOWN if known else "")
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "schemathesis.cli",
        "run",
        f"{api.url}/v1/openapi.json",
        "-H",
        f"Authorization: Bearer {api.token}",
        f"--max-examples={examples}",
        f"--seed={SEED}",
        "--exclude-path=/v1/events",
        f"--exclude-checks={EXPECTED}",
        "--phases=examples,coverage,fuzzing",
        "--request-timeout=120",
        "--no-color",
        cwd=folder,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        said, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    lines = [line[:300] for line in said.decode().splitlines()]
    assert process.returncode == 0, "\n".join(lines[-150:])
    found = re.search(r"Selected: (\d+)/(\d+)\s+Tested: (\d+)", said.decode())
    assert found, said.decode()[-2000:]
    selected, total, tested = map(int, found.groups())
    assert selected == tested == total - 1, "all but the endless stream"
    assert total in (operations(), operations() - 1), "it may leave out the document itself"


def operations() -> int:
    """How many operations the document has; the endless stream among them."""
    paths = document()["paths"].values()
    return sum(method in METHODS for path in paths for method in path)
