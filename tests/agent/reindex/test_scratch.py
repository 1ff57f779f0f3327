"""A folder that goes with its process, or when the next one starts."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

from agent.reindex.scratch import scratch

if TYPE_CHECKING:
    from pathlib import Path

HOLD = """
import pathlib, sys
from agent.reindex.scratch import scratch
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
