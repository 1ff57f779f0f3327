"""Writes Parquet files of a staged table in Python; each gets its name when it is complete."""

from __future__ import annotations

import os
import shutil
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PACKED: Final = "lz4"
"""Only for text: ids and keys are as good as random, and compressing them gains nothing."""


def emptied(folder: Path) -> Path:
    """Empty a folder of what an earlier run left half done, or create it."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


@contextmanager
def whole(file: Path, schema: pa.Schema) -> Iterator[pq.ParquetWriter]:
    """Write a file aside, under a name that readers pass over, and rename it at the end."""
    aside = file.with_name(f"_{file.name}.{os.getpid()}")
    packed = {one.name: PACKED if pa.types.is_string(one.type) else "none" for one in schema}
    try:
        with pq.ParquetWriter(
            aside, schema, compression=packed, use_dictionary=False, write_statistics=False
        ) as out:
            yield out
        aside.replace(file)
    finally:
        aside.unlink(missing_ok=True)


def write(folder: Path, rows: pa.RecordBatch) -> None:
    """A whole table of few rows."""
    with whole(emptied(folder) / "part.parquet", rows.schema) as out:
        out.write_batch(rows)
