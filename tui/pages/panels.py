"""What the panels of the first page say: people, alerts, relays, syncs and counters, as lines."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Final

from textual.content import Content

from nostr_client.codecs.display import plural
from tui import format
from tui.widgets import people
from tui.widgets.columns import aligned, shortened

if TYPE_CHECKING:
    from collections.abc import Callable

    from agent.api.schema import LogLine, People, RelayState, Sync
    from tui.glyphs import Glyphs
    from tui.host import Host


ALERTS: Final = frozenset({"alert", "alert_failed", "alert_given_up"})
"""Events of the agent's log: an alert was delivered, was refused for now, or for good."""

MOST_WRONG: Final = 50
LATENCY_CELLS: Final = 8
SPARK_CELLS: Final = 8
SPARK_FROM: Final = 34
"""Cells of a panel from which there is room for the line of latencies."""


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
        tail = tail.rjust(LATENCY_CELLS)
        spark = _latencies(host, one) if width >= SPARK_FROM else ""
        lines.append(
            Content.from_markup(
                f"[{relay_tone(one)}]$sign[/] $name [$text-accent]$spark[/]"
                "[$foreground-muted]$tail[/]",
                sign=relay_sign(one, host.glyphs),
                name=_fitted(host, format.host(one.url), width - len(tail) - len(spark) - 3),
                spark=spark,
                tail=tail,
            )
        )
    return lines or [_none(host.model.received_at is not None)]


def _latencies(host: Host, one: RelayState) -> str:
    """The newest latencies of a connected relay as a line; blank for a single one."""
    held = tuple(host.model.latencies.get(one.url, ())) if one.status == "connected" else ()
    line = format.spark(held, SPARK_CELLS, host.glyphs) if len(held) > 1 else ""
    return f"{line:>{SPARK_CELLS}} "


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
        rate = host.model.rate(one) if one.running else None
        state = state if rate is None else f"{format.short(rate)}/s"
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


def _alerts(host: Host, width: int) -> list[Content]:
    """Alerts that were sent, newest first; then what is wrong now with watches and relays."""
    model, glyphs = host.model, host.glyphs
    fired = [_alert(line, width) for line in reversed(model.log) if line.event in ALERTS]
    wrong: dict[str, None] = {}
    failing: dict[str, int] = {}
    for name, one in model.watches.items():
        wrong |= dict.fromkeys(f"{name}: {text}" for text in one.warnings)
        for url in one.failing:
            failing[url] = failing.get(url, 0) + 1
    for url, n in failing.items():
        wrong[f"{format.host(url)} fails in {plural(n, 'watch', 'watches')}"] = None
    signed = [
        line
        for text in list(wrong)[:MOST_WRONG]
        for line in _wrapped(f"{glyphs.warn} {text}", width, "$text-warning")
    ]
    known = model.received_at is not None and model.has_log
    fired_lines = [line for lines in fired for line in lines]
    return [*fired_lines, *signed] or [_none(known, "nothing is wrong, no alert in the log")]


def _alert(line: LogLine, width: int) -> list[Content]:
    """An alert of the log: when, what it was about, and whether it could not be sent."""
    of = line.fields
    what = of.get("watch") or of.get("coverage") or ("digest" if of.get("digest") else "")
    is_sent = line.event == "alert"
    parts = [format.clock(line.at), what, of.get("when", "")]
    text = " ".join(str(part) for part in parts if part)
    failed = "" if is_sent else ", not delivered"
    return _wrapped(f"{text}{failed}", width, "$text-accent" if is_sent else "$text-error")


def _wrapped(text: str, width: int, tone: str) -> list[Content]:
    """A text in as many lines as it needs, the later ones indented by two cells."""
    rows = textwrap.wrap(format.plain(text), max(12, width), subsequent_indent="  ")
    return [Content.from_markup(f"[{tone}]$row[/]", row=row) for row in rows]


def draw_people(host: Host, found: People | None, width: int, height: int) -> Content:
    """The newest people of a watch; None where the agent has not answered yet."""
    lines: list[Content] = []
    more = people.beyond(found) if found is not None else ""
    rest = _wrapped(more, width, "$foreground-muted") if more else []
    for one in found.people if found is not None else ():
        age = people.age_of(one, host.now()).rjust(4)
        tone = "$text-error" if one.act in people.LOST else "$foreground"
        rows = _wrapped(f"{age} {one.who}: {one.what}", width, tone)
        if len(lines) + len(rows) + len(rest) > height:
            break
        lines += rows
    lines = lines or [_none(found is not None, "nobody in the last 30 days")]
    return Content("\n").join([*lines, *rest][:height])


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


def _none(known: bool, none: str = "none yet") -> Content:
    """Say that something is empty, or that it is not known."""
    text = none if known else "not known yet"
    return Content.from_markup("[$foreground-muted]$text[/]", text=text)


_PANELS: Final[dict[str, Callable[[Host, int], list[Content]]]] = {
    "alerts": _alerts,
    "relays": _relays,
    "syncs": _syncs,
    "counters": _counters,
}
NAMES: Final = tuple(_PANELS)
"""The panels that are drawn from what the model holds."""
