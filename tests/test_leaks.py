"""A run that prints a secret, or leaves it in a log, fails and does not repeat it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from nostr_client.codecs import nip19
from nostr_client.codecs.keys import KeySigner
from tests import leaks

ROOT = Path(__file__).parents[1]
SECRET = bytes(range(1, 33))
NSEC = nip19.encode_secret(SECRET)
PLANTED = [
    "print(SECRET.hex())",
    "print(nip19.encode_secret(SECRET))",
    "print('key', SECRET.hex(), file=sys.stderr)",
    "logging.getLogger('x').warning('key %s', SECRET.hex())",
]


HEAD = """
import logging, sys
from nostr_client.codecs import nip19
from nostr_client.codecs.keys import KeySigner
SECRET = bytes(range(1, 33))
KeySigner(SECRET)
"""
CONFTEST = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
from tests.conftest import pytest_configure
"""


def run(folder: Path, bodies: list[str], *flags: str) -> subprocess.CompletedProcess[str]:
    """A run of its own, a test for each body."""
    tests = (f"def test_{n}(tmp_path):\n    {body}\n" for n, body in enumerate(bodies))
    (folder / "test_it.py").write_text(HEAD + "".join(tests))
    (folder / "conftest.py").write_text(CONFTEST)
    base = f"--basetemp={folder / 'base'}"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", base, *flags, folder],
        cwd=folder, capture_output=True, text=True, timeout=50, check=False,
    )  # fmt: skip
    shutil.rmtree(folder / "base")  # or the run that this test is of would find them
    return done


def test_planted_secrets_fail_the_run_and_what_is_no_secret_does_not(tmp_path: Path) -> None:
    done = run(tmp_path, [*PLANTED, "print(KeySigner(SECRET), KeySigner(SECRET).pubkey)"])
    said = done.stdout + done.stderr
    assert done.returncode == pytest.ExitCode.TESTS_FAILED, said
    for n in range(len(PLANTED)):
        assert f"test_{n} printed a" in said
    assert f"{len(PLANTED)} failed, 1 passed" in said
    assert SECRET.hex() not in said
    assert NSEC not in said


@pytest.mark.parametrize("flags", [(), ("-n", "1")], ids=["alone", "in a worker"])
def test_a_secret_in_a_log_fails_the_run(flags: tuple[str, ...], tmp_path: Path) -> None:
    done = run(tmp_path, ["(tmp_path / 'agent.log').write_text(SECRET.hex())"], *flags)
    assert done.returncode == pytest.ExitCode.TESTS_FAILED, done.stdout
    assert "agent.log: a secret key in hex at 0" in done.stdout


def test_only_what_is_secret_is_found() -> None:
    signer = KeySigner(SECRET)
    assert list(leaks.found(f"id {signer.pubkey} {'01' * 32}")) == []
    assert list(leaks.found(f"x{SECRET.hex()}y")) == ["a secret key in hex at 1"]
    KeySigner(b"\x01" * 32)
    assert list(leaks.found("01" * 32)) == []
