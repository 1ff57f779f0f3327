"""Keep whatever a caller's own function raised, for that caller alone."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING, Self

from nostr_client.store.faults import store_error

if TYPE_CHECKING:
    from types import TracebackType


class Capture:
    """Ends the block at its first error and keeps it as `error`, SQLite's ones wrapped.

    A thread that runs other people's functions must outlive what they raise, and the one that
    asked is the one that must see it.
    """

    error: BaseException | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        self.error = _wrapped(error)
        return True


def _wrapped(error: BaseException | None) -> BaseException | None:
    if isinstance(error, sqlite3.Error):
        wrapped: Exception = store_error(error)
    elif isinstance(error, StopIteration):
        wrapped = RuntimeError("a store function raised StopIteration")  # no future may carry it
    else:
        return error
    wrapped.__cause__ = error
    return wrapped
