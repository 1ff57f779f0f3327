"""Reads compressed files within a bound: what a few bytes unpack to costs no more than a file does.

Deflate packs a run of one byte 1,000 to 1, zstd 30,000 to 1 and more. Events pack far less: each
has 96 bytes of id and signature that no program can shorten.
"""

from __future__ import annotations

import gzip
import io
import zlib
from typing import IO, TYPE_CHECKING, Final, cast

from nostr_client.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Callable

    from _typeshed import WriteableBuffer

RATIO: Final = 100
"""Bytes out for each byte in: events of 10 kB that repeat one character reach it."""

FREE_BYTES: Final = 16 * 2**20
"""Bytes out before the ratio counts: one line of the longest size."""

BUFFER_BYTES: Final = 64 * 1024
"""Bytes that are unpacked at a time."""


class Decompressed(io.RawIOBase):
    """The unpacked bytes of `read`, which gives at most as many as asked; wrap it in a buffer.

    `taken`: how many packed bytes were read so far. Reading raises InvalidInput for a file that
    is cut off or damaged, and for one that unpacks to more than FREE_BYTES and RATIO allow.
    """

    def __init__(
        self, read: Callable[[int], bytes], taken: Callable[[], int], name: str, form: str
    ) -> None:
        super().__init__()
        self._read = read
        self._taken = taken
        self._file = f"{name}: the {form} file"
        self._given = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        """Unpack into a buffer; 0 at the end."""
        view = memoryview(buffer).cast("B")
        try:
            part = self._read(len(view))
        except (EOFError, zlib.error, OSError, ValueError) as error:
            what = f"{self._file} is cut off or damaged; what came before is kept"
            raise InvalidInput(what) from error
        self._given += len(part)
        if self._given > FREE_BYTES + RATIO * self._taken():
            what = f"{self._file} unpacks to more than {RATIO} times its size"
            raise InvalidInput(f"{what}; what came before is kept")
        view[: len(part)] = part
        return len(part)


class _Counted:
    """Counts what is read of a file that may be a pipe and so knows no position."""

    def __init__(self, stream: io.BufferedIOBase) -> None:
        self._stream = stream
        self.taken = 0

    def read(self, size: int = -1) -> bytes:
        part = self._stream.read(size)
        self.taken += len(part)
        return part


def gunzipped(stream: io.BufferedIOBase, name: str) -> io.BufferedReader:
    """What is in a gzip file, members one after the other; `stream` is the caller's to close.

    Reading raises InvalidInput.
    """
    packed = _Counted(stream)
    file = gzip.GzipFile(fileobj=cast("IO[bytes]", packed), mode="rb")
    return io.BufferedReader(
        Decompressed(file.read1, lambda: packed.taken, name, "gzip"), BUFFER_BYTES
    )
