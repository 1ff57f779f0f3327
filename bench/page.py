"""The page docs/benchmarks.md, made of what the benchmarks left in bench/results/."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.report import RESULTS, quantity

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

PAGE = Path(__file__).parents[1] / "docs" / "benchmarks.md"

HEAD = """# Benchmarks

<!-- Made by `make bench-page` of what `make bench` left in bench/results/. -->

This page is for readers who ask how fast nostr-tally is, compared with other projects. `make
bench` runs every benchmark on your machine, and `make bench-page` writes this page from the
results.

A benchmark measures our code and the code of another project (the peer) in the same run on the
same machine. A ratio above 1 means that our result is better. Times are CPU time unless a row
says otherwise, because other programs on the machine make wall times longer. We set each target
ourselves, and the page also lists each missed target.
"""


def page(folder: Path = RESULTS, names: Iterable[str] = ()) -> str:
    """The text of the page. Quick runs are left out: their figures are not for quoting.

    Of `names`, those without a full result are named at the end.
    """
    found = [json.loads(path.read_text("utf-8")) for path in sorted(folder.glob("*.json"))]
    full = [one for one in found if not one["quick"]]
    parts = [HEAD, *_origin(full), *map(_section, full)]
    if left := missing(folder, names):
        told = "\n".join(f"- `python -m bench.{name}`" for name in left)
        parts.append(f"## Without a result\n\nNot run here, or not run through:\n\n{told}\n")
    return "\n".join(parts)


def _origin(documents: list[dict[str, Any]]) -> list[str]:
    """Return the paragraph that names the measured commits, if any section has figures."""
    names: dict[str, list[str]] = {}
    for one in documents:
        names.setdefault(one.get("commit") or "an unknown commit", []).append(one["bench"])
    if not names:
        return []
    of = "\n".join(f"- {commit}: {', '.join(benches)}" for commit, benches in names.items())
    return [
        "The list shows which commit each section measured. Later commits may be faster or slower."
        f"\n\n{of}\n"
    ]


def _section(document: dict[str, Any]) -> str:
    day = datetime.fromtimestamp(document["at"], UTC).date()
    commit = f", commit {document['commit']}" if document.get("commit") else ""
    load = f", load {document['load']:.1f}" if "load" in document else ""
    lines = [
        f"## {document['bench']}",
        "",
        f"{day}{commit}, Python {document['python']}, {document['machine']}{load}; "
        f"`python -m bench.{document['bench']}`.",
        "",
        "| What | Ours | Theirs | Peer | Ratio | Target | |",
        "|---|---|---|---|---|---|---|",
        *(_row(row) for row in document["rows"]),
        "",
        *_misses(document["rows"]),
        *(f"- {_cell(note)}" for note in document["notes"]),
    ]
    return "\n".join(lines).rstrip() + "\n"


def _misses(rows: Iterable[dict[str, Any]]) -> Iterator[str]:
    """Yield a sentence for each missed target; targets missed for the same reason share one."""
    targets: dict[str, list[str]] = {}
    for row in rows:
        if row["met"] is False:
            targets.setdefault(row.get("why") or "the reason is not known", []).append(row["what"])
    for why, missed in targets.items():
        yield f"- Missed: {_cell('; '.join(missed))}. Why: {_cell(why)}."


def _row(row: dict[str, Any]) -> str:
    unit = row["unit"]
    theirs = "" if row["theirs"] is None else quantity(row["theirs"], unit)
    ratio = "" if row["ratio"] is None else f"{row['ratio']:.2f}x"
    met = {None: "", True: "met", False: "**missed**"}[row["met"]]
    return _cells(
        row["what"], quantity(row["ours"], unit), theirs, row["peer"], ratio, row["target"], met
    )


def _cells(*cells: str) -> str:
    return f"| {' | '.join(map(_cell, cells))} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ").replace("<=", "≤").replace(">=", "≥")


def missing(folder: Path, names: Iterable[str]) -> list[str]:
    """Benchmarks that left no full result in `folder`."""
    quick = {
        path.stem: json.loads(path.read_text("utf-8"))["quick"] for path in folder.glob("*.json")
    }
    return [name for name in names if quick.get(name, True)]
