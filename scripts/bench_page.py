"""Write docs/benchmarks.md of the results in bench/results/: `python scripts/bench_page.py`."""

from __future__ import annotations

import sys

from bench.__main__ import names
from bench.page import PAGE, missing, page
from bench.report import RESULTS

PAGE.write_text(page(RESULTS, names()), "utf-8")
if left := missing(RESULTS, names()):
    sys.stderr.write(f"no full result of: {', '.join(left)}\n")
