"""The tables of archives in a catalog: Spark's own, in memory here, and of Hive's metastore."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from agent.commands.reindex import reindex
from agent.reindex import run
from agent.reindex.parquet import COLUMNS
from agent.reindex.spark import catalog
from agent.reindex.spark.queries import ANALYSTS
from nostr_client.errors import InvalidInput
from tests.agent.reindex.nasty import nasty, write_archive
from tests.agent.reindex.rebuilding import by_spark
from tests.agent.reindex.test_spark_child import job_in

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import click
    from pyspark.sql import SparkSession

    from tests.agent.reindex.rebuilding import Archived

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.timeout(600)]


@pytest.fixture
def namespace(spark: SparkSession) -> Iterator[str]:
    yield "from_an_archive"
    spark.sql("DROP NAMESPACE IF EXISTS from_an_archive CASCADE")


def test_each_run_replaces_the_tables(
    spark: SparkSession, archived: Archived, namespace: str
) -> None:
    names = (*COLUMNS, *ANALYSTS, "about")
    folder = str(archived.tables)
    catalog.write_into(spark, namespace, folder, ["zaps"])
    catalog.write_into(spark, namespace, folder, names)
    listed = spark.sql(f"SHOW TABLES IN {namespace}").collect()
    assert {row.tableName for row in listed if not row.isTemporary} == set(names)
    for name in names:
        ours = spark.table(f"{namespace}.{name}")
        theirs = spark.read.parquet(f"{folder}/{name}")
        assert ours.schema == theirs.schema
        assert ours.count() == theirs.count() > 0, name
    zaps = spark.table(f"{namespace}.zaps")
    assert zaps.exceptAll(spark.read.parquet(f"{folder}/zaps")).count() == 0


def test_a_catalog_in_memory_is_refused_before_any_stage(
    spark: SparkSession, archived: Archived
) -> None:
    for name in ("nostr", "spark_catalog.nostr", "a.b"):
        with pytest.raises(InvalidInput, match="in memory"):
            by_spark(spark, msgspec.structs.replace(archived.job, catalog=name))
    spark.conf.set("spark.sql.catalog.lake", "org.example.Lake")
    try:
        catalog.check_kept(spark, "lake.nostr")
        spark.conf.set("spark.sql.defaultCatalog", "lake")
        catalog.check_kept(spark, "nostr")
        with pytest.raises(InvalidInput, match="in memory"):
            catalog.check_kept(spark, "spark_catalog.nostr")
    finally:
        spark.conf.unset("spark.sql.catalog.lake")
        spark.conf.unset("spark.sql.defaultCatalog")


@pytest.mark.long
async def test_the_tables_of_hives_metastore_outlive_the_run(tmp_path: Path) -> None:
    warehouse, metastore = tmp_path / "warehouse", tmp_path / "metastore"
    job = msgspec.structs.replace(
        job_in(tmp_path),
        catalog="nostr",
        conf=(
            ("spark.sql.catalogImplementation", "hive"),
            ("spark.sql.warehouse.dir", str(warehouse)),
            (
                "spark.hadoop.javax.jdo.option.ConnectionURL",
                f"jdbc:derby:;databaseName={metastore};create=true",
            ),
        ),
    )
    result = await run.build(job, "a test", lambda message: None)
    found = {place.name: pq.read_table(place).num_rows for place in warehouse.glob("nostr.db/*")}
    assert found.keys() == {*COLUMNS, *ANALYSTS, "about"}
    for name in ANALYSTS:
        assert found[name] == result.built.rows[name], name


def test_only_spark_writes_archives_into_a_catalog(tmp_path: Path) -> None:
    command: click.Command = reindex
    archive = str(write_archive(tmp_path / "a.jsonl", nasty()[:1]))
    plain = ["--jsonl", archive, "--out", str(tmp_path / "out"), "--engine", "reference"]
    for words, why in (
        ([*plain, "--catalog", "nostr"], "only Spark writes into a catalog"),
        (["--catalog", "nostr"], "--catalog is for archives"),
    ):
        done = CliRunner().invoke(command, words)
        assert done.exit_code != 0
        assert why in f"{done.output}{done.exception}"
