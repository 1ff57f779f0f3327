"""Whether a test run printed, logged or wrote into a log a secret that it made.

A pytest plugin, which conftest registers. Secrets are noted where they are made, so that nothing
need be told of them; a test whose output holds one fails, and at the end of a run the log files
that tests left are read. Keys of few different bytes are no secrets: tests write them out.
"""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING, Any, Final

import pytest

from nostr_client.codecs import keys

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator
    from pathlib import Path

HEX: Final = re.compile(r"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])")
NSEC: Final = re.compile(r"nsec1[02-9ac-hj-np-z]{58}")
LOGS: Final = frozenset({".log", ".err", ".stderr"})
LOG_LIMIT: Final = 16 * 1024 * 1024
FEW_BYTES: Final = 8

_made: set[str] = set()
_in_logs: list[str] = []
_make = keys.KeySigner.__init__


@functools.wraps(_make)
def _noted(self: keys.KeySigner, secret: bytes, **options: Any) -> None:
    _make(self, secret, **options)
    note(bytes(secret))


def note(secret: bytes) -> None:
    """Remember a secret key."""
    if len(set(secret)) >= FEW_BYTES:
        _made.add(secret.hex())


def found(text: str) -> Iterator[str]:
    """What secrets a text holds: named by kind and place, never shown."""
    for match in NSEC.finditer(text):
        yield f"an nsec at {match.start()}"
    for match in HEX.finditer(text):
        if match.group() in _made:
            yield f"a secret key in hex at {match.start()}"


def in_logs(folder: Path) -> Iterator[str]:
    """The same for every log file below a folder."""
    for path in folder.rglob("*"):
        if path.suffix in LOGS and path.is_file() and not path.is_symlink():
            text = path.read_bytes()[:LOG_LIMIT].decode("utf-8", "replace")
            yield from (f"{path}: {what}" for what in found(text))


def pytest_configure(config: pytest.Config) -> None:
    """Begin to note."""
    patch = pytest.MonkeyPatch()
    patch.setattr(keys.KeySigner, "__init__", _noted)
    config.add_cleanup(patch.undo)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Fail a test, or its set-up or end, whose output holds a secret."""
    report = yield
    texts = [text for _, text in report.sections]
    leaks = [leak for text in texts for leak in found(text)]
    if leaks:
        report.outcome = "failed"
        report.sections = []
        report.longrepr = f"{item.nodeid} printed {', '.join(leaks)}"
    return report


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail the run where a log that a test left holds a secret; a worker hands on what it found."""
    factory = getattr(session.config, "_tmp_path_factory", None)
    if getattr(factory, "_basetemp", None) is not None:
        _in_logs.extend(in_logs(factory.getbasetemp()))
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["leaks"] = _in_logs
    elif _in_logs:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """What a worker found."""
    _in_logs.extend(getattr(node, "workeroutput", {}).get("leaks", ()))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say which logs hold secrets."""
    for leak in _in_logs:
        terminalreporter.write_line(f"SECRET IN A LOG: {leak}", red=True)
