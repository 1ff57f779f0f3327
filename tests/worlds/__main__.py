"""Run worlds by their seeds and print what they give: `python -m tests.worlds SEED...`."""

from __future__ import annotations

import sys

from tests.worlds.drawing import drawn
from tests.worlds.running import ran
from tests.worlds.shrinking import described, smaller


def main(seeds: list[int]) -> None:
    """For each seed the violations, and for each kind of them a small world that has it."""
    out = sys.stdout.write
    for seed in seeds:
        report = ran(drawn(seed))
        out(f"{seed}: {len(report.violations)} violations\n")
        for kind in sorted(report.kinds):
            small = smaller(report.world, kind)
            out("\n".join([*small.violations, described(small.world), ""]))


main([int(seed) for seed in sys.argv[1:]])
