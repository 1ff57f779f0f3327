"""Every benchmark runs through in its quick form and leaves a readable result; no time asserted."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pytest

from bench.__main__ import names
from bench.compare import checkout, table
from bench.page import missing, page
from bench.report import Report

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("name", names())
def test_quick_form_runs(name: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", f"bench.{name}", "--quick", "--out", str(tmp_path)]
    run = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=170, check=False
    )
    assert run.returncode == 0, run.stderr
    document = json.loads((tmp_path / f"{name}.json").read_text("utf-8"))
    assert document["quick"] is True
    assert document["rows"] or document["notes"]
    for row in document["rows"]:
        assert row["ours"] >= 0


def test_the_page_shows_full_results_alone(tmp_path: Path) -> None:
    options = argparse.Namespace(quick=False, out=tmp_path)
    report = Report("one", options)
    report.time("a thing", 0.002, peer="other 1.2", theirs=0.006, at_least=4, why="it is slow")
    report.rate("another", 4.0, peer="other 1.2", theirs=3.0, at_least=2, why="it is slow")
    report.figure("a third", 4.0, "MB", at_most=2)
    report.figure("memory", 12.5, "MB", at_most=20)
    report.figure("a start", 0.157, "s", at_most=1)
    report.note("no | peer")
    report.finish()
    Report("two", argparse.Namespace(quick=True, out=tmp_path), notes=["quick"]).finish()
    text = page(tmp_path, ["one", "three"])
    assert "| a thing | 2 ms | 6 ms | other 1.2 | 3.00x | ≥ 4x | **missed** |" in text
    assert "- Missed: a thing; another. Why: it is slow.\n" in text
    assert "- Missed: a third. Why: the reason is not known.\n" in text
    assert "| memory | 12.5 MB |  |  |  | ≤ 20 MB | met |" in text
    assert "| a start | 157 ms |  |  |  | ≤ 1 s | met |" in text
    assert "- no \\| peer" in text
    assert "## two" not in text
    document = json.loads((tmp_path / "one.json").read_text("utf-8"))
    assert f"- {document['commit'] or 'an unknown commit'}: one\n" in text
    assert f"cores, load {document['load']:.1f}; `python -m bench.one`" in text
    assert text.endswith("not run through:\n\n- `python -m bench.three`\n")
    assert missing(tmp_path, ["one", "two", "three"]) == ["two", "three"]


def test_two_commits_stand_side_by_side() -> None:
    """Less time is better, and so is a higher rate; what one commit lacks has no ratio."""
    options = argparse.Namespace(quick=True, out=Path())
    old, new = Report("one", options), Report("one", options)
    for report, factor in ((old, 1.0), (new, 2.0)):
        report.time("a time", 0.5 * factor, peer="other", theirs=1.0, at_least=1)
        report.rate("a rate", 10.0 * factor, peer="other", theirs=1.0)
        report.figure("a share", 0.25 * factor, "x", at_least=0.8)
        report.figure("memory", 100.0 * factor, "MB", at_most=200)
    new.figure("new here", 1.0, "s")
    rows = [{one.what: asdict(one) for one in report.rows} for report in (old, new)]
    shown = [list(column.cells) for column in table("one", *rows).columns]
    assert shown[0] == ["a time", "a rate", "a share", "memory", "new here"]
    assert shown[3] == ["0.50x", "2.00x", "2.00x", "0.50x", ""]


def test_a_checkout_of_a_commit_is_whole_and_goes_again() -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    with checkout("HEAD") as tree:
        assert (tree / "bench" / "report.py").exists()
    assert not tree.exists()
