"""What `make spark-dist` packs is all that workers with a bare Python need."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pyspark
import pytest

from agent.reindex import inputs, single
from agent.reindex.inputs import Settings
from agent.reindex.protocol import Job
from agent.reindex.reporter import Reporter
from agent.reindex.spark import submit
from tests.agent.reindex import cluster, looking
from tests.agent.reindex.nasty import HOT, NOW, nasty, write_archive
from tests.conftest import require_tool

ROOT = Path(__file__).parents[3]

pytestmark = [pytest.mark.long, pytest.mark.timeout(1200)]


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    require_tool(f"python3.{sys.version_info.minor}")
    file = tmp_path_factory.mktemp("dist") / "env.tar.gz"
    subprocess.run([ROOT / "scripts" / "spark-dist", file, sys.executable], check=True)
    return file


def test_a_bare_python_has_what_a_worker_needs(packed: Path, tmp_path: Path) -> None:
    with tarfile.open(packed) as archive:
        archive.extractall(tmp_path, filter="tar")
    code = "import agent.reindex.event_rows, coincurve, msgspec, numpy, pandas, pyarrow"
    bare = {"PATH": os.environ["PATH"]}
    subprocess.run([tmp_path / "bin" / "python", "-c", code], env=bare, check=True, cwd=tmp_path)


def bare_python(folder: Path) -> dict[str, str]:
    """An environment whose Python has its own library and no package at all."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    bare = {"PATH": os.pathsep.join((str(folder / "bin"), "/usr/bin", "/bin")), "PYTHONPATH": ""}
    code = "import importlib.util as u; print([u.find_spec(n) for n in ('agent', 'numpy', 'py4j')])"
    command = [f"python3.{sys.version_info.minor}", "-c", code]
    found = subprocess.run(command, env=bare, cwd=folder, capture_output=True, check=True)
    assert found.stdout.strip() == b"[None, None, None]"
    return bare


def test_spark_submit_with_the_packed_environment(packed: Path, tmp_path: Path) -> None:
    """Workers whose own Python is bare take all from the packed file."""
    archive = write_archive(tmp_path / "a.jsonl", nasty())
    out = tmp_path / "out"
    bare = bare_python(tmp_path / "bare")
    with cluster.running(tmp_path, environ=bare) as found:
        spark = Path(pyspark.__file__).parent
        command = [str(spark / "bin" / "spark-submit"), "--master", found.url]
        command += ["--archives", f"{packed}#env", "--executor-memory", "512m"]
        for key, value in {
            "spark.pyspark.python": "./env/bin/python",
            "spark.pyspark.driver.python": sys.executable,
            "spark.driver.host": "127.0.0.1",
            "spark.ui.enabled": "false",
        }.items():
            command += ["--conf", f"{key}={value}"]
        command += [str(Path(submit.__file__)), "--jsonl", archive.as_uri(), "--out", out.as_uri()]
        command += ["--partitions", "2", "--hot", str(HOT), "--now", str(NOW)]
        environment = cluster.environment() | {"PYTHONPATH": str(ROOT)}
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=900, check=False
        )
    assert done.returncode == 0, done.stderr[-3000:]
    built = json.loads(done.stdout.splitlines()[-1])
    job = Job(
        source=inputs.archive("jsonl", [str(archive)]),
        settings=Settings(now=NOW, hot=HOT),
        engine="reference",
        work=str(tmp_path / "alone" / "work"),
        out=str(tmp_path / "alone"),
    )
    single.run_job(job, Reporter(lambda line: None))
    alone = looking.of_file(tmp_path / "alone" / "index.db")
    assert {name: built["rows"][name] for name in alone} == {k: len(v) for k, v in alone.items()}
    for table in ("hot", "daily", "zap"):
        assert list((out / "tables" / table).glob("*.parquet"))
