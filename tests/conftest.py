"""What every test shares: the folder of shared data, and how a missing tool is treated."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from tests import leaks, systems

SHARED = Path(os.environ.get("NOSTR_TALLY_SHARED", Path(__file__).parents[2] / "shared"))
WITHOUT_SHARED = str(SHARED) == "none"
"""Whether this run has no shared data on purpose: GitHub has the repository alone."""

IN_CI = os.environ.get("CI", "") not in ("", "false", "0")

PROXIES = ("ALL_PROXY", "HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY")
UNSET = (
    *("PYTHONUNBUFFERED", "FORCE_COLOR", "COLUMNS", "LINES"),
    *PROXIES,
    *(name.lower() for name in PROXIES),
)
"""What tests and programs that they start must not have of this machine: how they print and what
they connect to depends on it."""

for _name in UNSET:
    os.environ.pop(_name, None)

# How long an example took, and how long it took to make one, is no fault of the code: a loaded
# machine is ten times slower.
hypothesis.settings.register_profile(
    "tests", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("tests")


def pytest_configure(config: pytest.Config) -> None:
    """Every run looks for secrets in what it prints, and has a folder for state of its own.

    There commands note what public relays were asked; nobody's own budgets are touched.
    """
    config.pluginmanager.register(leaks, "leaks")
    folder = tempfile.mkdtemp(prefix="nostr-tally-state-")
    os.environ["XDG_STATE_HOME"] = folder
    os.environ["NOSTR_TALLY_JVM_TRAIN"] = "no"  # it would go on in the background after a rebuild
    config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))


FIRST = (
    "spark",
    "tests/tui/test_actions.py",
    "tests/test_bench_smoke.py",
    "tests/docs/test_pages.py",
    "tests/tui/test_cut.py",
    "tests/agent/service/test_schemathesis.py",
    "tests/agent/service/test_coverages.py",
    "tests/tui/test_states.py",
    "tests/tui/test_pages.py",
    "tests/tui/test_results.py",
)
"""Groups that take longest, the longest first: else one process would be alone with one at the end.
xdist would begin with the groups of most tests, which are the shortest here."""


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """One process runs a whole file, as its fixtures are made once; a file may name a larger group.

    For that it sets `pytestmark = pytest.mark.xdist_group("name")`.
    """
    for item in items:
        if item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(item.location[0]))
    if hasattr(config, "workerinput"):
        places = {group: place for place, group in enumerate(FIRST)}
        items.sort(key=lambda item: places.get(group_of(item), len(FIRST)))


def group_of(item: pytest.Item) -> str:
    """The group that one process runs."""
    mark = item.get_closest_marker("xdist_group")
    return str(mark.args[0]) if mark else ""


def pytest_pycollect_makemodule(
    module_path: Path, parent: pytest.Collector
) -> pytest.Module | None:
    """Skip a module that this system cannot run, before it is imported."""
    lacking = systems.lacking(module_path)
    if not lacking:
        return None
    module = NotHere.from_parent(parent, path=module_path)
    module.lacking = lacking
    return module


class NotHere(pytest.Module):
    """A module of tests that use what this system does not have."""

    lacking: tuple[str, ...] = ()

    def collect(self) -> list[pytest.Item]:
        what = ", ".join(self.lacking)
        reason = f"{self.path.name}: {systems.SYSTEM} does not have {what}"
        raise pytest.skip.Exception(reason, allow_module_level=True)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test with the mark `posix` on Windows."""
    mark = item.get_closest_marker("posix")
    if mark is not None and systems.SYSTEM == "win32":
        pytest.skip(f"{item.name}: win32 does not have {mark.args[0]}")


def missing(what: str) -> None:
    """Skip with the reason on a person's machine, fail where CI promises to have everything.

    It promises that on Linux; other systems lack tools that the tests use.
    """
    if IN_CI and systems.SYSTEM == "linux":
        pytest.fail(f"CI must have {what}", pytrace=False)
    pytest.skip(f"{what} is not here")


def missing_shared(name: str) -> None:
    """Skip a test of shared data that is not here; fail in a CI that has not renounced the data."""
    if WITHOUT_SHARED:
        pytest.skip(f"{name} is not here, as NOSTR_TALLY_SHARED is none")
    missing(str(SHARED / name))


def shared_path(name: str) -> Path:
    """A file of the shared folder; where it is absent as `missing_shared`."""
    path = SHARED / name
    if not path.exists():
        missing_shared(name)
    return path


def load_cases(name: str) -> Any:
    """A JSON file of `data/`, read at collection time; None where the folder is absent."""
    path = SHARED / "data" / name
    return json.loads(path.read_text("utf-8")) if path.exists() else None


def require_tool(name: str) -> str:
    """The path of a program, or a skip (a failure in CI) where it is not installed."""
    path = shutil.which(name)
    if path is None:
        missing(name)
        raise AssertionError  # missing() never returns
    return path


@pytest.fixture(scope="session")
def no_java(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """An environment in which no Java is installed: no JAVA_HOME, and a PATH without one."""
    tools = tmp_path_factory.mktemp("tools")
    for folder in os.environ["PATH"].split(os.pathsep):
        if not os.path.isdir(folder):
            continue
        for name in os.listdir(folder):
            if name not in ("java", "javac") and not (tools / name).exists():
                (tools / name).symlink_to(os.path.join(folder, name))
    return {k: v for k, v in os.environ.items() if k != "JAVA_HOME"} | {"PATH": str(tools)}
