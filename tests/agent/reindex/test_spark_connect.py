"""A rebuild by Spark Connect, with a server on this machine, gives the same tables."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest

from agent.reindex import run, single
from agent.reindex.protocol import STAGES, Stage
from agent.reindex.reporter import Reporter
from tests.agent.reindex import looking
from tests.agent.reindex.test_spark_child import job_in

if TYPE_CHECKING:
    from agent.reindex.protocol import Message

pytestmark = pytest.mark.timeout(600)


async def test_the_tables_are_those_of_the_plain_engine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_TESTING", "1")  # a free port
    job = msgspec.structs.replace(job_in(tmp_path), conf=(("spark.remote", "local[2]"),))
    heard: list[Message] = []
    result = await run.build(job, "a test", heard.append)
    again = await run.build(job, "a test", heard.append)
    states = {one.name: one.state for one in heard if isinstance(one, Stage)}
    assert [states[stage] for stage in STAGES] == ["skipped"] * len(STAGES)
    alone = job_in(tmp_path, out="reference")
    await asyncio.to_thread(single.run_job, alone, Reporter(lambda line: None))
    wanted = looking.of_file(Path(alone.out) / "index.db")
    assert looking.of_file(Path(result.built.path)) == wanted
    assert result.built.rows == again.built.rows
