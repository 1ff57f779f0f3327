"""Writes the run file `agent.json`, by which commands find an agent; one at a time has it."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

import msgspec

from agent.api.address import RunFile
from agent.service.process.secrets import read_token_file, token_file
from nostr_client.errors import StoreError, StoreLocked
from nostr_client.paths import addresses_path, replaced_file
from nostr_client.store.file.connect import WriterLock

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from agent.config.model import ApiSection
    from agent.log import Log


@contextlib.contextmanager
def runfile(api: str, relay: str, section: ApiSection, log: Log) -> Iterator[None]:
    """Write where the agent listens, and remove the file when the block ends.

    While another agent has the file, it does not change, and the log says how to reach this one.
    """
    path = addresses_path()
    token = token_file(section)
    lock = _lock(path, f"--api {api} --token-file {token}", log)
    if lock is None:
        yield
        return
    try:
        read = read_token_file(section)
        addresses = RunFile(os.getpid(), api, relay, str(token), str(read))
        text = msgspec.json.encode(addresses).decode()
        _write(path, text)
        try:
            yield
        finally:
            _remove(path, text)
    finally:
        lock.release()


def holds(path: Path, pid: int) -> bool:
    """Whether the agent that wrote a run file as process `pid` still runs."""
    try:
        WriterLock(path).release()
    except StoreLocked as error:
        return error.pid == pid
    except StoreError:  # another user's, who can ask
        return True
    return False


def _lock(path: Path, reached: str, log: Log) -> WriterLock | None:
    """Lock the run file for the life of this process; None if that cannot be done."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return WriterLock(path)
    except StoreLocked as error:
        why = f"{path} is that of the agent that runs as process {error.pid}"
        log.warning("not_published", why=why, reached_by=reached)
    except (StoreError, OSError) as error:
        log.warning("not_published", why=f"{path}: {error}", reached_by=reached)
    return None


def _write(path: Path, text: str) -> None:
    with replaced_file(path) as part:
        part.write_text(text, "utf-8")


def _remove(path: Path, text: str) -> None:
    """Remove the file if its text is still ours."""
    with contextlib.suppress(OSError):
        if path.read_text("utf-8") == text:
            path.unlink()
