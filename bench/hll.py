"""Sketches against PyPI HLL, rhll, datasketch, and go-nostr where Go is: adds, merges, estimates.

All with 256 registers. The peers hash what they are given; NIP-45 takes the bits of the pubkey as
they are, which is part of why ours is faster and is what the relays do.
"""

from __future__ import annotations

import importlib
import json
import shutil
import subprocess
import sys
import tempfile
import warnings
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bench.report import Report, arguments, cpu_seconds
from nostr_client import hll

if TYPE_CHECKING:
    from collections.abc import Callable

SEED = 45
OFFSET = 12
SKETCHES = 8
SIZES = (100, 1_000, 10_000, 1_000_000)
GO_MODULE = "github.com/nbd-wtf/go-nostr@v0.52.3"
GO_PROGRAM = """
package main

import (
	"encoding/json"
	"fmt"
	"math/rand"
	"os"
	"syscall"

	"github.com/nbd-wtf/go-nostr/nip45/hyperloglog"
)

func cpu() float64 {
	var used syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &used)
	return float64(used.Utime.Nano()+used.Stime.Nano()) / 1e9
}

func main() {
	keys := make([]byte, 32*10000)
	rand.New(rand.NewSource(45)).Read(keys)
	fill := func(h *hyperloglog.HyperLogLog) {
		for i := 0; i < len(keys); i += 32 {
			h.AddBytes(keys[i : i+32])
		}
	}
	a, b := hyperloglog.New(12), hyperloglog.New(12)
	fill(a)
	b.AddBytes(keys[:32])
	seconds := func(f func()) float64 {
		best := 1.0
		for round := 0; round < 5; round++ {
			calls, start := 0, cpu()
			for cpu()-start < 0.05 {
				for i := 0; i < 100; i++ {
					f()
				}
				calls += 100
			}
			best = min(best, (cpu()-start)/float64(calls))
		}
		return best
	}
	out := map[string]float64{
		"batch":    seconds(func() { fill(hyperloglog.New(12)) }),
		"merge":    seconds(func() { b.Merge(a) }),
		"estimate": seconds(func() { a.Count() }),
	}
	text, _ := json.Marshal(out)
	fmt.Fprintln(os.Stdout, string(text))
}
"""


def random_keys(n: int, seed: int = SEED) -> np.ndarray[Any, np.dtype[np.uint8]]:
    return np.random.default_rng((SEED, n, seed)).integers(0, 256, (n, 32), dtype=np.uint8)


class Peer:
    """One sketch library behind the three verbs that are compared."""

    def __init__(self, name: str, make: Callable[[], Any], add: str, count: str) -> None:
        self.name, self.make, self.count = name, make, count
        self._add = add

    def filled(self, keys: list[bytes]) -> Any:
        sketch = self.make()
        add = getattr(sketch, self._add)
        for key in keys:
            add(key)
        return sketch


def peers(report: Report) -> list[Peer]:
    found = []
    for module, name, add, count in (
        ("HLL", "PyPI HLL", "add", "cardinality"),
        ("rhll", "rhll", "update", "count"),
        ("datasketch", "datasketch", "update", "count"),
    ):
        try:
            make = importlib.import_module(module).HyperLogLog
        except ImportError:
            report.note(f"{name} is not installed. The extra `bench` installs it.")
            continue
        found.append(Peer(name, partial(make, 8), add, count))
    return found


def batches(report: Report, rivals: list[Peer], size: int) -> float:
    keys = random_keys(size)
    ours = cpu_seconds(lambda: hll.from_raw(keys, OFFSET))
    single = [key.tobytes() for key in keys]
    for peer in rivals:
        theirs = cpu_seconds(partial(peer.filled, single), at_least=0.02)
        target = 4.0 if peer.name == "PyPI HLL" else None
        report.rate(
            f"batch of {size:,} raw keys", size / ours, peer=peer.name, theirs=size / theirs,
            unit="keys/s", at_least=target,
        )  # fmt: skip
    hexadecimal = [key.hex() for key in single[:1000]]
    one_by_one = cpu_seconds(lambda: hll.from_pubkeys(iter(hexadecimal), OFFSET)) / 1000
    report.figure("1,000 pubkeys in hex", 1 / one_by_one, "keys/s")
    registers = bytearray(hll.M)
    alone = cpu_seconds(lambda: hll.add(registers, hexadecimal[0], OFFSET))
    report.figure("one pubkey in hex, no numpy", 1 / alone, "keys/s")
    return ours


def merges(report: Report, rivals: list[Peer]) -> float:
    keys = random_keys(2000)
    a, b = hll.from_raw(keys[:1000], OFFSET), hll.from_raw(keys[1000:], OFFSET)
    ours = cpu_seconds(lambda: hll.merge(a, b))
    single = [key.tobytes() for key in keys]
    for peer in rivals:
        left, right = peer.filled(single[:1000]), peer.filled(single[1000:])
        theirs = cpu_seconds(partial(left.merge, right))
        report.time("merge of two", ours, peer=peer.name, theirs=theirs)
    return ours


def estimates(report: Report, rivals: list[Peer], sizes: tuple[int, ...]) -> float:
    """Mean over several sketches of one size: how long one takes depends on where its ranks lie."""
    ours = 0.0
    for size in sizes:
        sketches = [hll.from_raw(random_keys(size, seed), OFFSET) for seed in range(SKETCHES)]
        ours = cpu_seconds(partial(_each, hll.estimate, sketches)) / SKETCHES
        for peer in rivals:
            counts = [getattr(_like(peer, s, size), peer.count) for s in sketches]
            theirs = cpu_seconds(partial(_called, counts)) / SKETCHES
            target = 2.0 if peer.name == "datasketch" else None
            what = f"estimate at {size:,}"
            report.time(what, ours, peer=peer.name, theirs=theirs, at_least=target)
    return ours


def _each(call: Callable[[bytes], float], sketches: list[bytes]) -> list[float]:
    return [call(sketch) for sketch in sketches]


def _called(counts: list[Callable[[], float]]) -> list[float]:
    return [count() for count in counts]


def _like(peer: Peer, registers: bytes, size: int) -> Any:
    """The peer's sketch of about as many keys; datasketch takes our very registers."""
    if peer.name != "datasketch":
        return peer.filled([key.tobytes() for key in random_keys(min(size, 20_000))])
    sketch = peer.make()
    sketch.reg = np.frombuffer(registers, sketch.reg.dtype).copy()
    return sketch


def go_figures(report: Report) -> dict[str, float] | None:
    """go-nostr's own CPU seconds, best of five as ours; None with a note where it cannot run."""
    go = shutil.which("go")
    if go is None:
        report.note("go-nostr was not measured, because Go is not installed.")
        return None
    with tempfile.TemporaryDirectory(prefix="bench-go-") as folder:
        Path(folder, "main.go").write_text(GO_PROGRAM, "utf-8")
        commands = (["mod", "init", "bench"], ["get", GO_MODULE], ["build", "-o", "b", "."], None)
        for arguments_ in commands:
            command = [go, *arguments_] if arguments_ else [str(Path(folder, "b"))]
            run = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
            if run.returncode:
                why = (run.stderr.strip().splitlines() or ["no reason given"])[-1]
                report.note(f"go-nostr was not measured, because its build failed: {why}")
                return None
    figures: dict[str, float] = json.loads(run.stdout)
    return figures


def against_go(report: Report, batch: float, merge: float, estimate: float) -> None:
    figures = go_figures(report)
    if figures is None:
        return
    name = GO_MODULE.rpartition("/")[2]
    report.rate(
        "batch of 10,000 raw keys", 10_000 / batch, peer=name, theirs=10_000 / figures["batch"],
        unit="keys/s",
    )  # fmt: skip
    report.time("merge of two", merge, peer=name, theirs=figures["merge"])
    report.time("estimate", estimate, peer=name, theirs=figures["estimate"])


def main(argv: list[str] | None = None) -> int:
    report = Report("hll", arguments(__doc__, argv))
    report.versions("HLL", "rhll", "datasketch")
    quick = report.options.quick
    warnings.simplefilter("ignore")  # datasketch warns near its own threshold
    rivals = peers(report)
    batch = batches(report, rivals, 10_000)
    merge = merges(report, rivals)
    estimate = estimates(report, rivals, SIZES[:1] if quick else SIZES)
    if quick:
        report.note("Only the full run measures go-nostr.")
    else:
        against_go(report, batch, merge, estimate)
    report.note("The package HLL stores its last estimate, so a repeated estimate is a lookup.")
    report.finish()
    return 0


if __name__ == "__main__":
    sys.exit(main())
