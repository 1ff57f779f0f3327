"""What changed since somebody last looked, as the first page after an absence shows it."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from textual.binding import Binding
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Label, Static

from tui import format
from tui.dialogs.claim import ReasonText
from tui.model import ENOUGH

if TYPE_CHECKING:
    from collections.abc import Iterable

    from textual.app import ComposeResult
    from textual.binding import BindingType

    from agent.api.schema import CoverageState, Digest, Sync
    from nostr_client.watch.digest import WatchDigest
    from tui.host import Host
    from tui.model import Model

HINT: Final = "Esc closes, j and k scroll; Enter on a watch of the first page opens it"
FINE: Final = frozenset({"", "complete"})


class DigestView(ModalScreen[None]):
    """Shows a digest: first the watches that changed, last those of which no change is known."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,enter,q,space", "close", "Close", show=False),
    ]

    def __init__(self, host: Host, title: str, found: Digest) -> None:
        super().__init__()
        self._host, self._title, self._found = host, title, found

    def compose(self) -> ComposeResult:
        with Vertical(id="digest", classes="dialog"):
            yield Label(self._title, markup=False, classes="dialog-title")
            with ReasonText():
                yield Static(Content("\n").join(lines(self._found, self._host.model)))
            yield Label(HINT, classes="hint")

    def on_mount(self) -> None:
        self.query_one(ReasonText).focus()

    def action_close(self) -> None:
        self.dismiss(None)


def lines(found: Digest, model: Model) -> list[Content]:
    """Return the digest as lines; what the model knows of syncs and coverages comes last."""
    parts = [
        (f"{one.name} ({one.query})", one.lines)
        for one in sorted(found.watches, key=lambda one: not has_changed(one))
    ]
    parts.append(("Syncs that are not complete", list(_syncs(model.syncs.values()))))
    parts.append(("Coverages below 95 %", list(_coverages(model.coverages.values()))))
    shown = [Content("There is no watch yet.")] if not found.watches else []
    for title, texts in parts:
        if texts:
            shown += [Content("")] if shown else []
            shown.append(Content.from_markup("[b]$title[/]", title=format.plain(title)))
            shown += [Content(f"  {format.plain(text)}") for text in texts]
    return shown


def has_changed(one: WatchDigest) -> bool:
    """Whether a change of a watch is known."""
    now, then = one.now, one.then
    moved = now and then and now.exact and then.exact and now.value != then.value
    rose = one.new is not None and one.new.registers > 0
    return bool(moved or rose or one.acts or one.came or one.went)


def _syncs(syncs: Iterable[Sync]) -> Iterable[str]:
    for one in syncs:
        if one.outcome not in FINE and not one.running:
            relays = [r.relay for r in one.relays if r.reason or r.status != "complete"]
            where = f": {', '.join(relays)}" if relays else ""
            yield f"{one.spec.name} ended {one.outcome}{where}"


def _coverages(coverages: Iterable[CoverageState]) -> Iterable[str]:
    for one in coverages:
        if one.why:
            yield f"{one.spec.name} failed: {one.why}"
        for relay in one.run.relays if one.run else ():
            if relay.share is None:
                yield f"{one.spec.name}: what {relay.relay} has is not known"
            elif relay.share < ENOUGH:
                yield f"{one.spec.name}: {relay.relay} has {format.percent(relay.share)}"
