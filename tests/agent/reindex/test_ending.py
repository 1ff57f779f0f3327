"""The end of a session that a signal met in the middle of a call to Java."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pytest

from agent.reindex.spark.ending import closed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Interrupted:
    """A session whose next call takes the answer of the one before, as py4j does it."""

    sparkContext = type("Context", (), {"_gateway": None})()

    def stop(self) -> None:
        raise KeyError("m")


def test_what_ended_the_block_is_what_is_told() -> None:
    with pytest.raises(KeyboardInterrupt), closed(cast("SparkSession", Interrupted())):
        raise KeyboardInterrupt
