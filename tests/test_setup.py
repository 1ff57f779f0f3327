"""Setting up on machines that are not as one would wish."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.conftest import require_tool

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parents[1]
SCRIPT = ROOT / "scripts" / "setup-venv"


def test_a_python_of_another_age_is_one_clear_line(tmp_path: Path) -> None:
    bash = shutil.which("bash")
    assert bash is not None
    old = tmp_path / "python3"
    old.write_text(f"#!{bash}\nexit 1\n", "utf-8")
    old.chmod(0o755)
    done = subprocess.run(
        [bash, str(SCRIPT), str(tmp_path / "venv"), str(old)],
        env={"PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "no Python 3.11 to 3.15" in done.stderr


BACKEND = """
import os, zipfile

FILES = {
    "small.py": "",
    "small-1.0.dist-info/METADATA": "Metadata-Version: 2.1\\nName: small\\nVersion: 1.0\\n",
    "small-1.0.dist-info/WHEEL": "Wheel-Version: 1.0\\nTag: py3-none-any\\n",
}
FILES["small-1.0.dist-info/RECORD"] = "".join(f"{name},,\\n" for name in FILES)

def build_editable(folder, config_settings=None, metadata_directory=None):
    if os.environ.get("INTERRUPTED"):
        raise SystemExit(1)
    name = "small-1.0-py3-none-any.whl"
    with zipfile.ZipFile(os.path.join(folder, name), "w") as wheel:
        for path, text in FILES.items():
            wheel.writestr(path, text)
    return name
"""

PROJECT = """
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]
[project]
name = "small"
version = "1.0"
"""


class Checkout:
    """A project that needs nothing from a registry, and its environment in `.venv`."""

    def __init__(self, folder: Path, tool: str) -> None:
        self._folder = folder
        self.venv = folder / ".venv"
        (folder / "backend.py").write_text(BACKEND, "utf-8")
        (folder / "pyproject.toml").write_text(PROJECT, "utf-8")
        (folder / "requirements.lock").touch()
        if tool == "uv":
            require_tool(tool)
        self._environment = os.environ | {"UV_OFFLINE": "1", "PIP_NO_INDEX": "1"}
        if tool == "pip":
            self._environment["PATH"] = str(without_uv(folder / "tools"))

    def set_up(self, **more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(SCRIPT), ".venv", os.path.realpath(sys.executable)],
            cwd=self._folder, env=self._environment | more,
            capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip

    @property
    def is_whole(self) -> bool:
        python = self.venv / "bin" / "python"
        works = subprocess.run([python, "-c", "import small"], check=False).returncode == 0
        return works and not (self.venv / ".unfinished").exists()


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path, "uv")


def without_uv(folder: Path) -> Path:
    """A new folder for PATH with what the script calls, but uv."""
    folder.mkdir()
    for name in ("bash", "ls", "mkdir", "rm"):
        (folder / name).symlink_to(require_tool(name))
    return folder


def upgraded_system(venv: Path) -> None:
    for name in ("python", "python3"):
        (venv / "bin" / name).unlink(missing_ok=True)
        (venv / "bin" / name).symlink_to("/nothing/python")


def lost_configuration(venv: Path) -> None:
    """The interpreter then works outside the environment, on the system's packages."""
    (venv / "pyvenv.cfg").unlink()


def begun(venv: Path) -> None:
    shutil.rmtree(venv)
    (venv / "lib").mkdir(parents=True)
    (venv / ".unfinished").touch()


def only_a_folder(venv: Path) -> None:
    shutil.rmtree(venv)
    venv.mkdir()


BREAKS = [upgraded_system, lost_configuration, begun, only_a_folder]


def test_an_interrupted_setup_begins_again(checkout: Checkout) -> None:
    assert checkout.set_up(INTERRUPTED="yes").returncode != 0
    assert (checkout.venv / ".unfinished").exists()
    done = checkout.set_up()
    assert done.returncode == 0, done.stderr
    assert ".venv is broken or unfinished: making it again\n" in done.stderr
    assert checkout.is_whole


@pytest.mark.parametrize("destroy", BREAKS)
def test_a_broken_environment_is_made_again_and_a_whole_one_stays(
    checkout: Checkout, destroy: Callable[[Path], None]
) -> None:
    assert checkout.set_up().returncode == 0
    mark = checkout.venv / "mine"
    mark.touch()
    assert checkout.set_up(INTERRUPTED="yes").returncode != 0
    assert checkout.is_whole, "an update that fails harms nothing"
    again = checkout.set_up()
    assert (again.returncode, "making it again" in again.stderr) == (0, False)
    assert mark.exists()
    destroy(checkout.venv)
    done = checkout.set_up()
    assert done.returncode == 0, done.stderr
    assert checkout.is_whole
    assert not mark.exists()


def test_without_uv_an_environment_needs_pip(tmp_path: Path) -> None:
    """As after uv made the environment, or an interruption before pip was there."""
    checkout = Checkout(tmp_path, "pip")
    python = os.path.realpath(sys.executable)
    subprocess.run([python, "-m", "venv", "--without-pip", checkout.venv], check=True, timeout=60)
    done = checkout.set_up()
    assert done.returncode == 0, done.stderr
    assert "making it again" in done.stderr
    assert checkout.is_whole


def test_a_folder_of_something_else_is_not_removed(checkout: Checkout) -> None:
    checkout.venv.mkdir()
    (checkout.venv / "thesis").touch()
    done = checkout.set_up()
    assert done.returncode == 1
    assert done.stderr == ".venv is no virtual environment: remove it, or name another folder\n"
    assert (checkout.venv / "thesis").exists()


def test_make_sets_up_again_where_the_interpreter_is_gone(tmp_path: Path) -> None:
    """`make` asks its stamp, which outlives the interpreter."""
    for name in ("Makefile", "pyproject.toml", "requirements.lock"):
        shutil.copy(ROOT / name, tmp_path)
    venv = tmp_path / ".venv"
    (venv / "bin").mkdir(parents=True)
    (venv / "bin" / "python").symlink_to(sys.executable)
    for stamp in (".stamp", ".ready"):
        (venv / stamp).touch()
    assert "setup-venv" not in dry_run(tmp_path)
    upgraded_system(venv)
    assert "setup-venv" in dry_run(tmp_path)


def dry_run(folder: Path) -> str:
    done = subprocess.run(
        [require_tool("make"), "-n", "setup"],
        cwd=folder, capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    return done.stdout
