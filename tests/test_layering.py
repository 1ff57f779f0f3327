"""The layering contracts hold, and catch what they are there to catch."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
import tomllib
from graphlib import TopologicalSorter
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("nostr_client", "agent", "tui")
LINT = Path(sys.executable).with_name("lint-imports")


def lint(root: Path) -> subprocess.CompletedProcess[str]:
    env = os.environ | {"PYTHONPATH": str(root)}
    command = [str(LINT), "--no-cache", "--config", str(root / "pyproject.toml")]
    return subprocess.run(
        command, cwd=root, env=env, capture_output=True, text=True, timeout=60, check=False
    )


def copy_tree(target: Path) -> None:
    for package in PACKAGES:
        shutil.copytree(ROOT / package, target / package)
    shutil.copy(ROOT / "pyproject.toml", target)


def test_contracts_hold() -> None:
    result = lint(ROOT)
    assert result.returncode == 0, result.stdout


def test_no_modules_import_each_other_in_a_circle_not_even_for_types() -> None:
    graph = grimp.build_graph(*PACKAGES, cache_dir=None)
    imports = {one: graph.find_modules_directly_imported_by(one) - {one} for one in graph.modules}
    TopologicalSorter(imports).prepare()  # raises CycleError, which names the circle


def test_no_class_name_is_defined_twice() -> None:
    """One class name, one meaning: a reader who sees a name knows which class it is."""
    defined: dict[str, list[str]] = {}
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    defined.setdefault(node.name, []).append(str(path.relative_to(ROOT)))
    assert "NostrClient" in defined
    assert {name: places for name, places in defined.items() if len(places) > 1} == {}


VIOLATIONS = [
    ("nostr_client/errors/__init__.py", "import agent", "errors -> agent"),
    (
        "nostr_client/hll/registers.py",
        "import nostr_client.codecs.keys",
        "registers -> nostr_client.codecs.keys",
    ),
    (
        "nostr_client/store/base.py",
        "import nostr_client.network.relay",
        "base -> nostr_client.network.relay",
    ),
    ("nostr_client/network/pool.py", "import nostr_client.store", "pool -> nostr_client.store"),
    ("nostr_client/network/relay.py", "import aiohttp", "relay -> aiohttp"),
    ("nostr_client/counters/rules.py", "import nats", "rules -> nats"),
    ("agent/reindex/jvm.py", "import pyspark", "jvm -> pyspark"),
    ("tui/__init__.py", "import sqlite3", "tui -> sqlite3"),
    ("tui/host.py", "if TYPE_CHECKING:\n    import tui.pages.watch", "host -> tui.pages.watch"),
]


@pytest.mark.parametrize(("file", "line", "told"), VIOLATIONS, ids=lambda one: str(one)[:40])
def test_a_deliberate_violation_is_caught(file: str, line: str, told: str, tmp_path: Path) -> None:
    copy_tree(tmp_path)
    broken = tmp_path / file
    broken.write_text(broken.read_text("utf-8") + f"\n{line}\n", "utf-8")
    result = lint(tmp_path)
    assert result.returncode == 1
    assert told in result.stdout


def test_every_module_of_the_sdk_has_a_layer() -> None:
    """A module that no contract names could import whatever it likes."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    contracts = project["tool"]["importlinter"]["contracts"]
    (layers,) = [one["layers"] for one in contracts if one["id"] == "sdk-layers"]
    placed = set(re.findall(r"nostr_client\.(\w+)", " ".join(layers)))
    files = [path.relative_to(ROOT / "nostr_client") for path in ROOT.glob("nostr_client/**/*.py")]
    modules = {path.parts[0].removesuffix(".py") for path in files} - {"errors"}
    assert {one for one in modules if not one.startswith("_")} <= placed
