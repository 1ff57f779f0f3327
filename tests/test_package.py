"""The wheel, installed without the checkout and what only tests need, does what it promises."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from nostr_client import __version__
from nostr_client.codecs.nip19 import PublicKey
from tests.conftest import missing
from tests.faulty_relay import FaultyRelay
from tests.worlds import TARGET, follow, reaction

ROOT = Path(__file__).parents[1]
SNIPPET = (ROOT / "examples" / "count_followers.py").read_text("utf-8")
CONSOLE = ("nostr-client", "nostr-agent", "nostr-tui")


OPENED = """
import asyncio
from nostr_client.errors import NetworkError
from tui.app import TallyApp

def locate():
    raise NetworkError("no agent")

async def press(pilot):
    await pilot.press("2")
    print(pilot.app.page_name)
    pilot.app.exit()

asyncio.run(TallyApp(locate).run_async(headless=True, size=(100, 30), auto_pilot=press))
"""
"""Open the terminal application as `nostr-tui` does, and go to the page of the relays."""


def interpreter(version: str) -> str:
    """A Python of that version: on the PATH, or kept by pyenv; else a skip."""
    for one in sorted((Path.home() / ".pyenv" / "versions").glob(f"{version}.*/bin/python")):
        return str(one)
    found = shutil.which(f"python{version}")
    if found is None:
        missing(f"Python {version}")
    return str(found)


def run(*command: str | Path, cwd: Path) -> str:
    done = subprocess.run(
        list(map(str, command)),
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        env={"HOME": str(cwd), "PATH": "/usr/bin:/bin"},
    )
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


def installed(folder: Path, python: str, extras: str, *flags: str, kept: bool = False) -> Path:
    """The `bin` of a new environment with the wheel of this checkout in it.

    `kept`: of what set-up fetched, where that is kept; else pyspark is built each time.
    """
    uv = shutil.which("uv")
    if uv is None:
        subprocess.run([python, "-m", "venv", folder / "env"], check=True, timeout=120)
        pip: list[str | Path] = [folder / "env/bin/python", "-m", "pip", "install", "-q"]
    else:
        subprocess.run([uv, "venv", "-q", "-p", python, folder / "env"], check=True, timeout=120)
        pip = [uv, "pip", "install", "-q", "-p", folder / "env/bin/python", *flags]
    pip.append(f"{built(folder, python)}{extras}")
    done = kept and uv and not subprocess.run([*pip, "--offline"], timeout=300).returncode
    if not done:
        subprocess.run(pip, cwd=folder, check=True, timeout=300)
    return folder / "env" / "bin"


def built(folder: Path, python: str) -> Path:
    """A wheel, made from the sources alone."""
    if uv := shutil.which("uv"):
        command = [uv, "build", "-q", "--wheel", "-o", folder, ROOT]
    else:
        command = [python, "-m", "pip", "wheel", "-q", "--no-deps", "-w", folder, ROOT]
    subprocess.run(command, check=True, timeout=240)
    (wheel,) = folder.glob("*.whl")
    assert __version__ in wheel.name
    return wheel


async def counts(bin_: Path, folder: Path) -> None:
    """A program of the SDK and a command of the user, outside the checkout."""
    (folder / "followers.py").write_text(SNIPPET, "utf-8")
    npub = PublicKey(TARGET).encode()
    async with FaultyRelay(events=[follow(i) for i in range(5)]) as relay:
        program = (bin_ / "python", folder / "followers.py", npub, relay.url)
        command = (bin_ / "nostr-client", "count", "followers", npub, "-r", relay.url)
        for one in (program, command):
            said = await asyncio.to_thread(run, *one, cwd=folder)
            assert "5 followers" in said or "followers: 5 (exact)" in said, said


async def test_the_wheel_with_what_it_needs_alone(tmp_path: Path) -> None:
    bin_ = await asyncio.to_thread(installed, tmp_path, sys.executable, "", kept=True)
    await counts(bin_, tmp_path)
    assert (await asyncio.to_thread(run, bin_ / "nostr-client", "--version", cwd=tmp_path)).strip()
    (packages,) = bin_.parent.glob("lib/python*/site-packages")
    for name in ("nostr_client", "agent", "tui"):
        assert (packages / name / "py.typed").is_file()
        assert files(packages, name) == files(ROOT, name), "no module is left out"


def files(root: Path, package: str) -> set[str]:
    """The files of a package, without what Python made of them."""
    found = (path for path in (root / package).rglob("*") if path.is_file())
    return {str(path.relative_to(root)) for path in found if path.suffix != ".pyc"}


@pytest.mark.long
@pytest.mark.timeout(600)
def test_the_wheel_with_spark_rebuilds_where_no_java_is_installed(
    tmp_path: Path, no_java: dict[str, str]
) -> None:
    """Shuffle, Arrow and Parquet by what pip brings: no Java, nothing of the checkout."""
    bin_ = installed(tmp_path, sys.executable, "[spark]", kept=True)
    lines = [event.to_json() for i in range(6) for event in (follow(i), reaction(i))]
    (tmp_path / "a.jsonl").write_text("\n".join([*lines, "no event"]), "utf-8")
    command = [bin_ / "nostr-agent", "reindex", "--engine", "spark", "--jsonl", "a.jsonl"]
    done = subprocess.run(
        [*command, "--out", "tables", "--hot", "3", "--memory", "1g", "--json"],
        cwd=tmp_path,
        env={"HOME": str(tmp_path), "PATH": no_java["PATH"], "NOSTR_TALLY_JVM_TRAIN": "no"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["engine"] == "spark"
    assert told["built"]["rows"]["hot"] == 2
    assert sum(told["built"]["rejects"].values()) == 1
    assert list((tmp_path / "tables" / "tables" / "hot").glob("*.parquet"))


def as_tools(folder: Path, *command: str) -> None:
    """The programs by a tool's own installer, into folders of this test."""
    places = {"UV_TOOL_DIR": "uv", "UV_TOOL_BIN_DIR": "bin", "PIPX_HOME": "pipx",
              "PIPX_BIN_DIR": "bin", "PIPX_MAN_DIR": "man"}  # fmt: skip
    env = os.environ | {name: str(folder / place) for name, place in places.items()}
    subprocess.run(command, cwd=ROOT, env=env, check=True, capture_output=True, timeout=400)
    for name in CONSOLE:
        assert __version__ in run(folder / "bin" / name, "--version", cwd=folder)
        assert "Usage" in run(folder / "bin" / name, "--help", cwd=folder)


def test_uv_installs_the_programs_as_tools(tmp_path: Path) -> None:
    """And the command that a hint gives brings what was lacking."""
    if shutil.which("uv") is None:
        missing("uv")
    as_tools(tmp_path, "uv", "tool", "install", "-q", "-p", sys.executable, ".[agent,tui]")
    hint = said_by_nats(tmp_path).partition("needs nats: ")[2].strip()
    assert hint.startswith("uv tool install --force ")
    as_tools(tmp_path, *shlex.split(hint), "-q", "-p", sys.executable)
    assert "needs" not in said_by_nats(tmp_path)


def said_by_nats(folder: Path) -> str:
    """What a command says that the extra `nats` is for, where no server answers."""
    command = [folder / "bin/nostr-client", "counter", "get", "a.b", "--nats", "nats://127.0.0.1:9"]
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode
    return done.stderr


@pytest.mark.long
@pytest.mark.timeout(500)
def test_pipx_installs_the_programs(tmp_path: Path) -> None:
    if shutil.which("uv") is None:
        missing("uv")
    as_tools(tmp_path, "uvx", "pipx", "install", "--python", sys.executable, ".[agent,tui]")


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("flags", [(), ("--resolution", "lowest-direct")], ids=["newest", "lowest"])
@pytest.mark.parametrize("version", ["3.11", "3.12", "3.13"])
async def test_every_python_and_both_ends_of_the_dependencies(
    version: str, flags: tuple[str, ...], tmp_path: Path
) -> None:
    if shutil.which("uv") is None:
        missing("uv")
    extras = "[agent,tui,nats,parquet,plot]"
    bin_ = await asyncio.to_thread(installed, tmp_path, interpreter(version), extras, *flags)
    await counts(bin_, tmp_path)
    for name in CONSOLE:
        said = await asyncio.to_thread(run, bin_ / name, "--version", cwd=tmp_path)
        assert __version__ in said
        assert "Usage" in await asyncio.to_thread(run, bin_ / name, "--help", cwd=tmp_path)
    said = await asyncio.to_thread(run, bin_ / "python", "-c", OPENED, cwd=tmp_path)
    assert said.strip() == "relays"
    await asyncio.to_thread(run, bin_ / "nostr-agent", "init", cwd=tmp_path)
    await asyncio.to_thread(run, bin_ / "nostr-agent", "check", cwd=tmp_path)
