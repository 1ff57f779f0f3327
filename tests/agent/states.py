"""States as the agent shows them, made without an agent: of a watch, of a run of a coverage."""

from __future__ import annotations

from agent.api import schema
from nostr_client.sync.coverage_report import CoverageRun, KnownKind, RelayCoverage
from nostr_client.watch import Watch
from tests.worlds import TARGET


def watch_state(figure: schema.Figure | None, name: str = "w", **more: object) -> schema.WatchState:
    """The state of a watch of the followers of TARGET."""
    spec = Watch(name=name, query="followers", target=TARGET)
    return schema.WatchState(spec=spec, origin="api", figure=figure, **more)


def coverage_run(*shares: float | None, known: int = 1_162) -> CoverageRun:
    """A run over relays `wss://r0.example` and so on with these shares of the known events."""
    relays = tuple(
        RelayCoverage(relay=f"wss://r{n}.example", share=share, kinds=())
        for n, share in enumerate(shares)
    )
    return CoverageRun(at=7.0, author="", kinds=(KnownKind(kind=1, known=known),), relays=relays)
