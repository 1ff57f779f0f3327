"""Run the benchmarks of this folder, or those named: `python -m bench [NAME…] [--quick]`.

Without names, those that take ten minutes alone are left out: `make bench-growth` and `make
bench-spark` run them.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parent
APART = ("growth", "reindex")


def names() -> list[str]:
    """Every module here that reports and can be run by itself; the others are its parts."""
    texts = {path.stem: path.read_text("utf-8") for path in FOLDER.glob("[!_]*.py")}
    marks = (" = Report(", 'if __name__ == "__main__"')
    return sorted(name for name, text in texts.items() if all(mark in text for mark in marks))


def usual() -> list[str]:
    """The benchmarks that run without names."""
    return [name for name in names() if name not in APART]


def main() -> int:
    """Each in a process of its own, so that one cannot warm up or crowd the next."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=usual())
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    flags = ["--quick"] if options.quick else []
    failed = [
        name
        for name in options.names
        if subprocess.call([sys.executable, "-m", f"bench.{name}", *flags], cwd=FOLDER.parent)
    ]
    if failed:
        print(f"did not run through: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
