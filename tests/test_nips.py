"""The table of NIPs says of the local relay what the relay says of itself."""

from __future__ import annotations

import re
from pathlib import Path
from typing import cast

from agent.relay.info import document
from agent.relay.options import RelayOptions

PAGE = (Path(__file__).parents[1] / "docs/reference/nips.md").read_text("utf-8")
ROWS = re.findall(r"^\| (\d\d) [^|]*\| ([^|]*) \| ([^|]*) \|$", PAGE, re.MULTILINE)


def test_the_relays_column() -> None:
    told = cast(
        "list[int]", document(RelayOptions(), search=True, write_restricted=False)["supported_nips"]
    )
    served = {int(nip) for nip, _, relay in ROWS if relay not in ("no", "–", "as any event")}
    assert served == set(told)


def test_the_rows_are_in_order() -> None:
    numbers = [int(nip) for nip, _, _ in ROWS]
    assert len(numbers) > 15
    assert numbers == sorted(set(numbers))
