"""What files another file system has where an archive is said to be: what Spark will read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as f

from agent.reindex import inputs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def listed(spark: SparkSession, source: inputs.Input) -> list[inputs.Listed]:
    """The files of an input that are not of this machine; no byte of them is read.

    Raises InvalidInput for a file that cannot be read, and what Spark raises.
    """
    paths = inputs.elsewhere(source)
    if not paths:
        return []
    reader = spark.read.format("binaryFile").option("recursiveFileLookup", "true")
    about = reader.load(paths).select("path", "length", f.unix_micros("modificationTime"))
    found = [inputs.Listed(*row) for row in about.collect()]
    for one in found:
        inputs.refuse_packed(one.path)
    return found
