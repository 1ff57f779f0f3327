"""Negentropy: CPU seconds to seal both sides and to reconcile them, beside other implementations.

Beside nostr-tools (node, both sides), and beside any program that NEGENTROPY_PROGRAM names, such as
one over the reference C++: it is called with two files of items (8 bytes of timestamp, little
endian, and 32 of id) and the two frame limits, runs a session between them and prints JSON with
`seconds`, the CPU time without reading the files. The items are in no order.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from bench.report import Report, arguments, cpu_once
from nostr_client.negentropy.bridge import Bridge
from nostr_client.negentropy.chunks import CHUNK_ITEMS, ChunkedStorage, ChunkHeader, head_of, record
from nostr_client.negentropy.columns import ArrayStorage
from nostr_client.negentropy.reconcile import Initiator, Responder

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Records = NDArray[np.void]

SEED = 77
RECORD = np.dtype([("stamp", "<u8"), ("id", "<u8", 4)])
REPEAT = 3
PROGRAM = os.environ.get("NEGENTROPY_PROGRAM", "")
SIZES = (100_000, 1_000_000)
QUICK_SIZES = (6_000,)
LIMITS = ((0, 0), (60_000, 60_000), (60_000, 500_000))

# Without the protocol's other half in nostr-tools, its responder says what it learned of a list
# instead of answering with its own: the work is the same, and so is the number of messages.
NOSTR_TOOLS = """
import { readFileSync } from "node:fs";
import { nip77 } from "nostr-tools";
function load(path) {
  const raw = readFileSync(path), storage = new nip77.NegentropyStorageVector();
  for (let at = 0; at < raw.length; at += 40) {
    storage.insert(Number(raw.readBigUInt64LE(at)), raw.toString("hex", at + 8, at + 40));
  }
  return storage;
}
function main([first, second, ours, theirs]) {
  const storages = [load(first), load(second)], start = process.cpuUsage();
  storages.forEach((storage) => storage.seal());
  const client = new nip77.Negentropy(storages[0], ours || 2 ** 31);
  const server = new nip77.Negentropy(storages[1], theirs || 2 ** 31);
  let found = 0, message = client.initiate();
  const note = () => { found++; };
  while (message) {
    const answer = server.reconcile(message, note, note);
    message = answer && client.reconcile(answer, note, note);
  }
  const used = process.cpuUsage(start);
  return { seconds: (used.user + used.system) / 1e6, found };
}
"""


class Case(NamedTuple):
    """Two sets: `differing` of the items are on one side only, or one side is empty."""

    name: str
    differing: float = 0.0
    empty: int | None = None


CASES = (
    Case("identical"),
    Case("1 %", 0.01),
    Case("10 %", 0.1),
    Case("we have nothing", empty=0),
    Case("they have nothing", empty=1),
)


def sides(count: int, case: Case) -> tuple[Records, Records]:
    rand = np.random.default_rng((SEED, count))
    items = np.empty(count, RECORD)
    items["stamp"] = 1_700_000_000 + rand.integers(0, count, count)
    items["id"] = rand.integers(0, 2**64, (count, 4), dtype=np.uint64)
    place = rand.random(count)
    half = case.differing / 2
    masks = [place >= half, (place < half) | (place >= 2 * half)]
    if case.empty is not None:
        masks[case.empty] = np.zeros(count, dtype=bool)
    return items[masks[0]], items[masks[1]]


def session(ours: Records, theirs: Records, limits: tuple[int, int]) -> dict[str, float]:
    """Seconds of one whole session, and what it took."""
    columns = [(s["stamp"].copy(), s["id"].copy()) for s in (ours, theirs)]
    told = {"up": 0, "down": 0, "found": 0}

    def run() -> None:
        client = Initiator(ArrayStorage(*columns[0]), frame_limit=limits[0])
        server = Responder(ArrayStorage(*columns[1]), frame_limit=limits[1])
        message: bytes | None = client.initiate()
        while message is not None:
            answer = server.reconcile(message)
            said = client.reconcile(answer)
            told["up"] += len(message)
            told["down"] += len(answer)
            told["found"] += len(said.have) + len(said.need)
            message = said.message
        told["rounds"] = client.rounds

    return {"seconds": cpu_once(run), **told}


def best(run: Callable[[], dict[str, float]], repeat: int) -> dict[str, float]:
    return min((run() for _ in range(repeat)), key=lambda result: result["seconds"])


def target(peer: str, count: int, case: Case, limits: tuple[int, int]) -> float | None:
    """How many times faster ours is to be."""
    if peer == "nostr-tools":
        return 15.0
    if limits == (0, 0):
        return 1 / 1.6
    if count == 1_000_000 and limits == (60_000, 60_000):
        return {"1 %": 2.0, "10 %": 4.0}.get(case.name)
    return None


def by_program(files: list[str], limits: tuple[int, int]) -> dict[str, float]:
    command = [*shlex.split(PROGRAM), *files, *map(str, limits)]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    result: dict[str, float] = json.loads(run.stdout)
    return result


def nostr_tools(report: Report) -> Callable[[list[str], tuple[int, int]], dict[str, float]] | None:
    try:
        from tests.peers.node import packages, run_js

        packages()
    except BaseException as error:  # noqa: BLE001  pytest's own skip is no Exception
        report.note(f"nostr-tools was not measured: {error}")
        return None

    def run(files: list[str], limits: tuple[int, int]) -> dict[str, float]:
        result: dict[str, float] = run_js(NOSTR_TOOLS, [*files, *limits], seconds=600)
        return result

    return run


def compare(report: Report, folder: Path, quick: bool) -> None:
    javascript = nostr_tools(report)
    if not PROGRAM:
        report.note("NEGENTROPY_PROGRAM is not set, so the peer is the JavaScript implementation.")
    for count in QUICK_SIZES if quick else SIZES:
        for case in CASES:
            both = sides(count, case)
            files = [str(folder / name) for name in ("ours", "theirs")]
            for path, items in zip(files, both, strict=True):
                items.tofile(path)
            for limits in LIMITS:
                ours = best(partial(session, *both, limits), REPEAT)
                rows = {}
                if PROGRAM:
                    slow = limits[0] and count == 1_000_000
                    rows[Path(shlex.split(PROGRAM)[0]).name] = best(
                        partial(by_program, files, limits),
                        1 if slow else REPEAT,
                    )
                if javascript and (count <= 100_000 or limits == (0, 0)):
                    rows["nostr-tools"] = javascript(files, limits)
                tell(report, count, case, limits, ours, rows)


def tell(
    report: Report,
    count: int,
    case: Case,
    limits: tuple[int, int],
    ours: dict[str, float],
    rows: dict[str, dict[str, float]],
) -> None:
    frames = "no limit" if limits == (0, 0) else f"{limits[0] // 1000}/{limits[1] // 1000} kB"
    told = f"{ours['rounds']} rounds, {_kb(ours['up'] + ours['down'])}"
    what = f"{count:,} items, {case.name}, {frames} ({told})"
    for peer, theirs in rows.items():
        report.time(
            what, ours["seconds"], peer=peer, theirs=theirs["seconds"],
            at_least=target(peer, count, case, limits),
        )  # fmt: skip
    if not rows:
        report.figure(what, ours["seconds"], "s")


def _kb(size: float) -> str:
    return f"{size / 1000:,.0f} kB"


def memory(report: Report, count: int) -> None:
    ours, _ = sides(count, CASES[0])
    sealed = ArrayStorage(ours["stamp"].copy(), ours["id"].copy())
    report.figure("memory", sealed.nbytes / count, "bytes an item", at_most=60)


def between(report: Report, count: int) -> None:
    """Two answering sides compared by a third, which holds neither; beside a list of all ids."""
    for share in (0.0, 0.001, 0.01, 0.1):
        case = Case(f"{share:.1%}", share)
        both = sides(count, case)
        answers = [
            Responder(ArrayStorage(s["stamp"].copy(), s["id"].copy()), frame_limit=500_000)
            for s in both
        ]
        bridge = Bridge(bytes(16))
        size = rounds = found = 0
        spent = 0.0
        while not bridge.done:
            rounds += 1
            for side, answer in enumerate(answers):
                begun = time.process_time()
                message = bridge.ask(side, 50_000)
                spent += time.process_time() - begun
                if message is None:
                    continue
                reply = answer.reconcile(message)
                size += len(message) + len(reply)
                begun = time.process_time()
                found += sum(map(len, bridge.hear(side, reply)))
                spent += time.process_time() - begun
        told = (
            f"{rounds} rounds, {found:,} found, {_kb(size)}, lists {_kb(sum(map(len, both)) * 32)}"
        )
        what = f"between two of {count:,}, {case.name}"
        report.figure(f"{what} ({told})", spent * 1000, "ms")


def kept(report: Report, items: int) -> None:
    """A session over a directory of chunks: how long until its first message, and the whole."""
    count = items // CHUNK_ITEMS

    def load(at: int) -> bytes:
        rand = np.random.default_rng((SEED, at))
        ids = rand.bytes(32 * CHUNK_ITEMS)
        return b"".join(
            record(at * CHUNK_ITEMS + k, ids[32 * k : 32 * k + 32]) for k in range(CHUNK_ITEMS)
        )

    heads = [head_of(load(at)) for at in range(count)]
    made: dict[int, bytes] = {}
    fewer = heads[: -max(1, min(10_000, items // 10) // CHUNK_ITEMS)]

    def chunk(at: int) -> bytes:
        if at not in made:
            made[at] = load(at)
        return made[at]

    def storage(of: list[ChunkHeader]) -> ChunkedStorage:
        return ChunkedStorage(of, chunk)

    def run() -> None:
        client, server = Initiator(storage(fewer), frame_limit=60_000), Responder(storage(heads))
        message: bytes | None = client.initiate()
        while message is not None:
            message = client.reconcile(server.reconcile(message)).message

    run()
    first = min(cpu_once(lambda: Initiator(storage(heads)).initiate()) for _ in range(REPEAT))
    whole = min(cpu_once(run) for _ in range(REPEAT))
    report.figure(f"first message over {count * CHUNK_ITEMS:,} kept items", first * 1000, "ms")
    missing = (len(heads) - len(fewer)) * CHUNK_ITEMS
    report.figure(f"  a whole session, the newest {missing:,} missing", whole * 1000, "ms")


def main(argv: list[str] | None = None) -> int:
    options = arguments(__doc__, argv)
    report = Report("negentropy", options)
    with tempfile.TemporaryDirectory(prefix="bench-negentropy-") as folder:
        compare(report, Path(folder), options.quick)
    between(report, 6_000 if options.quick else 1_000_000)
    memory(report, 6_000 if options.quick else 1_000_000)
    kept(report, 60_000 if options.quick else 2_000_000)
    report.finish()
    return 0


if __name__ == "__main__":
    sys.exit(main())
