"""Remember how the application was left: its layout, and when somebody last looked.

One small JSON file in the user's state folder. A file that cannot be read counts as none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from nostr_client.paths import write_private

if TYPE_CHECKING:
    from pathlib import Path

MOST_BYTES: Final = 64 * 1024


class TuiSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What is remembered; `looked_at` is in Unix seconds.

    `panels`: the panels of the first page in their order, None for the default. `hidden`: the
    columns that each page does not show. `group`: how the first page groups its watches.
    """

    looked_at: float | None = None
    panels: tuple[str, ...] | None = None
    hidden: dict[str, tuple[str, ...]] = {}
    group: str = ""


def load(path: Path | None) -> TuiSettings:
    """Return what was remembered; the defaults where nothing is, or nothing that can be read."""
    if path is None:
        return TuiSettings()
    try:
        with path.open("rb") as file:
            return msgspec.json.decode(file.read(MOST_BYTES), type=TuiSettings)
    except (OSError, ValueError, RecursionError):
        return TuiSettings()


def save(path: Path, settings: TuiSettings) -> None:
    """Write the file whole, or leave the old one. Raises OSError."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_private(path, msgspec.json.encode(settings))
