"""The settings of Spark that the user chose stand; measured ones fill the rest."""

from __future__ import annotations

import contextlib
import os
import tempfile
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from agent.commands.reindex import reindex
from agent.reindex.inputs import Settings, archive
from agent.reindex.protocol import Job
from agent.reindex.reporter import Reporter
from agent.reindex.spark import job
from agent.reindex.spark.session import SparkOptions, settings_of

if TYPE_CHECKING:
    from pathlib import Path

    import click

DEFAULTS = """
# how this cluster is used
spark.driver.memory   6g
spark.eventLog.enabled=true
spark.sql.shuffle.partitions : 3
spark.driver.extraJavaOptions -Dx="a b" -Dy=c
spark.alone
"""


@pytest.fixture
def conf(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "spark-defaults.conf").write_text(DEFAULTS, "utf-8")
    return {"SPARK_CONF_DIR": str(tmp_path)}


def test_the_command_comes_before_the_file_and_the_file_before_us(conf: dict[str, str]) -> None:
    asked = (("spark.eventLog.enabled", "false"), ("spark.x", "a=b"))
    found = settings_of(SparkOptions(conf=asked), ["-Xours"], conf)
    assert found["spark.eventLog.enabled"] == "false"
    assert found["spark.driver.memory"] == "6g"
    assert found["spark.sql.shuffle.partitions"] == "3"
    assert found["spark.x"] == "a=b"
    assert found["spark.ui.enabled"] == "false"
    assert found["spark.driver.extraJavaOptions"] == '-Dx="a b" -Dy=c -Xours'
    assert "spark.alone" not in found


def test_an_option_of_the_command_comes_before_the_file(conf: dict[str, str]) -> None:
    found = settings_of(SparkOptions(memory="2g", master="local[3]"), [], conf)
    assert found["spark.driver.memory"] == "2g"
    assert found["spark.master"] == "local[3]"


@pytest.mark.parametrize("own", ["-XX:+UseZGC", "-Xa -XX:+UseG1GC"])
def test_java_gets_one_collector(own: str) -> None:
    asked = (("spark.driver.extraJavaOptions", own),)
    flags = ["-XX:+UseParallelGC", "-XX:AOTCache=x"]
    found = settings_of(SparkOptions(conf=asked), flags, {})
    assert found["spark.driver.extraJavaOptions"] == f"{own} -XX:AOTCache=x"


@pytest.mark.parametrize(
    ("master", "bound"), [("local[*]", True), ("spark://head:7077", False), ("yarn", False)]
)
def test_a_driver_that_workers_elsewhere_must_reach_is_not_bound(master: str, bound: bool) -> None:
    found = settings_of(SparkOptions(master=master), [], {})
    assert found["spark.master"] == master
    assert ("spark.driver.bindAddress" in found) is bound
    assert ("spark.driver.host" in found) is bound
    by_conf = settings_of(SparkOptions(conf=(("spark.master", master),)), [], {})
    assert ("spark.driver.host" in by_conf) is bound


@pytest.mark.parametrize("how", ["option", "setting"])
def test_a_server_of_spark_connect_gets_no_settings_of_a_java_here(how: str) -> None:
    url = "sc://head:15002"
    asked = {"master": url} if how == "option" else {"conf": (("spark.remote", url),)}
    found = settings_of(SparkOptions(**asked), [], {})
    assert found["spark.remote"] == url
    assert "spark.master" not in found
    assert not [name for name in found if name.startswith(("spark.driver", "spark.local"))]


def test_the_cache_of_the_callers_java_is_trained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A session names a Java of its own in the environment, and so another cache."""
    trained: list[dict[str, str]] = []
    monkeypatch.setenv("JAVA_HOME", "/the/callers")
    monkeypatch.setenv("TMPDIR", str(tmp_path))  # the job sets both for its process
    monkeypatch.setattr(tempfile, "tempdir", None)

    def in_session(*_: Any) -> None:
        os.environ["JAVA_HOME"] = "/of/the/session"

    monkeypatch.setattr(job, "_in_session", in_session)
    monkeypatch.setattr(job, "childless", contextlib.nullcontext)
    monkeypatch.setattr(job, "start_training", trained.append)
    (tmp_path / "a.jsonl").touch()
    job.run_job(
        Job(
            source=archive("jsonl", [str(tmp_path / "a.jsonl")]),
            settings=Settings(now=0),
            engine="spark",
            work=str(tmp_path),
            out=str(tmp_path / "out"),
        ),
        Reporter(lambda line: None),
    )
    assert [one["JAVA_HOME"] for one in trained] == ["/the/callers"]


@pytest.mark.parametrize("text", ["spark.x", "x=1", "=", "spark.x.y"])
def test_what_is_no_setting_is_refused(text: str) -> None:
    command: click.Command = reindex
    done = CliRunner().invoke(command, ["--conf", text])
    assert done.exit_code == 2
    assert "must be spark.NAME=VALUE" in done.output
