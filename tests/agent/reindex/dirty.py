"""Archives as they are found: cut, mixed up, packed, huge, the same event again and again."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING

import pyarrow as pa

from tests.agent.reindex.nasty import make

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from nostr_client.codecs.event import Event

DAMAGED_FILES = ("cut.jsonl.gz", "damaged.jsonl.gz", "damaged.jsonl.zst")
"""Files that cannot be read to their end: none of their lines counts."""

LONG = 50 * 2**20


def bad_lines(event: Event) -> dict[str, bytes]:
    """One line of each kind that is no event, made from one that is."""
    good = event.to_json()
    content = json.dumps(event.content, ensure_ascii=False)
    assert content in good
    return {
        "truncated": good.encode()[:-40],
        "bad utf-8": good.encode().replace(b'"content":"', b'"content":"\xff\xfe', 1),
        "lone surrogate": good.replace('"content":"', '"content":"\\ud83d', 1).encode(),
        "float": good.replace(f'"kind":{event.kind}', f'"kind":{event.kind}.0').encode(),
        "text": good.replace(f'"kind":{event.kind}', f'"kind":"{event.kind}"').encode(),
        "beyond": good.replace(f"{event.created_at}", f"{2**63}").encode(),
        "single quotes": good.replace('"', "'").encode(),
        "number as tag": good.replace('"tags":[', '"tags":[["x",1],', 1).encode(),
        "changed": good.replace('"content":"', '"content":"x', 1).encode(),
        "no object": b"null",
        "half a line": b'{"id":"',
    }


def write(folder: Path, events: Sequence[Event]) -> int:
    """Ten files with all events in each of them, in every packing, among bad lines; how many bad
    lines there are."""
    folder.mkdir()
    bad = list(bad_lines(events[0]).values())
    lines = [event.to_json().encode() for event in events]
    first = events[0].to_json().encode()
    twice = first.replace(b'{"id":', b'{"content":"first","id":', 1)
    body = b"\n".join([*lines, *bad, b"", b"  \t\r", lines[0] + b"\r", twice])
    for n in range(4):
        (folder / f"plain{n}.jsonl").write_bytes(b"\xef\xbb\xbf" + body)
    for n in range(3):
        (folder / f"packed{n}.jsonl.gz").write_bytes(gzip.compress(body + b"\n"))
    for n in range(3):
        packed = pa.Codec("zstd").compress(body, asbytes=True)
        (folder / f"packed{n}.jsonl.zst").write_bytes(packed)
    huge = b'{"content":"' + b"x" * LONG + b'"}'
    (folder / "huge.jsonl").write_bytes(huge + b"\n" + lines[0])
    (folder / "_SUCCESS").touch()
    (folder / ".part.jsonl").write_bytes(b"not yet")
    only_here = [make(0, 1, content=f"only here {n}").to_json() for n in range(200)]
    whole = gzip.compress("\n".join(only_here).encode())
    for name in DAMAGED_FILES:
        (folder / name).write_bytes(whole[: len(whole) // 2] if "cut" in name else b"not packed")
    return 10 * len(bad) + 1 + len(DAMAGED_FILES)
