"""One statement of the rules for sets of events: the store's and Spark's answers are the same."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from nostr_client.store.base import SaveStatus
from nostr_client.store.tombstones import row_of, tombstones
from tests.agent.reindex.nasty import URLS, fill, nasty, opened
from tests.agent.reindex.rulings import drawn
from tests.conformance.store_events import NOW

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from nostr_client.codecs.event import Event


def stated(events: list[Event]) -> dict[str, str]:
    """What `store.tombstones` says of each event of a set."""
    rows = [row_of(event) for event in events]
    blocked = tombstones(lambda: rows, URLS, NOW)
    return {row.id.hex(): blocked.status(row).value for row in rows}


@pytest.mark.parametrize("seed", range(12))
async def test_a_store_that_takes_a_set_in_good_order_holds_what_is_stated(
    tmp_path: Path, seed: int
) -> None:
    events = drawn(seed, 150, 4)
    async with await opened(tmp_path / "s.db") as store:
        await fill(store, events)
        held = await store.held([event.id for event in events])
    said = stated(events)
    assert held == {id_ for id_, status in said.items() if status == SaveStatus.STORED}, (
        f"seed {seed}"
    )


def test_the_sets_have_every_status() -> None:
    statuses = Counter(s for seed in range(12) for s in stated(drawn(seed, 150, 4)).values())
    assert statuses.keys() == {status.value for status in SaveStatus} - {
        SaveStatus.DUPLICATE.value,
        SaveStatus.INVALID.value,
    }


@pytest.mark.xdist_group("spark")
def test_spark_says_of_each_event_what_is_stated(spark: SparkSession) -> None:
    """One set, as a run of Spark costs seconds: the nasty events, and those of twenty authors."""
    from agent.reindex.inputs import Settings
    from agent.reindex.spark.columns import batch
    from agent.reindex.spark.tombstones import judged, requests

    events = list({event.id: event for event in (*nasty(), *drawn(77, 900, 20))}.values())
    again = [*events, *events[:50]]
    rows = [(at, *row_of(event)[1:]) for at, event in enumerate(again)]
    frame = spark.createDataFrame(pa.Table.from_batches([batch(rows)]))
    settings = Settings(now=NOW, urls=URLS)
    asked = requests(frame, settings)
    told = judged(frame, asked, settings).select("id", "status").collect()
    assert len(told) == len(events)
    assert {bytes(id_).hex(): status for id_, status in told} == stated(events)
