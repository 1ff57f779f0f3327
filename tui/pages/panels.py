"""The panels of the overview: the relay strip, the progress of syncs, the counters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from textual.content import Content

from tui import format
from tui.widgets.columns import aligned, shortened

if TYPE_CHECKING:
    from collections.abc import Callable

    from agent.api.schema import RelayState, Sync
    from tui.glyphs import Glyphs
    from tui.host import Host


def draw(name: str, host: Host, width: int, height: int) -> Content:
    """A panel of so many cells."""
    lines = _PANELS[name](host, width)
    if len(lines) > height:
        more = f"and {len(lines) - height + 1} more"
        lines = [
            *lines[: height - 1],
            Content.from_markup("[$foreground-muted]$more[/]", more=more),
        ]
    return Content("\n").join(lines)


def relay_tone(one: RelayState) -> str:
    """A colour for how a relay does."""
    if one.status == "connected":
        return "$text-warning" if one.failing else "$text-success"
    if one.status in ("connecting", "initialized", "pending"):
        return "$foreground-muted"
    return "$text-error"


def relay_sign(one: RelayState, glyphs: Glyphs) -> str:
    """A sign for the same, for those who see no colours."""
    if one.status == "connected":
        return glyphs.part if one.failing else glyphs.on
    return glyphs.off


def _relays(host: Host, width: int) -> list[Content]:
    found = sorted(host.model.relays.values(), key=lambda one: (one.status == "connected", one.url))
    lines = []
    for one in found:
        tail = format.milliseconds(one.latency_ms) if one.status == "connected" else one.status
        lines.append(
            Content.from_markup(
                f"[{relay_tone(one)}]$sign[/] $name [$foreground-muted]$tail[/]",
                sign=relay_sign(one, host.glyphs),
                name=_fitted(host, format.host(one.url), width - len(tail) - 3),
                tail=tail,
            )
        )
    return lines or [_none(host.model.received_at is not None)]


def sync_part(one: Sync) -> float:
    """How much of what differs is settled, of all relays together."""
    wanted = sum(relay.need + relay.have for relay in one.relays)
    moved = sum(relay.downloaded + relay.uploaded for relay in one.relays)
    if not one.running:
        return 1.0 if one.outcome == "complete" else 0.0
    return moved / wanted if wanted else 0.0


def _syncs(host: Host, width: int) -> list[Content]:
    lines = []
    for one in host.model.syncs.values():
        state = "running" if one.running else one.outcome or "new"
        tone = {"running": "$text-accent", "complete": "$text-success"}.get(state, "$text-warning")
        if state == "new":
            tone = "$foreground-muted"
        bar = format.progress(sync_part(one), 8, host.glyphs)
        lines.append(
            Content.from_markup(
                f"$name [{tone}]$bar $state[/]",
                name=_fitted(host, one.spec.name, width - len(state) - 10),
                bar=bar,
                state=state,
            )
        )
    return lines or [_none(host.model.received_at is not None)]


def _counters(host: Host, width: int) -> list[Content]:
    lines = []
    for subject, value in host.counters or ():
        room = min(16, max(5, width // 3))
        shown = format.integer(value)
        shown = aligned(shown if len(shown) <= room else format.tight(shown), room, right=True)
        lines.append(
            Content.from_markup(
                "$subject [b]$value[/]",
                subject=_fitted(host, subject, width - len(shown) - 1),
                value=shown,
            )
        )
    return lines or [_none(host.counters is not None)]


def _fitted(host: Host, text: str, width: int) -> str:
    return shortened(format.plain(text), max(4, width), host.glyphs.ellipsis)


def _none(known: bool) -> Content:
    """What is not known is not none."""
    text = "none yet" if known else "not known yet"
    return Content.from_markup("[$foreground-muted]$text[/]", text=text)


_PANELS: Final[dict[str, Callable[[Host, int], list[Content]]]] = {
    "relays": _relays,
    "syncs": _syncs,
    "counters": _counters,
}
NAMES: Final = tuple(_PANELS)
