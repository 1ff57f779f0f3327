"""The progress lines of a sync: what they say, and where they are silent."""

from __future__ import annotations

import io
import sys

import pytest
from rich.console import Console

from nostr_client.cli.sync.commands import SyncBars, saved_bytes, sync_bars
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


class Terminal(io.StringIO):
    """A stderr that says that it is a terminal, or not."""

    def __init__(self, *, terminal: bool) -> None:
        super().__init__()
        self._terminal = terminal

    def isatty(self) -> bool:
        return self._terminal


def test_a_line_for_each_relay_on_a_terminal() -> None:
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=160, color_system=None)
    with SyncBars(console) as bars:
        bars.update(RELAYS)
        bars.update(RELAYS)
    text = out.getvalue()
    assert "wss://relay.0.example" in text
    assert "wss://relay.1.example" in text
    assert "3 rounds, need 40, have 10, down 30, up 10, saved 675,000 bytes" in text


@pytest.mark.parametrize(
    ("terminal", "shown", "drawn"),
    [(True, True, True), (False, True, False), (True, False, False)],
)
def test_bars_on_a_terminal_only_if_wanted(
    terminal: bool, shown: bool, drawn: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stderr", Terminal(terminal=terminal))
    with sync_bars(shown=shown) as update:
        assert (update is not None) == drawn


def test_what_costs_more_than_a_full_transfer_saves_nothing() -> None:
    tiny = RelayReport(relay="x", status=SyncStatus.COMPLETE, compared=1, bytes_received=10_000)
    assert saved_bytes(tiny) == 0
