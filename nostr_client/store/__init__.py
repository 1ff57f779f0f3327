"""The event store: rules, schema, queries and the SQLite file under them."""

from __future__ import annotations

import sys
from typing import Any


def _load_sqlite_utils() -> None:
    """Load sqlite-utils without pandas, which it loads where it is installed, for a second of CPU
    and 60 MB, to know types that we never pass."""
    if "sqlite_utils" in sys.modules or "pandas" in sys.modules:
        return
    modules: dict[str, Any] = sys.modules
    modules["pandas"] = None  # an import of it fails, which sqlite-utils expects
    try:
        import sqlite_utils  # noqa: F401
    finally:
        del modules["pandas"]


_load_sqlite_utils()
