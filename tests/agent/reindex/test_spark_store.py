"""A store that loses events while Spark reads its ranges: what was there at the end is counted."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from agent.reindex import inputs
from agent.reindex.spark.stages import Stages
from nostr_client.codecs.filters import Filter
from tests.agent.reindex import looking
from tests.agent.reindex.nasty import NOTE, fill, nasty, opened
from tests.agent.reindex.rebuilding import by_spark, job_of
from tests.agent.reindex.test_spark import by_reference

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from nostr_client.store.index.schema import IndexedState

pytestmark = pytest.mark.xdist_group("spark")


async def made(path: Path) -> None:
    async with await opened(path) as store:
        await fill(store, nasty())


async def thinned(path: Path) -> None:
    async with await opened(path) as store:
        assert await store.delete([Filter(tags={"#e": [NOTE]}, limit=20)])


def test_events_that_go_after_they_were_read_are_not_counted(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "store.db"
    asyncio.run(made(path))
    asked = Stages._removed

    def removed(stages: Stages, start: IndexedState) -> tuple[IndexedState, int | None]:
        helper = threading.Thread(target=lambda: asyncio.run(thinned(path)))
        helper.start()
        helper.join()
        return asked(stages, start)

    monkeypatch.setattr(Stages, "_removed", removed)
    job = job_of(inputs.Input(kind="store", paths=(str(path),)), tmp_path)
    heard = by_spark(spark, job)
    told = by_reference(job).built
    assert heard.built.statuses == told.statuses
    people = looking.people_of(path)
    ours = looking.of_file(Path(heard.built.path), people)
    assert looking.of_file(Path(told.path), people) == ours
