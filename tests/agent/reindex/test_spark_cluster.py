"""The same plan on a cluster gives the same tables, also when a worker dies in the middle."""

from __future__ import annotations

from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from agent.reindex import single
from agent.reindex.launcher import messages
from agent.reindex.protocol import Built, Stage
from agent.reindex.reporter import Reporter
from tests.agent.reindex import cluster, looking
from tests.agent.reindex.test_spark_child import job_in

if TYPE_CHECKING:
    from agent.reindex.protocol import Job

pytestmark = pytest.mark.timeout(900)


async def test_a_worker_that_dies_in_the_middle_changes_nothing(
    tmp_path: Path,
) -> None:
    with cluster.running(tmp_path) as found:
        job = job_in(tmp_path, master=found.url)
        path = await built(job, found)
    alone = job_in(tmp_path, out="reference")
    single.run_job(alone, Reporter(lambda line: None))
    assert looking.of_file(path) == looking.of_file(Path(alone.out) / "index.db")


async def built(job: Job, found: cluster.Cluster) -> Path:
    """Run it, and kill a worker once stages are under way."""
    path, killed = Path(), False
    async with aclosing(messages(job)) as said:
        async for message in said:
            if isinstance(message, Stage) and (message.name, message.state) == ("dead", "started"):
                found.kill(0)
                killed = True
            if isinstance(message, Built):
                path = Path(message.path)
    assert killed
    return path
