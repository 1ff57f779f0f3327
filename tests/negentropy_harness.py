"""One side of a negentropy session on stdin and stdout: `python -m tests.negentropy_harness`.

The line protocol of the reference project's tests: `item,<timestamp>,<id hex>`, `seal`,
`initiate`, `msg,<hex>` in; `msg,<hex>`, `have,<id hex>`, `need,<id hex>`, `done` out. The
environment's FRAMESIZELIMIT is the frame limit.
"""

from __future__ import annotations

import os
import sys
from typing import TextIO

from nostr_client.negentropy.reconcile import Initiator, Responder
from nostr_client.negentropy.storage import Storage, seal


def serve(lines: TextIO, out: TextIO, frame_limit: int) -> None:
    """Answer every line until the input ends."""
    items: list[tuple[int, bytes]] = []
    storage: Storage | None = None
    side: Initiator | Responder | None = None
    for line in lines:
        match line.strip().split(","):
            case ["item", stamp, key]:
                items.append((int(stamp), bytes.fromhex(key)))
            case ["seal"]:
                storage = seal(items)
            case ["initiate"] if storage is not None:
                side = Initiator(storage, frame_limit=frame_limit)
                print(f"msg,{side.initiate().hex()}", file=out, flush=True)
            case ["msg", *rest] if storage is not None:
                side = side or Responder(storage, frame_limit=frame_limit)
                print(*answer(side, bytes.fromhex("".join(rest))), sep="\n", file=out, flush=True)
            case [""]:
                pass
            case other:
                raise SystemExit(f"not now, or unknown: {other[0]}")


def answer(side: Initiator | Responder, message: bytes) -> list[str]:
    """The lines that answer one message."""
    if isinstance(side, Responder):
        return [f"msg,{side.reconcile(message).hex()}"]
    said = side.reconcile(message)
    lines = [f"have,{key}" for key in said.have.hex()] + [f"need,{key}" for key in said.need.hex()]
    return [*lines, "done" if said.message is None else f"msg,{said.message.hex()}"]


if __name__ == "__main__":
    serve(sys.stdin, sys.stdout, int(os.environ.get("FRAMESIZELIMIT", "0")))
