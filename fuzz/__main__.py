"""`python -m fuzz TARGET [libFuzzer flags]`, e.g. `python -m fuzz event -runs=100000`."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["nostr_client", "agent"]):
    from fuzz.targets import REFUSALS, TARGETS


def main(name: str, flags: list[str]) -> None:
    """Run a target until a finding, or as long as the flags say."""
    target, seed = TARGETS[name]

    def one(data: bytes) -> None:
        try:
            target(data)
        except REFUSALS:
            return

    with tempfile.TemporaryDirectory() as corpus:
        (Path(corpus) / "seed").write_bytes(seed)
        atheris.Setup(["fuzz", *flags, corpus], one)
        atheris.Fuzz()


if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1] not in TARGETS:
        sys.exit(f"usage: python -m fuzz {{{','.join(TARGETS)}}} [libFuzzer flags]")
    main(sys.argv[1], sys.argv[2:])
