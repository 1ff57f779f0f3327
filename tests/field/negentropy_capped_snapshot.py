"""A relay that compares its newest events alone by NIP-77, and does not say so."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from unittest import mock

from nostr_client.client import NostrClient
from nostr_client.count import queries
from nostr_client.count.reading import comparing
from tests.faulty_relay import FaultyRelay
from tests.field import field_case
from tests.negrelay import SpeaksNeg
from tests.syncing import CONNECTION
from tests.worlds import TARGET, follow

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from nostr_client.codecs.event import Event


@field_case("negentropy-capped-snapshot")
async def check(given: Any, tmp_path: Path) -> None:
    """Later counts give what the first one gave, and each of them is proven."""
    events = [follow(i) for i in range(given["events"])]
    behaviour = SpeaksNeg(snapshot=given["neg_cap"])
    with mock.patch.object(comparing, "_PATIENCE", 30.0):  # a loaded machine is slow, not silent
        await _count_thrice(given, behaviour, events, tmp_path)


async def _count_thrice(
    given: Any, behaviour: SpeaksNeg, events: Sequence[Event], tmp_path: Path
) -> None:
    async with (
        FaultyRelay(behaviour, events=events) as server,
        NostrClient(server.url, store=tmp_path / "s.db", options=CONNECTION) as client,
    ):
        for _ in range(3):
            result = await client.count(queries.followers(TARGET))
            assert result.value == given["events"]
            assert result.exact
        assert behaviour.opened, "NIP-77 was not used"
