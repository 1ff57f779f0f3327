"""`.github` and the pre-commit hooks: actionlint, forms that ask, pinned rights, real targets."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conftest import missing
from tests.peers.install import CACHE, install, installing

ROOT = Path(__file__).parents[1]
GITHUB = ROOT / ".github"
WORKFLOWS = sorted((GITHUB / "workflows").glob("*.yml"))
FORMS = [path for path in (GITHUB / "ISSUE_TEMPLATE").glob("*.yml") if path.stem != "config"]
ACTIONLINT = "github.com/rhysd/actionlint/cmd/actionlint@v1.7.12"


@functools.cache
def actionlint() -> str:
    """actionlint: on the PATH, or made once by Go; skips (fails in CI) where neither is."""
    if here := shutil.which("actionlint"):
        return here
    go = shutil.which("go")
    if go is None:
        missing("actionlint, or Go")
    folder = CACHE / "actionlint-1.7.12"
    with installing(folder) as needed:
        if needed:
            install(["env", f"GOBIN={folder}", str(go), "install", ACTIONLINT], folder)
    return str(folder / "actionlint")


def read(path: Path) -> Any:
    return yaml.safe_load(path.read_text("utf-8"))


def test_actionlint_finds_nothing_wrong() -> None:
    done = subprocess.run(
        [actionlint(), "-no-color", *map(str, WORKFLOWS)],
        cwd=ROOT, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    assert len(WORKFLOWS) >= 3


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_rights_are_few_and_every_job_ends(path: Path) -> None:
    workflow = read(path)
    assert workflow["permissions"] == {"contents": "read"}
    for name, job in workflow["jobs"].items():
        assert job["timeout-minutes"] <= 60, name
        for step in job["steps"]:
            if str(step.get("uses", "")).startswith("actions/checkout"):
                assert step["with"]["persist-credentials"] is False


def test_every_python_that_we_name_is_in_the_matrix() -> None:
    matrix = read(GITHUB / "workflows/ci.yml")["jobs"]["systems"]["strategy"]["matrix"]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    prefix = "Programming Language :: Python :: "
    named = [one.removeprefix(prefix) for one in project["classifiers"] if one.startswith(prefix)]
    assert sorted({*matrix["python"], *(one["python"] for one in matrix["include"])}) == named
    assert {one.partition("-")[0] for one in matrix["os"]} == {"ubuntu", "macos", "windows"}


def test_each_system_runs_the_commands_of_contributors() -> None:
    (job,) = read(GITHUB / "workflows/ci.yml")["jobs"].values()
    commands = [step["run"] for step in job["steps"] if "run" in step]
    assert {one.split()[-1] for one in commands} == {".ci/run"}
    script = (ROOT / ".ci/run").read_text("utf-8")
    assert script.endswith("\nmake check\nmake test\n")


def ci_run(folder: Path, shared: str) -> subprocess.CompletedProcess[str]:
    """What `.ci/run` prints where it finds no program but `dirname`, which its first line needs."""
    needed = shutil.which("dirname")
    assert needed is not None
    tools = folder / "tools"
    tools.mkdir(exist_ok=True)
    if not (tools / "dirname").exists():
        (tools / "dirname").symlink_to(needed)
    return subprocess.run(
        ["/bin/bash", ".ci/run"], cwd=ROOT, env={"PATH": str(tools), "NOSTR_TALLY_SHARED": shared},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


@pytest.mark.posix("a path of bash")
def test_ci_without_the_shared_data_says_so_in_one_line(tmp_path: Path) -> None:
    """GitHub does not have the data and says so; another runner may not forget it."""
    workflow = read(GITHUB / "workflows/ci.yml")
    assert workflow["env"] == {"NOSTR_TALLY_SHARED": "none"}
    steps = workflow["jobs"]["systems"]["steps"]
    (linux,) = (one["run"] for one in steps if "sudo" in one.get("run", ""))
    assert "NOSTR_TALLY_SHARED" in linux, "sudo passes nothing on"
    forgotten = ci_run(tmp_path, str(tmp_path / "absent"))
    assert forgotten.returncode == 2
    assert forgotten.stderr.count("\n") == 1
    assert "set NOSTR_TALLY_SHARED" in forgotten.stderr
    assert ci_run(tmp_path, "none").stderr.startswith("without the shared data")


@pytest.mark.parametrize(
    ("shared", "code", "said"),
    [("none", 0, "SKIPPED .*NOSTR_TALLY_SHARED is none"), ("absent", 1, "CI must have absent/")],
)
def test_a_test_of_the_shared_data_is_skipped_only_where_ci_renounces_the_data(
    shared: str, code: int, said: str
) -> None:
    file = "tests/unit/test_hll_json.py"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", file],
        cwd=ROOT,
        env=os.environ
        | {"CI": "true", "NOSTR_TALLY_SHARED": shared, "NOSTR_TALLY_TEST_SYSTEM": "linux"},
        capture_output=True, text=True, timeout=200, check=False,
    )  # fmt: skip
    assert done.returncode == code, done.stdout
    assert re.search(said, done.stdout), done.stdout


def test_make_names_no_folder_that_one_system_lacks() -> None:
    """Programs of an environment are in `bin`, and on Windows in `Scripts`."""
    recipes = (ROOT / "Makefile").read_text("utf-8").replace("$(PY)", "$(BIN)/python")
    for target in ("setup", "$(STAMP)", "test", "test-long", "check"):
        (recipe,) = re.findall(rf"^{re.escape(target)}:.*\n((?:\t.*\n)*)", recipes, re.MULTILINE)
        assert "/bin/" not in recipe, target
    done = subprocess.run(
        ["make", "-n", "check", "OS=Windows_NT"],
        cwd=ROOT, capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert ".venv/Scripts/mypy" in done.stdout


def test_a_release_is_published_without_a_stored_secret() -> None:
    text = (GITHUB / "workflows/release.yml").read_text("utf-8")
    assert "secrets." not in text
    jobs = read(GITHUB / "workflows/release.yml")["jobs"]
    assert jobs["publish"]["permissions"] == {"id-token": "write"}
    used = [str(step.get("uses", "")).partition("@")[0] for step in jobs["build"]["steps"]]
    assert {"actions/attest-build-provenance", "actions/attest-sbom"} <= set(used)


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.stem)
def test_forms_ask_for_what_helps(path: Path) -> None:
    form = read(path)
    assert {"name", "description", "body"} <= set(form)
    ids = [one["id"] for one in form["body"]]
    assert len(ids) == len(set(ids))
    assert {"relay", "version"} <= set(ids)
    assert all(one["attributes"]["label"] for one in form["body"])


def test_dependabot_watches_what_is_pinned() -> None:
    updates = read(GITHUB / "dependabot.yml")["updates"]
    assert {one["package-ecosystem"] for one in updates} == {"pip", "github-actions", "docker"}
    for one in updates:
        assert one["directory"] == "/"


def test_the_hooks_are_programs_that_the_environment_has() -> None:
    (repo,) = read(ROOT / ".pre-commit-config.yaml")["repos"]
    checks = (ROOT / "Makefile").read_text("utf-8")
    for hook in repo["hooks"]:
        program = hook["entry"].split()[0].removeprefix(".venv/bin/")
        assert f"$(BIN)/{program}" in checks
        assert os.access(ROOT / ".venv/bin" / program, os.X_OK) or not (ROOT / ".venv").exists()
