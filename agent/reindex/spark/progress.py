"""How far Spark is: its status tracker, asked twice a second beside the job."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from agent.reindex.reporter import INTERVAL_S

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from agent.reindex.reporter import Reporter


@contextmanager
def polled(spark: SparkSession, stage: str, reporter: Reporter) -> Iterator[None]:
    """Report tasks done and tasks in all of what runs, as long as the block lasts."""
    ended = threading.Event()
    thread = threading.Thread(target=_poll, args=(spark, stage, reporter, ended), daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(5.0)


def _poll(spark: SparkSession, stage: str, reporter: Reporter, ended: threading.Event) -> None:
    from py4j.protocol import Py4JError

    tracker = spark.sparkContext.statusTracker()
    while not ended.wait(INTERVAL_S):
        try:
            stages = [tracker.getStageInfo(number) for number in tracker.getActiveStageIds()]
        except (Py4JError, OSError):
            return  # Java has ended: whoever waits for the job will see why
        known = [one for one in stages if one is not None]
        if known:
            done, total = sum(s.numCompletedTasks for s in known), sum(s.numTasks for s in known)
            reporter.running(stage, done, total)
