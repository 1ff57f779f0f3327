"""Two commits side by side: `python -m bench.compare OLD NEW [NAME…] [--quick]`.

Each benchmark runs for both commits, one after the other, each in its own checkout and with this
interpreter, so that a busy minute of the machine hits both. A ratio above 1 means that NEW is
better. A commit that lacks a benchmark, or a row, has no figure there.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from bench.__main__ import usual
from bench.report import quantity

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[1]

Rows = dict[str, dict[str, Any]]
"""Rows of one benchmark by what they measure."""


@contextmanager
def checkout(commit: str) -> Iterator[Path]:
    """Check a commit out into a folder of its own, and remove it at the end."""
    with tempfile.TemporaryDirectory() as parent:
        folder = Path(parent) / "tree"
        git = ("git", "-C", str(ROOT), "worktree")
        subprocess.run((*git, "add", "--quiet", "--detach", str(folder), commit), check=True)
        try:
            yield folder
        finally:
            subprocess.run((*git, "remove", "--force", str(folder)), check=True)


def run(tree: Path, name: str, *, quick: bool) -> Rows:
    """Run one benchmark of a checkout. Returns no rows if it is absent or fails."""
    command = [sys.executable, "-m", f"bench.{name}", *(["--quick"] if quick else [])]
    with tempfile.TemporaryDirectory() as out:
        done = subprocess.run(
            [*command, "--out", out], cwd=tree, check=False, stdout=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": str(tree)},
        )  # fmt: skip
        result = Path(out) / f"{name}.json"
        if done.returncode or not result.exists():
            return {}
        return {one["what"]: one for one in json.loads(result.read_text("utf-8"))["rows"]}


def table(name: str, old: Rows, new: Rows) -> Table:
    """Return one benchmark's rows, in the order of the new commit."""
    found = Table("what", "old", "new", "new beside old", title=name)
    for what in dict.fromkeys((*new, *old)):
        before, after = old.get(what), new.get(what)
        found.add_row(what, _shown(before), _shown(after), _ratio(before, after))
    return found


def _shown(row: dict[str, Any] | None) -> str:
    return "" if row is None else quantity(row["ours"], row["unit"])


def _ratio(before: dict[str, Any] | None, after: dict[str, Any] | None) -> str:
    """Return how many times better the new figure is; rates are better when they are larger."""
    if before is None or after is None or not before["ours"] or not after["ours"]:
        return ""
    larger = "/s" in after["unit"] or (after["theirs"] is None and after["target"].startswith(">="))
    ratio = after["ours"] / before["ours"]
    return f"{ratio if larger else 1 / ratio:.2f}x"


def main() -> int:
    """Print a table for each benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("names", nargs="*", default=usual())
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    console = Console(width=None if sys.stdout.isatty() else 140)
    with checkout(options.old) as old, checkout(options.new) as new:
        for name in options.names:
            rows = [run(tree, name, quick=options.quick) for tree in (old, new)]
            console.print(table(name, *rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
