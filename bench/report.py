"""What every benchmark shares: CPU timing, comparison with a peer, the printed table, the JSON.

CPU time and not the clock on the wall: the machines are shared. A target stands beside its result
and is never asserted: a benchmark tells, a test decides.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import time
from dataclasses import asdict, dataclass, field
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

RESULTS = Path(__file__).parent / "results"

_OF_PROCESS = 2
"""Of a clock's number on Linux: the CPU time of a whole process."""


def cpu_seconds(call: Callable[[], object], *, repeat: int = 5, at_least: float = 0.05) -> float:
    """CPU seconds of this process for one call: the best of `repeat` runs.

    A run is as many calls as take `at_least` seconds, found by doubling; all threads count.
    """
    calls = 1
    while (spent := _run(call, calls)) < at_least:
        calls *= max(2, min(16, int(at_least / max(spent, 1e-9))))
    return min([spent, *(_run(call, calls) for _ in range(repeat - 1))]) / calls


def cpu_once(call: Callable[[], object]) -> float:
    """CPU seconds of this process for exactly one call, for work that takes seconds."""
    return _run(call, 1)


def cpu_of_child(command: Sequence[str], *, stdin: bytes = b"") -> tuple[float, bytes]:
    """CPU seconds (user and system) of a child process and its stdout; raises if it fails."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    run = subprocess.run(command, input=stdin, stdout=subprocess.PIPE, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return spent, run.stdout


def peak_rss_mib() -> float:
    """The most memory that this process has held so far, in MiB."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 2**10)


def memory_mib(pid: int | None = None) -> float:
    """The memory that a process holds now, in MiB. Without `pid`, that of this process, or the most
    that it has held, where /proc is absent."""
    try:
        pages = int(Path(f"/proc/{pid or 'self'}/statm").read_text("ascii").split()[1])
    except OSError:
        if pid is not None:
            raise
        return peak_rss_mib()
    return pages * resource.getpagesize() / 2**20


def cpu_of(pid: int) -> float:
    """CPU seconds of a running process so far, user and system (Linux; 0 elsewhere)."""
    try:
        return time.clock_gettime(~pid << 3 | _OF_PROCESS)
    except OSError:
        return 0.0


def arguments(description: str | None, argv: Sequence[str] | None = None) -> argparse.Namespace:
    """`--quick` (seconds in all, figures not for quoting) and `--out FOLDER` for the JSON."""
    parser = argparse.ArgumentParser(description=(description or "").split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="small sizes: does it run at all")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder for the JSON result")
    return parser.parse_args(argv)


@dataclass
class Row:
    """One line: our figure, a peer's, and how many times better ours is."""

    what: str
    ours: float
    unit: str
    peer: str = ""
    theirs: float | None = None
    ratio: float | None = None
    target: str = ""
    met: bool | None = None
    why: str = ""
    """Where the target is missed: a sentence that says why."""


@dataclass
class Report:
    """Collects rows, then `finish()` prints them and writes `<out>/<name>.json`.

    `why` of a row with a target is a sentence, which the page shows where the target is missed.
    """

    name: str
    options: argparse.Namespace
    rows: list[Row] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    load: float = field(default_factory=lambda: os.getloadavg()[0])
    """The machine's load when the benchmark begins, so without the benchmark's own."""

    def time(
        self,
        what: str,
        ours: float,
        *,
        peer: str,
        theirs: float,
        at_least: float | None = None,
        why: str = "",
    ) -> None:
        """Seconds for the same work; the target is peer / ours >= `at_least`."""
        self._compare(Row(what, ours, "s", peer, theirs, theirs / ours, why=why), at_least)

    def rate(
        self,
        what: str,
        ours: float,
        *,
        peer: str,
        theirs: float,
        unit: str = "/s",
        at_least: float | None = None,
        why: str = "",
    ) -> None:
        """Work per second of CPU; the target is ours / peer >= `at_least`."""
        self._compare(Row(what, ours, unit, peer, theirs, ours / theirs, why=why), at_least)

    def figure(
        self,
        what: str,
        value: float,
        unit: str,
        *,
        at_most: float | None = None,
        at_least: float | None = None,
        why: str = "",
    ) -> None:
        """A figure that has a limit instead of a peer, or neither."""
        row = Row(what, value, unit, why=why)
        if at_most is not None:
            row.target, row.met = f"<= {quantity(at_most, unit)}", value <= at_most
        elif at_least is not None:
            row.target, row.met = f">= {quantity(at_least, unit)}", value >= at_least
        self.rows.append(row)

    def note(self, text: str) -> None:
        """A line below the table: a peer that is not here, and why."""
        self.notes.append(text)

    def versions(self, *distributions: str) -> None:
        """Note the versions of peers from PyPI, as far as they are installed."""
        known = {d.name: d.version for d in map(_installed, distributions) if d is not None}
        if known:
            self.note(
                f"Versions of the peers: {', '.join(f'{name} {at}' for name, at in known.items())}."
            )

    def finish(self) -> None:
        """Print the table and the notes, write the JSON."""
        console = Console(width=None if sys.stdout.isatty() else 140)
        console.print(self._table())
        for text in self.notes:
            console.print(f"  note: {text}", markup=False)
        self.options.out.mkdir(parents=True, exist_ok=True)
        path = self.options.out / f"{self.name}.json"
        path.write_text(json.dumps(self._document(), indent=1) + "\n", "utf-8")

    def _compare(self, row: Row, at_least: float | None) -> None:
        if at_least is not None and row.ratio is not None:
            row.target, row.met = f">= {at_least:g}x", row.ratio >= at_least
        self.rows.append(row)

    def _table(self) -> Table:
        table = Table(title=f"{self.name}{' (quick)' if self.options.quick else ''}")
        table.add_column("what")
        for column in ("ours", "theirs"):
            table.add_column(column, justify="right")
        table.add_column("peer")
        for column in ("ratio", "target", ""):
            table.add_column(column, justify="right")
        for row in self.rows:
            theirs = "" if row.theirs is None else quantity(row.theirs, row.unit)
            ratio = "" if row.ratio is None else f"{row.ratio:.2f}x"
            met = {None: "", True: "met", False: "MISSED"}[row.met]
            ours = quantity(row.ours, row.unit)
            table.add_row(row.what, ours, theirs, row.peer, ratio, row.target, met)
        return table

    def _document(self) -> dict[str, object]:
        return {
            "bench": self.name,
            "quick": self.options.quick,
            "at": int(time.time()),
            "commit": _commit(),
            "python": platform.python_version(),
            "machine": f"{platform.machine()}, {os.cpu_count()} cores",
            "load": round(self.load, 1),
            "rows": [asdict(row) for row in self.rows],
            "notes": self.notes,
        }


def _commit() -> str:
    """The commit that is measured, where this is a checkout and git is there; else ""."""
    command = ["git", "-C", str(RESULTS.parent), "rev-parse", "--short", "HEAD"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip()


def _run(call: Callable[[], object], calls: int) -> float:
    start = time.process_time()
    for _ in range(calls):
        call()
    return time.process_time() - start


def quantity(value: float, unit: str) -> str:
    """A value with its unit, times in the unit that fits."""
    if unit != "s":
        return f"{_short(value)} {unit}".rstrip()
    for scale, name in ((1, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if value >= scale:
            return f"{value / scale:.3g} {name}"
    return f"{value * 1e9:.3g} ns"


def _short(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def _installed(name: str) -> Distribution | None:
    try:
        return distribution(name)
    except PackageNotFoundError:
        return None
