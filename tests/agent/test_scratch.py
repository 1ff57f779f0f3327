"""A folder that goes with its process, or when the next one starts."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

from agent.reindex.tempdir import scratch

if TYPE_CHECKING:
    from pathlib import Path

HOLD = """
import pathlib, sys
from agent.reindex.tempdir import scratch
with scratch(pathlib.Path(sys.argv[1])) as folder:
    (folder / "file").touch()
    print(folder, flush=True)
    sys.stdin.read()
"""


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_folder_goes_with_its_block(tmp_path: Path) -> None:
    with scratch(tmp_path / "work") as folder:
        (folder / "inner").mkdir()
        assert names(tmp_path / "work") == [folder.name]
    assert names(tmp_path / "work") == []


def test_what_the_dead_left_goes_at_the_next_start_and_what_the_living_have_stays(
    tmp_path: Path,
) -> None:
    (tmp_path / "another").mkdir()
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as one:
        assert one.stdout is not None
        theirs = one.stdout.readline().strip().rpartition("/")[2]
        with scratch(tmp_path) as folder:
            assert names(tmp_path) == sorted(["another", folder.name, theirs])
        os.kill(one.pid, signal.SIGKILL)
        one.wait(30)
        assert names(tmp_path) == ["another", theirs]
        with scratch(tmp_path) as folder:
            assert names(tmp_path) == sorted(["another", folder.name])
    assert names(tmp_path) == ["another"]


def test_among_temporary_files_only_folders_of_our_own_are_looked_into(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("kept", "utf-8")
    trap = tmp_path / "trap"
    trap.mkdir()
    (trap / "owner.lock").symlink_to(precious)
    place = tmp_path / "tmp"
    place.mkdir()
    (place / "x-file").touch()
    (place / "x-link").symlink_to(trap)
    kept = ["x-file", "x-link"]
    if os.geteuid() == 0:
        (place / "x-others").mkdir()
        (place / "x-others" / "owner.lock").symlink_to(precious)
        os.chown(place / "x-others", 65_534, 65_534)
        kept.append("x-others")
    (place / "x-dead").mkdir()
    with scratch(place, "x-") as folder:
        assert names(place) == sorted([*kept, folder.name])
    assert names(place) == kept
    assert precious.read_text("utf-8") == "kept"
