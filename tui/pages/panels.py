"""What the panels of the first page say: people, alerts, relays, syncs and counters, as lines."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec
from textual.content import Content

from nostr_client.codecs.display import plural
from tui import format
from tui.pages import troubles
from tui.widgets import people
from tui.widgets.columns import aligned, shortened

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from agent.api.schema import LogLine, People, Person, RelayState, Sync
    from tui.glyphs import Glyphs
    from tui.host import Host


ALERTS: Final = frozenset({"alert", "alert_failed", "alert_given_up"})
"""Events of the agent's log: an alert was delivered, was refused for now, or for good."""

MOST_NAMED: Final = 3
"""Watches that a line of the panel of alerts names."""

LATENCY_CELLS: Final = 8
SPARK_CELLS: Final = 8
SPARK_FROM: Final = 34
"""Cells of a panel from which there is room for the line of latencies."""


PEOPLE_KEYS: Final = "Enter, then p"
"""What shows the people of the watch under the cursor."""


class LongText(NamedTuple):
    """One thing that a panel says, in as many lines as it needs."""

    text: str
    tone: str


def draw(name: str, host: Host, width: int, height: int) -> Content:
    """A panel of so many cells."""
    found, key = _PANELS[name](host, width), key_of(name, host)
    entries = [_lines_of(one, width) for one in found[:height]]
    n, lines = _fitting(entries, height, lambda n: _more(len(found) - n, key))
    if not n:  # the first one alone has more lines than there are
        lines = [*entries[0][: height - 1], *(_more(len(found) - (height > 1), key) or _rest(key))]
    return Content("\n").join(lines[:height])


def key_of(name: str, host: Host) -> str:
    """The key that shows all of a panel: that of the action of its name."""
    return next((one.key for one in host.actions if one.name == name), "")


def _lines_of(one: Content | LongText, width: int) -> list[Content]:
    return _wrapped(one.text, width, one.tone) if isinstance(one, LongText) else [one]


def _fitting(
    entries: Sequence[list[Content]], height: int, rest: Callable[[int], list[Content]]
) -> tuple[int, list[Content]]:
    """How many entries fit as a whole, and their lines with what `rest` says of the others."""
    for n in range(min(len(entries), height), 0, -1):
        lines = [*(line for one in entries[:n] for line in one), *rest(n)]
        if len(lines) <= height:
            return n, lines
    return 0, rest(0)


def _more(n: int, key: str) -> list[Content]:
    """How many things a panel has no room for, and the key that shows them; nothing for none."""
    text = "[$foreground-muted]and $n more: press $key[/]"
    return [Content.from_markup(text, n=f"{n:,}", key=key)] if n else []


def _rest(key: str) -> list[Content]:
    return [Content.from_markup("[$foreground-muted]press $key for the rest[/]", key=key)]


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
    line = format.spark(held[-SPARK_CELLS:], SPARK_CELLS, host.glyphs) if len(held) > 1 else ""
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


def _alerts(host: Host, _: int) -> list[Content | LongText]:
    """Alerts that were sent, newest first; then what is wrong now with watches and relays."""
    model, glyphs = host.model, host.glyphs
    fired = [_alert(line) for line in reversed(model.log) if line.event in ALERTS]
    wrong = troubles.of_all(model.watches.values(), model.relays, MOST_NAMED)
    signed = [LongText(f"{glyphs.warn} {text}", "$text-warning") for text in wrong]
    known = model.received_at is not None and model.has_log
    return [*fired, *signed] or [_none(known, "nothing is wrong, no alert in the log")]


def all_alerts(host: Host) -> list[str]:
    """All that the panel of alerts is about, each in full, with the names of all watches."""
    fired = [_alert(line).text for line in reversed(host.model.log) if line.event in ALERTS]
    return [*fired, *troubles.of_all(host.model.watches.values(), host.model.relays)]


def _alert(line: LogLine) -> LongText:
    """An alert of the log: when, what it was about, and whether it could not be sent."""
    of = line.fields
    what = of.get("watch") or of.get("coverage") or ("digest" if of.get("digest") else "")
    is_sent = line.event == "alert"
    parts = [format.clock(line.at), what, of.get("when", "")]
    text = " ".join(str(part) for part in parts if part)
    failed = "" if is_sent else ", not delivered"
    return LongText(f"{text}{failed}", "$text-accent" if is_sent else "$text-error")


def _wrapped(text: str, width: int, tone: str) -> list[Content]:
    """A text in as many lines as it needs, the later ones indented by two cells."""
    rows = textwrap.wrap(format.plain(text), max(12, width), subsequent_indent="  ")
    return [Content.from_markup(f"[{tone}]$row[/]", row=row) for row in rows]


def draw_people(
    host: Host, found: People | None, width: int, height: int, *, is_known: bool
) -> Content:
    """The newest people of a watch.

    `found`: None where the agent has not answered yet. `is_known`: whether a relay has ever
    answered; until then, an empty list shows nothing.
    """
    entries = [_person(host, one, width) for one in (found.people[:height] if found else ())]
    n, lines = _fitting(entries, height, lambda n: _beyond(found, n, width))
    if not n and found is not None and entries:
        some = plural(len(found.people) + found.more, "person", "people")
        said = _wrapped(f"{some}: press {PEOPLE_KEYS}", width, "$foreground")
        lines = [*said, *_wrapped(found.nameless, width, "$foreground-muted")]
    elif not n:
        none = _none(found is not None and is_known, "nobody in the last 30 days")
        lines = [none, *lines]
    return Content("\n").join(lines[:height])


def _person(host: Host, one: Person, width: int) -> list[Content]:
    age = people.age_of(one, host.now()).rjust(4)
    tone = "$text-error" if one.act in people.LOST else "$foreground"
    return _wrapped(f"{age} {one.who}: {one.what}", width, tone)


def _beyond(found: People | None, n: int, width: int) -> list[Content]:
    """Who else there is after the `n` newest people."""
    if found is None:
        return []
    hidden = msgspec.structs.replace(found, more=found.more + len(found.people) - n)
    return _wrapped(people.beyond(hidden, f"press {PEOPLE_KEYS}"), width, "$foreground-muted")


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


_PANELS: Final[dict[str, Callable[[Host, int], Sequence[Content | LongText]]]] = {
    "alerts": _alerts,
    "relays": _relays,
    "syncs": _syncs,
    "counters": _counters,
}
NAMES: Final = tuple(_PANELS)
"""The panels that are drawn from what the model holds."""
