"""Tests that a system cannot run are skipped by name, and no others."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests import systems

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("import pty", {"pty"}),
        ("from fcntl import flock", {"fcntl"}),
        ("os.kill(1, 9)", {"os.kill"}),
        ("process.kill()", set()),
        ("path.chmod(0o600)", {"chmod"}),
        ("run(x, start_new_session=True)", {"start_new_session"}),
        ("Path('/proc/self')", {"/proc/"}),
        ("text = 'see /proc/self'", set()),
        ("@pytest.mark.posix('a pipe')\ndef test_a():\n    os.mkfifo(x)", set()),
        ("@posix\nasync def test_a():\n    os.mkfifo(x)", set()),
        ("@other\ndef test_a():\n    os.mkfifo(x)", {"os.mkfifo"}),
    ],
)
def test_what_a_module_uses(source: str, found: set[str]) -> None:
    assert systems.used(source) == found


def test_helpers_count_and_each_system_has_its_own_lack(tmp_path: Path) -> None:
    module = tmp_path / "test_a.py"
    module.write_text("from tests.rights import as_nobody\n", "utf-8")
    assert "os.geteuid" in systems.lacking(module, "win32")
    module.write_text("x = '/proc/self'\nimport pty\n", "utf-8")
    systems._with_helpers.cache_clear()
    assert systems.lacking(module, "win32") == ("/proc/", "pty")
    assert systems.lacking(module, "darwin") == ("/proc/",)
    assert systems.lacking(module, "linux") == ()


def test_a_skip_is_printed_with_its_reason() -> None:
    """As on Windows: nothing of the module is imported, and a marked test is skipped alone."""
    files = ["tests/integration/test_cli_terminal.py", "tests/unit/store/test_sql_thread.py"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", *files],
        cwd=ROOT, env=os.environ | {"NOSTR_TALLY_TEST_SYSTEM": "win32"},
        capture_output=True, text=True, timeout=200, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    assert re.search(r"SKIPPED .*test_cli_terminal.py: win32 does not have pty", done.stdout)
    assert re.search(r"SKIPPED .*win32 does not have a signal to one thread", done.stdout)
    assert re.search(r"[1-9]\d* passed", done.stdout)
