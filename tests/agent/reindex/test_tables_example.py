"""The example and the notebook query with Spark what a rebuild wrote, and plot it."""

from __future__ import annotations

import json
import os
import runpy
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

from agent.reindex.spark import session
from tests.agent.reindex.rebuilding import NAMES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.agent.reindex.rebuilding import Archived

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.timeout(600)]

ROOT = Path(__file__).parents[3]
SCRIPT = ROOT / "examples" / "spark_tables.py"
NOTEBOOK = ROOT / "examples" / "spark_tables.ipynb"
SHELL = ROOT / "examples" / "reindex_archive.sh"


@pytest.mark.long
def test_the_script_has_a_java_of_its_own(
    archived: Archived, no_java: dict[str, str], tmp_path: Path
) -> None:
    """As its first line says."""
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(archived.tables)],
        cwd=tmp_path,
        env=no_java | {"PYTHONPATH": str(ROOT), "MPLBACKEND": "agg"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[:10] == most_followed(archived.tables)


def test_the_script_and_the_notebook_say_the_same(
    spark: SparkSession,
    archived: Archived,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Both in this session."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TABLES", str(archived.tables))
    monkeypatch.setenv("MPLBACKEND", "agg")
    monkeypatch.setattr(session, "open_session", lambda options: spark)
    monkeypatch.setattr(sys, "argv", [str(SCRIPT), str(archived.tables)])
    runpy.run_path(str(SCRIPT), run_name="__main__")
    said = capsys.readouterr().out
    assert said.splitlines()[:10] == most_followed(archived.tables)
    assert any(" people" in line for line in said.splitlines()[10:])

    cells = json.loads(NOTEBOOK.read_text("utf-8"))["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    names: dict[str, object] = {}
    exec("\n".join(code), names)
    assert capsys.readouterr().out == said
    assert sorted(names["overlap"].columns) == sorted(NAMES)
    for name in ("tables.png", "months.png", "relays.png"):
        assert (tmp_path / name).read_bytes().startswith(b"\x89PNG"), name


def test_the_shell_script_rebuilds_and_prints_who_is_hot(
    archived: Archived, tmp_path: Path
) -> None:
    """The rebuild is that of all tests; `test_spark_child` has the script do it, which is long."""
    (tmp_path / "nostr-agent").symlink_to("/bin/echo")
    path = os.pathsep.join([str(tmp_path), str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        ["bash", str(SHELL), archived.job.out, "a.jsonl", "b.jsonl"],
        cwd=tmp_path,
        env=os.environ | {"PATH": path, "HOT": "3"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    asked, *lines = done.stdout.splitlines()
    assert asked == (
        f"reindex --jsonl a.jsonl --jsonl b.jsonl --out {archived.job.out} --engine spark"
        " --memory 4g --hot 3"
    )
    rows = pq.read_table(archived.tables / "hot").to_pylist()
    rows.sort(key=lambda row: (-row["authors"], row["value"]))
    assert [int(line.split()[0]) for line in lines] == [row["authors"] for row in rows[:10]]


def most_followed(tables: Path) -> list[str]:
    """The first lines of both, counted in Python."""
    counted: dict[str, list[int]] = {}
    for row in pq.read_table(tables / "follows").to_pylist():
        counted.setdefault(row["followed"], [0, 0])[row["left_at"] is not None] += 1
    found = sorted((-n, key, gone) for key, (n, gone) in counted.items())
    return [f"{-n:>8} follow {key}, {gone} left" for n, key, gone in found[:10]]
