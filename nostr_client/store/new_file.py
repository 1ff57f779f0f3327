"""Make a file or a folder under a name that nothing has yet; it appears complete or not at all."""

from __future__ import annotations

import os
import secrets
import shutil
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
    part = target.with_name(f"{target.name}.{secrets.token_hex(4)}.part")
    try:
        yield part
        check_free(target)
        part.rename(target)
    except OSError as error:
        if error.filename not in (None, str(part), part):
            raise
        raise OSError(error.errno or 0, _why(error), str(target)) from error
    finally:
        _remove(part)


def _why(error: OSError) -> str:
    """Return the system's words; other libraries write a longer text of their own."""
    return os.strerror(error.errno) if error.errno else str(error)


def _remove(part: Path) -> None:
    if part.is_dir():
        shutil.rmtree(part, ignore_errors=True)
    with suppress(OSError):  # the error of the block has the reason
        part.unlink(missing_ok=True)
