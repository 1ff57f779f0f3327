"""Read zstd and Parquet files with pyarrow, within the limits for every compressed file.

A hostile file may be small and unpack to very much, or may be damaged. Both end the reading with
InvalidInput. Data before that point is returned.
"""

from __future__ import annotations

import io
from contextlib import closing, contextmanager
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from nostr_client.errors import InvalidInput, clip, optional
from nostr_client.store.event_lines import (
    BUFFER_BYTES,
    FREE_BYTES,
    LINE_LIMIT,
    RATIO,
    Decompressed,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path


@contextmanager
def unzstd(file: Path, needed_for: str) -> Iterator[io.BufferedReader]:
    """Open a zstd file to read its content. `needed_for` is the text for a missing pyarrow.

    Raises MissingExtra, OSError. Reading raises InvalidInput.
    """
    with optional(needed_for):
        import pyarrow as pa
    with pa.OSFile(str(file), "rb") as packed:
        stream = pa.CompressedInputStream(packed, "zstd")
        name = str(file)
        yield io.BufferedReader(Decompressed(stream.read, packed.tell, name, "zstd"), BUFFER_BYTES)


def parquet_rows(file: Path, needed_for: str) -> int:
    """Return how many rows a Parquet file states. Raises MissingExtra, and InvalidInput if damaged.

    `needed_for` is the text for a missing pyarrow.
    """
    with optional(needed_for):
        import pyarrow as pa
        import pyarrow.parquet as pq
    try:
        return int(pq.read_metadata(file).num_rows)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise _damaged(file, error) from error


def parquet_batches(
    file: Path,
    needed_for: str,
    rows: int,
    *,
    columns: Sequence[str] | None = None,
    dictionaries: Sequence[str] = (),
) -> Iterator[Any]:
    """Yield record batches of at most `rows` rows, each of at most LINE_LIMIT bytes or one row.

    `columns`: the columns to read, by default all. `dictionaries`: columns with a dictionary that
    may have one large value for many rows. They stay dictionaries until their unpacked size is
    known. A column within a list or a map has its path, such as `fields.key_value.key`, and stays a
    dictionary. Raises MissingExtra. Raises InvalidInput for a damaged file, for a missing column,
    and for a file that unpacks to more than FREE_BYTES and RATIO allow.
    """
    with optional(needed_for):
        import pyarrow as pa
        import pyarrow.parquet as pq
    left = FREE_BYTES + RATIO * file.stat().st_size
    too_much = InvalidInput(f"{file}: the Parquet file unpacks to more than {RATIO} times its size")
    try:
        # No background reads, because their threads would outlive a damaged file.
        metadata = pq.read_metadata(file)
        paths = {metadata.schema.column(n).path for n in range(metadata.num_columns)}
        names = {path.partition(".")[0] for path in paths}
        lacking = {*(columns or ())} - names or {*dictionaries} - paths
        if lacking:
            raise InvalidInput(f"{file} is damaged: it lacks the column {min(lacking)}")
        if _unpacked_bytes(metadata) > left:
            raise too_much
        with pq.ParquetFile(
            file, metadata=metadata, read_dictionary=list(dictionaries), pre_buffer=False
        ) as opened:
            wanted = None if columns is None else list(columns)
            reading = opened.iter_batches(rows, columns=wanted, use_threads=False)
            with closing(reading) as batches:  # before its file
                for batch in batches:
                    batch.validate(full=True)  # checks texts too, so that damaged ones fail here
                    for size, part in _bounded(batch):
                        left -= size
                        if left < 0:
                            raise too_much
                        yield part
    except InvalidInput:
        raise
    except (pa.ArrowException, OSError, LookupError, ValueError) as error:
        raise _damaged(file, error) from error


def _damaged(file: Path, error: Exception) -> InvalidInput:
    why = str(error).partition("\n")[0]
    return InvalidInput(f"{file} is damaged: {clip(why, 120)}")


def python_values(column: Any) -> list[Any]:
    """Return the values of a column as `to_pylist` does, in a fifth of the time for text in lists.

    `to_pylist` makes a scalar of each value first.
    """
    import pyarrow.types as kinds

    if kinds.is_string(column.type) or kinds.is_binary(column.type):
        texts: list[Any] = column.to_numpy(zero_copy_only=False).tolist()
        return texts
    if not kinds.is_list(column.type) or column.null_count:
        values: list[Any] = column.to_pylist()
        return values
    items = python_values(column.flatten())
    bounds = column.offsets.to_numpy()
    places = (bounds - bounds[0]).tolist()
    return [items[start:end] for start, end in pairwise(places)]


def _unpacked_bytes(metadata: Any) -> int:
    """Return the unpacked size that the file states for its row groups. Dictionaries count once.

    The footer of single columns is not read, because pyarrow ends the process if statistics there
    are damaged.
    """
    groups = (metadata.row_group(n) for n in range(metadata.num_row_groups))
    return sum(group.total_byte_size for group in groups)


def _bounded(batch: Any) -> Iterator[tuple[int, Any]]:
    """Yield the batch, or its single rows if the batch is large, each with its bytes."""
    size = sum(map(_size, batch.columns))
    if size <= LINE_LIMIT or batch.num_rows == 1:
        yield size, batch
        return
    for n in range(batch.num_rows):
        row = batch.slice(n, 1)
        yield sum(map(_size, row.columns)), row


def _size(column: Any) -> int:
    """Return the bytes of a column after unpacking its dictionary."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not isinstance(column, pa.DictionaryArray):
        return int(column.nbytes)
    used = column.indices.dictionary_encode()  # the dictionary covers all rows of the file
    lengths = pc.binary_length(column.dictionary.take(used.dictionary))
    return int(pc.sum(lengths.take(used.indices)).as_py() or 0)
