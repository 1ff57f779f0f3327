"""Requests that schemathesis makes of the API's own document, against a running agent."""

from __future__ import annotations

import asyncio
import re
import sys
from typing import TYPE_CHECKING

import pytest

from agent.api.document import document
from agent.reindex import engines
from tests.agent.service.kit import an_agent
from tests.faulty_relay import FaultyRelay
from tests.worlds import TARGET, follow

if TYPE_CHECKING:
    from pathlib import Path

FOLLOWERS = f"""
[[watches]]
name = "followers"
query = "followers"
target = "{TARGET}"
"""

# What is no mistake: a filter or a target may be well-formed JSON and still mean nothing, which no
# schema can say.
EXPECTED = "positive_data_acceptance"

METHODS = {"get", "put", "post", "patch", "delete"}

KNOWN = """
[parameters]
name = "followers"
stream = "app"
"""


@pytest.mark.timeout(300)
@pytest.mark.parametrize("known", [False, True], ids=["any-names", "known-names"])
async def test_schemathesis_finds_nothing(
    tmp_path: Path, known: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Generated requests, valid and not, against every operation; fewer than in the long set."""
    monkeypatch.setattr(engines, "has_spark", lambda: False)  # else it would start Java
    await schemathesis(tmp_path, 3, known=known)


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("known", [False, True], ids=["any-names", "known-names"])
async def test_schemathesis_finds_nothing_long(
    tmp_path: Path, known: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engines, "has_spark", lambda: False)
    await schemathesis(tmp_path, 100, known=known)


async def schemathesis(folder: Path, examples: int, *, known: bool) -> None:
    (folder / "schemathesis.toml").write_text(KNOWN if known else "")
    async with (
        FaultyRelay(events=[follow(1)]) as relay,
        an_agent(folder, [relay.url], FOLLOWERS) as agent,
    ):
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "schemathesis.cli",
            "run",
            f"{agent.service.api.url}/v1/openapi.json",
            "-H",
            f"Authorization: Bearer {agent.service.token}",
            f"--max-examples={examples}",
            "--seed=1",
            "--exclude-path=/v1/events",
            f"--exclude-checks={EXPECTED}",
            "--phases=examples,coverage,fuzzing",
            "--request-timeout=30",
            "--no-color",
            cwd=folder,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        said, _ = await process.communicate()
        lines = [line[:300] for line in said.decode().splitlines()]
        assert process.returncode == 0, "\n".join(lines[-150:])
        found = re.search(r"Selected: (\d+)/(\d+)\s+Tested: (\d+)", said.decode())
        assert found, said.decode()[-2000:]
        selected, total, tested = map(int, found.groups())
        assert selected == tested == total - 1, "all but the endless stream"
        assert total in (operations(), operations() - 1), "it may leave out the document itself"
        assert (await agent.client.status()).pid


def operations() -> int:
    """How many operations the document has; the endless stream among them."""
    paths = document()["paths"].values()
    return sum(method in METHODS for path in paths for method in path)
