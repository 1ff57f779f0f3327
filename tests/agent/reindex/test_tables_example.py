"""The example and the notebook query with Spark what a rebuild wrote, and plot it."""

from __future__ import annotations

import json
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


def test_the_script_and_the_notebook_say_the_same(
    spark: SparkSession,
    archived: Archived,
    no_java: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The script as its first line says, with a Java of its own; the notebook in this session."""
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
    lines = done.stdout.splitlines()
    assert lines[:10] == most_followed(archived.tables)
    assert any(" people" in line for line in lines[10:])

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TABLES", str(archived.tables))
    monkeypatch.setenv("MPLBACKEND", "agg")
    monkeypatch.setattr(session, "open_session", lambda options: spark)
    cells = json.loads(NOTEBOOK.read_text("utf-8"))["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    names: dict[str, object] = {}
    exec("\n".join(code), names)
    assert capsys.readouterr().out == done.stdout
    assert sorted(names["overlap"].columns) == sorted(NAMES)
    for name in ("tables.png", "months.png", "relays.png"):
        assert (tmp_path / name).read_bytes().startswith(b"\x89PNG"), name


def most_followed(tables: Path) -> list[str]:
    """The first lines of both, counted in Python."""
    counted: dict[str, list[int]] = {}
    for row in pq.read_table(tables / "follows").to_pylist():
        counted.setdefault(row["followed"], [0, 0])[row["left_at"] is not None] += 1
    found = sorted((-n, key, gone) for key, (n, gone) in counted.items())
    return [f"{-n:>8} follow {key}, {gone} left" for n, key, gone in found[:10]]
