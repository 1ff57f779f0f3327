"""The rights of files: somebody whom they hold for, as tests often run as root, and secrets."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def as_nobody() -> Iterator[None]:
    """Be a process that rights hold for."""
    own = os.geteuid()
    if own == 0:
        os.seteuid(65_534)
    try:
        yield
    finally:
        os.seteuid(own)


def secret_file(path: Path, text: str) -> Path:
    """A file for its owner alone."""
    path.touch(0o600)
    path.write_text(text)
    return path
