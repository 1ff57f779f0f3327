"""Writes the tables of archives into a catalog that the session has, beside the Parquet files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.errors import AnalysisException

from nostr_client.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import SparkSession

OWN: Final = "spark_catalog"
"""The name of Spark's own catalog, which is in memory unless the session has a metastore."""


def check_kept(spark: SparkSession, namespace: str) -> None:
    """Raise InvalidInput if the tables of a namespace would end with the session."""
    setting, first = spark.conf.get, namespace.partition(".")[0]
    catalog = OWN if first == OWN else setting("spark.sql.defaultCatalog")
    if setting(f"spark.sql.catalog.{first}", None) is not None:
        catalog = first
    if catalog == OWN and setting("spark.sql.catalogImplementation") == "in-memory":
        raise InvalidInput(
            f"{namespace}: Spark's own catalog is in memory, and ends with the session: "
            "--conf spark.sql.catalogImplementation=hive, or name another catalog"
        )


def write_into(spark: SparkSession, namespace: str, folder: str, names: Iterable[str]) -> None:
    """Replace the tables `namespace.NAME` by the Parquet tables `folder/NAME`, in order.

    A catalog that can replaces each table at once. Spark's own cannot: it drops it before.
    """
    place = ".".join(map(_quoted, namespace.split(".")))
    spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {place}")
    for name in names:
        _replace(spark, f"{place}.{_quoted(name)}", f"{folder}/{name}")


def _replace(spark: SparkSession, table: str, path: str) -> None:
    writer = spark.read.parquet(path).writeTo(table)
    try:
        writer.createOrReplace()
    except AnalysisException as error:
        if not (error.getCondition() or "").startswith("UNSUPPORTED_FEATURE"):
            raise
        spark.sql(f"DROP TABLE IF EXISTS {table}")
        writer.create()


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"
