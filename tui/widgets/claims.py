"""How a relay's claim looks in a table. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from nostr_client.codecs.relay_url import normalize
from tui import format
from tui.widgets.columns import Column
from tui.widgets.grid import Cell

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agent.api.schema import WeighedClaim
    from nostr_client.watch.definition import Watch
    from tui.glyphs import Glyphs

COLUMNS: Final = (
    Column("relay", "Relay", 20, flex=3, most=44, middle=True),
    Column("status", "Status", 13, drop=2),
    Column("method", "Method", 11, drop=4),
    Column("count", "Count", 9, flex=1, right=True, most=12),
    Column("estimate", "Estimate", 9, flex=1, right=True, most=12),
    Column("latency", "Latency", 7, right=True, drop=5),
    Column("read", "Last read", 9, right=True, drop=7),
    Column("share", "Share", 5, right=True, drop=6),
    Column("used", "Used", 11, flex=1, most=18),
    Column("why", "Why", 12, drop=1, flex=4),
)

SHORT: Final = {"registers": "hll"}
_GOOD: Final = frozenset({"ok"})
_SOFT: Final = frozenset({"unsupported", "auth_required", "refused", "restricted", "held_back"})


def row(
    one: WeighedClaim, now: float, glyphs: Glyphs, spec: Watch | None = None
) -> Mapping[str, Cell]:
    """The cells of one claim."""
    url = normalize(one.relay)
    trusted = spec is not None and url in map(normalize, spec.trusted)
    by_you = spec is not None and url in spec.left_out
    used = "+".join(SHORT.get(part, part) for part in one.used)
    said = "excluded" if one.excluded else used or "not used"
    return {
        "relay": Cell(format.host(one.relay), "strong"),
        "status": Cell(one.status, _status(one.status)),
        "method": Cell(one.method or ""),
        "count": Cell(format.known(one.count)),
        "estimate": Cell(format.known(one.estimate)),
        "latency": Cell(format.milliseconds(one.latency_ms), "dim"),
        "read": Cell(_since(one.last_read, now), "dim"),
        "share": Cell(format.UNKNOWN if one.share is None else format.percent(one.share), "dim"),
        "used": Cell(
            f"{glyphs.yes if one.used and not one.excluded else glyphs.no} {said}",
            "bad" if one.excluded else "good" if one.used else "dim",
        ),
        "why": Cell(
            _why(one, trusted=trusted, by_you=by_you),
            "warn" if one.excluded or one.reasons else "dim",
        ),
    }


def _status(status: str) -> str:
    return "good" if status in _GOOD else "warn" if status in _SOFT else "bad"


def _since(at: float | None, now: float) -> str:
    return "" if at is None else format.age(now - at)


def _why(one: WeighedClaim, *, trusted: bool, by_you: bool) -> str:
    """What you left out is not counted, trusted or not: that alone is said then."""
    if one.excluded and by_you:
        return "by you"
    believed = ["trusted by you"] if trusted and not one.excluded else []
    noted = [one.note] if one.note else []
    found = dict.fromkeys([*believed, *one.reasons, *one.warnings, *noted])
    if not found and one.used and one.method != "events":
        return "passed the tests"
    return "; ".join(found)
