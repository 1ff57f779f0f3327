"""Why a relay counts as it does: its whole claim, its history, and the number without it."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from textual.binding import Binding
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Label, Static

from nostr_client.codecs.display import plural
from nostr_client.codecs.relay_url import normalize
from tui import format

if TYPE_CHECKING:
    from collections.abc import Iterable

    from textual.app import ComposeResult
    from textual.binding import BindingType

    from agent.api.schema import CountReport, PastClaim, PastClaims, WeighedClaim
    from nostr_client.watch.definition import Watch
    from tui.host import Host

MOST_DAYS = 31
"""Days of the history that are shown."""


TRUST: Final = "watch trust"
"""The action that trusts a relay for one watch, or tests it again."""


class ReasonText(VerticalScroll, can_focus=True):
    """Text that is longer than the dialog; keys scroll it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j", "scroll_down", "Down", show=False),
        Binding("k", "scroll_up", "Up", show=False),
    ]


class ClaimDetail(ModalScreen[str]):
    """Gives the action that was chosen, or "".

    `without` and `believed`: the number with the relay's exclusion, or its trust, switched.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,enter,q", "choose('')", "Close", show=False),
        Binding("x", "choose('watch exclude')", "Exclude", show=False),
        Binding("t", f"choose('{TRUST}')", "Trust", show=False),
    ]

    def __init__(
        self,
        host: Host,
        spec: Watch,
        one: WeighedClaim,
        counted: CountReport,
        without: CountReport,
        believed: CountReport,
        past: PastClaims,
    ) -> None:
        super().__init__()
        self._host, self._spec, self._one = host, spec, one
        self._counted, self._without, self._believed = counted, without, believed
        self._past = past.claims

    def compose(self) -> ComposeResult:
        with Vertical(id="claim", classes="dialog"):
            yield Label(format.plain(self._one.relay), markup=False, classes="dialog-title")
            with ReasonText():
                yield Static(Content("\n").join(self._lines()))
            yield Label("Esc closes, j and k scroll", classes="hint")

    def on_mount(self) -> None:
        self.query_one(ReasonText).focus()

    def action_choose(self, action: str) -> None:
        is_offered = not self._host.read_only and (action != TRUST or not self._everywhere)
        if not action or is_offered:
            self.dismiss(action)

    def _lines(self) -> Iterable[Content]:
        yield from map(Content, self._claim())
        yield from _part("What the merge did with it", self._merged())
        yield from _part("The number of this watch", self._numbers())
        yield from _part("Its answers by day", map(self._day, self._past[:MOST_DAYS]))

    def _claim(self) -> Iterable[str]:
        one = self._one
        yield f"Status {one.status}{f', by {one.method}' if one.method else ''}"
        if one.count is not None:
            parts = [("approximate", one.approximate), ("limited", one.limited)]
            signs = "".join(f", {word}" for word, is_so in parts if is_so)
            yield f"It counts {plural(one.count, 'event')}{signs}"
        if one.estimate is not None:
            yield f"{_source(one.method)} {_people(one.estimate)}"
        if one.events_read:
            size = format.size(one.bytes_read)
            yield f"{plural(one.events_read, 'event')} read, {size}"
        if one.last_read is not None:
            yield f"Its events are known up to {format.clock(one.last_read, date=True)}"
        if one.note:
            yield one.note[0].upper() + one.note[1:]
        if one.asked_at is not None:
            took = "" if one.latency_ms is None else f", answered in {one.latency_ms:,.0f} ms"
            yield f"Asked {format.clock(one.asked_at, date=True)}{took}"

    def _merged(self) -> Iterable[str]:
        one = self._one
        if one.excluded:
            yield "Excluded from the number"
        elif one.used:
            yield f"Used: {', '.join(one.used)}"
        else:
            yield "Not used in the number"
        if one.share is not None:
            yield f"It has {format.percent(one.share)} of all distinct authors"
        for text in dict.fromkeys([*one.reasons, *one.warnings]):
            yield f"{self._host.glyphs.warn} {format.plain(text)}"
        is_believed = self._is_trusted or self._everywhere
        if is_believed and not one.excluded:
            where = "for every watch" if self._everywhere else "for this watch"
            yield f"Tests are not applied: you trust this relay {where}."
        elif not (one.reasons or one.warnings):
            yield "No test and no reading gave a warning"

    @property
    def _is_trusted(self) -> bool:
        return normalize(self._one.relay) in map(normalize, self._spec.trusted)

    @property
    def _everywhere(self) -> bool:
        """Whether the configuration trusts the relay, for every watch."""
        relay = self._host.model.relays.get(normalize(self._one.relay))
        return relay is not None and relay.trusted

    def _numbers(self) -> Iterable[str]:
        yield f"Now: {self._said(self._counted)}"
        url = normalize(self._one.relay)
        is_out = url in map(normalize, self._spec.excluded)
        word, does = ("With it again", "take it back") if is_out else ("Without it", "exclude it")
        yield f"{word}: {self._said(self._without)}{self._key('x', does)}"
        if self._everywhere:
            yield "Trusted for every watch, by relays.trusted of the configuration"
            return
        word, does = ("Tested again", "test it") if self._is_trusted else ("Trusted", "trust it")
        yield f"{word}: {self._said(self._believed)}{self._key('t', f'{does} for this watch')}"

    def _key(self, key: str, does: str) -> str:
        return "" if self._host.read_only else f"  [{key}: {does}]"

    def _said(self, counted: CountReport) -> str:
        if counted.figure is None:
            return "not known"
        glyphs = self._host.glyphs
        value = format.value(counted.figure, glyphs)
        bounds = format.in_words(counted.figure, glyphs)
        return f"{value} ({bounds})" if bounds else value

    def _day(self, one: PastClaim) -> str:
        number = "" if one.count is None else f"  {plural(one.count, 'event')}"
        people = "" if one.estimate is None else f"  {_people(one.estimate)}"
        when = format.clock(one.asked_at, date=True)
        return f"{when}  {one.status}{f' by {one.method}' if one.method else ''}{number}{people}"


def _source(method: str | None) -> str:
    """Where the people of a relay are known from: a relay whose events were read sent none of the
    registers."""
    return "Its events are by" if method == "events" else "Its registers give"


def _people(estimate: float) -> str:
    number = round(estimate)
    return f"about {plural(number, 'distinct author')}"


def _part(title: str, lines: Iterable[str]) -> Iterable[Content]:
    found = list(lines)
    if found:
        yield Content("")
        yield Content.from_markup("[b]$title[/]", title=title)
        yield from map(Content, found)
