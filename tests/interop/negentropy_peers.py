"""Negentropy peers that we did not write, behind the reference project's line protocol."""

from __future__ import annotations

import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from nostr_client.negentropy.reconcile import Initiator, Responder
from nostr_client.negentropy.storage import seal

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from tests.negentropy_sets import Item

NOTHING_MORE = b"\x61"

# nostr-tools has the initiator's side alone: a message of the other side is read with the same
# call, which then names what it learned and gives no answer where it has nothing to ask. Beyond
# the protocol, `limit,<bytes>` begins a new session in the same process.
NOSTR_TOOLS = """
import { createInterface } from "node:readline";
import { nip77 } from "nostr-tools";
const { Negentropy, NegentropyStorageVector } = nip77;
let storage, session;
for await (const line of createInterface({ input: process.stdin })) {
  const [word, first, second] = line.split(",");
  if (word === "limit") {
    storage = new NegentropyStorageVector();
    session = new Negentropy(storage, Number(first) || 2 ** 31);
  } else if (word === "item") {
    storage.insert(Number(first), second);
  } else if (word === "seal") {
    storage.seal();
  } else if (word === "initiate") {
    process.stdout.write(`msg,${session.initiate()}\\n`);
  } else if (word === "msg") {
    const lines = [];
    const note = (what) => (id) => lines.push(`${what},${id}`);
    const reply = session.reconcile(first, note("have"), note("need"));
    lines.push(reply === null ? "done" : `msg,${reply}`);
    process.stdout.write(lines.join("\\n") + "\\n");
  }
}
"""


class Found(NamedTuple):
    """What the initiator lacks (`need`) and alone has (`have`), as hex."""

    have: set[str]
    need: set[str]


class Peer:
    """A process that speaks the line protocol."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._in, self._out = process.stdin, process.stdout
        self.found = Found(set(), set())

    def load(self, items: Sequence[Item], *before: str) -> None:
        """Give it a set of items, after other lines."""
        self.found = Found(set(), set())
        lines = [*before, *(f"item,{stamp},{key.hex()}" for stamp, key in items), "seal"]
        self._in.write("\n".join(lines) + "\n")

    def initiate(self) -> bytes:
        """Its first message."""
        return self._ask("initiate") or b""

    def reconcile(self, message: bytes) -> bytes | None:
        """Its answer, None for `done`; what it learns is added to `found`."""
        return self._ask(f"msg,{message.hex()}")

    def _ask(self, line: str) -> bytes | None:
        self._in.write(line + "\n")
        self._in.flush()
        while True:
            word, _, rest = self._out.readline().rstrip("\n").partition(",")
            if word == "msg":
                return bytes.fromhex(rest)
            if word == "done":
                return None
            assert word in ("have", "need"), f"the peer ended or said {word!r}"
            getattr(self.found, word).add(rest)


@contextmanager
def started(
    command: Sequence[str], *, env: Mapping[str, str] | None = None, cwd: Path | None = None
) -> Iterator[Peer]:
    """A running peer, ended afterwards."""
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env, cwd=cwd
    ) as process:
        try:
            yield Peer(process)
        finally:
            process.kill()


def we_ask(ours: Sequence[Item], peer: Peer, frame_limit: int) -> Found:
    """A session with us as the initiator; what the peer learned counts too, the other way round."""
    client = Initiator(seal(ours), frame_limit=frame_limit)
    have: set[str] = set()
    need: set[str] = set()
    message: bytes | None = client.initiate()
    while message is not None:
        assert not frame_limit or len(message) <= frame_limit
        said = client.reconcile(peer.reconcile(message) or NOTHING_MORE)
        have.update(said.have.hex())
        need.update(said.need.hex())
        message = said.message
        assert client.rounds < 500
    return Found(have | peer.found.need, need | peer.found.have)


def they_ask(ours: Sequence[Item], peer: Peer, frame_limit: int) -> Found:
    """A session with the peer as the initiator: what it found."""
    server = Responder(seal(ours), frame_limit=frame_limit)
    message: bytes | None = peer.initiate()
    while message is not None:
        reply = server.reconcile(message)
        assert not frame_limit or len(reply) <= frame_limit
        message = peer.reconcile(reply)
        assert server.rounds < 500
    return peer.found
