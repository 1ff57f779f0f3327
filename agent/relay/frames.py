"""WebSocket text frames as a server writes them: unmasked, whole (RFC 6455, section 5.2).

Many small frames in one write cost one system call; one call each would cost more than making
the frames.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_FINAL_TEXT = 0x81


def text_frames(texts: Iterable[str]) -> bytes:
    """The bytes of one frame for each text, one after the other."""
    parts: list[bytes] = []
    for text in texts:
        payload = text.encode()
        parts.append(_header(len(payload)))
        parts.append(payload)
    return b"".join(parts)


def _header(size: int) -> bytes:
    if size < 126:
        return bytes((_FINAL_TEXT, size))
    if size < 65_536:
        return bytes((_FINAL_TEXT, 126)) + size.to_bytes(2, "big")
    return bytes((_FINAL_TEXT, 127)) + size.to_bytes(8, "big")
