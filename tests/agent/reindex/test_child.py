"""The child of a rebuild as a process: however its work ends after a signal, it was stopped."""

from __future__ import annotations

import subprocess
import sys

import pytest

from agent.reindex.protocol import INTERRUPTED

PROGRAM = """
import os, signal, sys
from agent.reindex import child

def work(reporter):
    {work}

child._done = work
sys.exit(child.main())
"""
STOPPED = "os.kill(os.getpid(), signal.{number})"
TURNED = """try:
        os.kill(os.getpid(), signal.SIGTERM)
    except BaseException as error:
        raise KeyError("o12") from error"""


def ended(work: str) -> subprocess.CompletedProcess[str]:
    text = PROGRAM.format(work=work)
    return subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.parametrize(
    "work", [STOPPED.format(number="SIGTERM"), STOPPED.format(number="SIGINT"), TURNED]
)
def test_a_signal_ends_it_with_130_whatever_a_library_makes_of_it(work: str) -> None:
    done = ended(work)
    assert (done.returncode, done.stderr) == (INTERRUPTED, "")


def test_an_error_without_a_signal_is_a_bug_that_is_seen() -> None:
    done = ended('raise KeyError("o12")')
    assert done.returncode == 1
    assert "KeyError" in done.stderr
