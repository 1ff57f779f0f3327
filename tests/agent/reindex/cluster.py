"""A real Spark cluster in small: a master and workers as processes of their own on loopback."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

import pyspark

from agent.reindex import jvm
from agent.reindex.reporter import tree

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

STARTUP_S = 240.0
LIGHT = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xmx256m"
"""Options of Java for daemons that do nothing but talk."""


class Cluster:
    """Processes of one cluster; `url` is what `--master` takes."""

    def __init__(self, folder: Path, environ: Mapping[str, str]) -> None:
        self._folder = folder
        self._environment = environment() | environ | {"SPARK_LOCAL_DIRS": str(folder / "local")}
        own = f"-Djava.io.tmpdir={folder} -XX:-UsePerfData"
        self._environment["SPARK_DAEMON_JAVA_OPTS"] += f" {own}"
        self.url = ""
        self.workers: list[subprocess.Popen[bytes]] = []
        self.master: subprocess.Popen[bytes] | None = None

    def start(self, workers: int) -> None:
        address = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
        self.master = self._daemon("master.Master", "master", address)
        self.url = self._told("master", r"Starting Spark master at (spark://\S+)")
        for number in range(workers):
            work = self._folder / f"work{number}"
            about = ["--cores", "1", "--memory", "1g", "--work-dir", str(work)]
            name = f"worker{number}"
            self.workers.append(self._daemon("worker.Worker", name, [*address, *about, self.url]))
        for number in range(workers):
            self._told(f"worker{number}", "Successfully registered with master")

    def kill(self, number: int) -> None:
        """A worker and its executor, at once and without a word."""
        for pid in reversed(tree(self.workers[number].pid)):
            os.kill(pid, signal.SIGKILL)

    def stop(self) -> None:
        for one in [*self.workers, *([self.master] if self.master else [])]:
            for pid in reversed(tree(one.pid)):
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue
            one.wait(30)

    def _daemon(self, kind: str, name: str, arguments: list[str]) -> subprocess.Popen[bytes]:
        spark = Path(pyspark.__file__).parent
        command = [str(spark / "bin" / "spark-class"), f"org.apache.spark.deploy.{kind}"]
        with (self._folder / f"{name}.log").open("wb") as log:
            return subprocess.Popen(
                [*command, *arguments],
                env=self._environment | {"SPARK_HOME": str(spark)},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def _told(self, name: str, pattern: str) -> str:
        """Wait until a daemon has said something; what it said."""
        end = time.monotonic() + STARTUP_S
        path = self._folder / f"{name}.log"
        while time.monotonic() < end:
            text = path.read_text("utf-8", "replace")
            found = re.search(pattern, text)
            if found:
                return found[found.re.groups]
            threading.Event().wait(0.2)
        raise AssertionError(f"{name} did not start: {text[-2000:]}")


def environment() -> dict[str, str]:
    """What a daemon needs: the Java that Spark runs on, and loopback alone."""
    home = jvm.home_for_spark(jvm.find({"PATH": ""}), jvm.cache_folder(os.environ))
    return os.environ | {
        "JAVA_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_NO_DAEMONIZE": "1",
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": LIGHT.rpartition(" ")[0],
    }


@contextmanager
def running(
    folder: Path, workers: int = 2, environ: Mapping[str, str] = MappingProxyType({})
) -> Iterator[Cluster]:
    """A cluster for as long as the block runs; `environ` is what its machines have."""
    found = Cluster(folder, environ)
    try:
        found.start(workers)
        yield found
    finally:
        found.stop()
