"""The progress lines of a sync: what they say, and where they are silent."""

from __future__ import annotations

import io

from rich.console import Console

from nostr_client.cli.sync import SyncBars, saved_bytes
from nostr_client.sync.report import RelayReport, SyncStatus

RELAYS = [
    RelayReport(
        relay=f"wss://relay.{n}.example",
        status=SyncStatus.PARTIAL,
        need=40,
        have=10,
        downloaded=30,
        uploaded=10,
        rounds=3,
        compared=1_000,
        bytes_sent=5_000,
        bytes_received=20_000,
    )
    for n in range(2)
]


def drawn(*, terminal: bool, shown: bool = True) -> str:
    out = io.StringIO()
    console = Console(file=out, force_terminal=terminal, width=160, color_system=None)
    with SyncBars(console, shown=shown) as bars:
        bars.update(RELAYS)
        bars.update(RELAYS)
    return out.getvalue()


def test_a_line_for_each_relay_on_a_terminal() -> None:
    text = drawn(terminal=True)
    assert "wss://relay.0.example" in text
    assert "wss://relay.1.example" in text
    assert "3 rounds, need 40, have 10, down 30, up 10, saved 675,000 bytes" in text


def test_nothing_into_a_pipe_or_when_not_wanted() -> None:
    assert "relay" not in drawn(terminal=False)
    assert "relay" not in drawn(terminal=True, shown=False)


def test_what_costs_more_than_a_full_transfer_saves_nothing() -> None:
    tiny = RelayReport(relay="x", status=SyncStatus.COMPLETE, compared=1, bytes_received=10_000)
    assert saved_bytes(tiny) == 0
