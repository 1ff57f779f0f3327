"""One small run of what a rebuild does, from which Java learns its classes: `-m … FILE`."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from agent.reindex import jvm

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql import SparkSession


def main(file: str) -> None:
    """Start, shuffle, read and write Parquet, pass Arrow to Python, end."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    for key, value in {
        "spark.driver.memory": "1g",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
        # A rebuild picks its collector too; a cache that was trained with another fits as well.
        "spark.driver.extraJavaOptions": f"-XX:+UseParallelGC {jvm.training_flags(Path(file))}",
    }.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    with tempfile.TemporaryDirectory() as folder:
        exercise(session, Path(folder))
    session.stop()


def exercise(session: SparkSession, folder: Path) -> int:
    """A shuffle, Parquet both ways, Arrow through Python; the rows that came out."""
    from pyspark.sql import functions as f

    numbers = session.range(20_000).withColumn("k", f.col("id") % 10)
    grouped = numbers.groupBy("k").agg(f.count("*").alias("n"), f.max("id").alias("most"))
    grouped.write.mode("overwrite").parquet(str(folder / "grouped"))
    back = session.read.parquet(str(folder / "grouped"))
    joined = numbers.join(back, "k").mapInArrow(_pass, "id long, k long, n long, most long")
    return joined.select("id").distinct().count()


def _pass(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


if __name__ == "__main__":
    main(sys.argv[1])
