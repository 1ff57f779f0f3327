"""Ends what a rebuild by Spark has started: the session, Java, Python workers."""

from __future__ import annotations

import os
import signal
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from agent.reindex.reporter import tree

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

_MIXED_UP: Final = (AttributeError, LookupError, TypeError, ValueError)
"""What py4j raises after an interrupted call, whose answer the next call reads."""


@contextmanager
def closed(spark: SparkSession) -> Iterator[None]:
    """Ends the session with the block, whatever ends the block."""
    try:
        yield
    finally:
        with suppress(*_MIXED_UP, PySparkException, Py4JError, OSError):
            spark.stop()


@contextmanager
def childless() -> Iterator[None]:
    """Kills what the block started and left: an interrupted start of Java, a stuck worker.

    A Java whose session has ended would only remove its own files, which takes it a second.
    """
    before = set(tree())
    try:
        yield
    finally:
        left = set(tree()) - before
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for pid in left:
            with suppress(ChildProcessError):
                os.waitpid(pid, 0)
