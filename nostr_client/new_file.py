"""Make a file or a folder that appears complete or not at all: a part beside it, then a rename."""

from __future__ import annotations

import glob
import os
import secrets
import shutil
import sys
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from nostr_client.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def check_free(target: Path) -> None:
    """Raise InvalidInput if anything has the name, a link to nothing too, or its folder lacks."""
    if os.path.lexists(target):
        raise InvalidInput(f"{target} exists; choose another name or remove it")
    if not target.parent.is_dir():
        raise InvalidInput(f"cannot write {target}: {target.parent} is not a folder")


@contextmanager
def new_file(target: Path) -> Iterator[Path]:
    """Yield a free name beside the target; what the block makes there becomes the target.

    If the block fails or is interrupted, what it made is removed. Raises InvalidInput as
    `check_free`, before and after the block. An OSError of the block names the target.
    """
    check_free(target)
    with part_of(target) as part:
        yield part
        check_free(target)
        part.rename(target)


@contextmanager
def replaced_file(target: Path) -> Iterator[Path]:
    """Yield a free name as `new_file` does; what the block makes there replaces the target.

    A file is replaced at once. An earlier folder is removed first, as a rename cannot replace it.
    """
    with part_of(target) as part:
        yield part
        if part.is_dir():
            shutil.rmtree(target, ignore_errors=True)
        part.replace(target)


@contextmanager
def part_of(target: Path) -> Iterator[Path]:
    """Yield a free name beside the target, and remove after the block what still has this name.

    What a library puts beside the part under a longer name, such as a log of SQLite, is removed
    too. So are parts of the same target whose processes were killed. An OSError of the block names
    the target.
    """
    _remove_abandoned(target)
    part = target.with_name(f"{target.name}.{os.getpid()}.{secrets.token_hex(4)}.part")
    try:
        yield part
    except OSError as error:
        if error.filename not in (None, str(part), part):
            raise
        raise OSError(error.errno or 0, _why(error), str(target)) from error
    finally:
        for made in target.parent.glob(f"{glob.escape(part.name)}*"):
            remove(made)


def remove(path: Path) -> None:
    """Remove a file, or a folder with all in it, if it exists."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):  # the error of the block has the reason
            path.unlink(missing_ok=True)


def _remove_abandoned(target: Path) -> None:
    """Remove parts of the target that killed processes left."""
    for left in target.parent.glob(f"{glob.escape(target.name)}.*.part*"):
        number = left.name[len(target.name) + 1 :].partition(".")[0]
        if number.isdecimal() and not _runs(int(number)):
            remove(left)


def _runs(pid: int) -> bool:
    """Return whether a process runs; True if that cannot be known."""
    if sys.platform == "win32":
        return True
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        return True  # another user's
    return True


def _why(error: OSError) -> str:
    """Return the system's words; other libraries write a longer text of their own."""
    return os.strerror(error.errno) if error.errno else str(error)
