"""Ends what a rebuild by Spark has started: the session, Java, Python workers."""

from __future__ import annotations

import os
import signal
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

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
    """Ends the session and its Java with the block, whatever ends the block.

    Once the session has ended, all that Java would still do is to remove files of its own, which
    takes it a second: they are in a scratch folder, and go with that.
    """
    context: Any = spark.sparkContext
    java = getattr(context._gateway, "proc", None)
    try:
        yield
    finally:
        with suppress(*_MIXED_UP, PySparkException, Py4JError, OSError):
            spark.stop()
        if java is not None:
            java.kill()
            java.wait()


@contextmanager
def childless() -> Iterator[None]:
    """Kills what the block started and left: an interrupted start of Java, a stuck worker."""
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
