"""What can be done with watches."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from nostr_client.codecs.display import plural
from nostr_client.codecs.relay_url import normalize

if TYPE_CHECKING:
    from agent.api.schema import WatchState
    from nostr_client.watch.definition import Watch
    from tui.app import TallyApp


def _named(app: TallyApp, words: list[str]) -> WatchState | None:
    """The watch that is named, else the one that is pointed at."""
    name = words[0] if words else app.watch_name
    found = app.model.watches.get(name)
    if found is None:
        app.trouble(f"there is no watch {name}" if name else "there is no watch to do this with")
    return found


async def show(app: TallyApp, words: list[str]) -> None:
    """Go to the page of one watch."""
    found = _named(app, words)
    if found is not None:
        app.watched = found.spec.name
        await app.go("watch")


async def add(app: TallyApp, words: list[str]) -> None:
    """Ask what to watch, and add it."""
    from tui.dialogs.add import AddWatch

    async def begin(spec: Watch) -> None:
        await app.ask(lambda client: client.add_watch(spec))
        app.tell(f"watching {spec.name}")

    form = AddWatch(begin, " ".join(words), taken=set(app.model.watches))
    await app.push_screen_wait(form)


async def count(app: TallyApp, words: list[str]) -> None:
    """Ask all relays again."""
    found = _named(app, words)
    if found is not None:
        await app.ask(lambda client: client.recount(found.spec.name))
        app.tell(f"asking the {plural(found.asked, 'relay')} of {found.spec.name}")


async def remove(app: TallyApp, words: list[str]) -> None:
    """Remove it when that is really meant."""
    found = _named(app, words)
    if found is None:
        return
    name = found.spec.name
    if await app.sure(f"Remove the watch {name} and its history?", "Remove"):
        await app.ask(lambda client: client.remove_watch(name))
        app.tell(f"removed {name}")
        if app.page_name == "watch":
            await app.go("overview")


async def exclude(app: TallyApp, words: list[str]) -> None:
    """Leave a relay out of the number of the watch that is open, or take it back."""
    await _switch(app, words, "excluded", ("counting without", "counting again with"))


async def trust(app: TallyApp, words: list[str]) -> None:
    """Believe a relay in any case for the watch that is open, or not any more."""
    await _switch(app, words, "trusted", ("believing", "testing again"))


async def _switch(app: TallyApp, words: list[str], field: str, told: tuple[str, str]) -> None:
    found = _named(app, [app.watched] if app.watched else [])
    relay = words[0] if words else app.page.pointed
    if found is None or not relay:
        return
    url, held = normalize(relay), list(map(normalize, getattr(found.spec, field)))
    is_new = url not in held
    urls = [*held, url] if is_new else [one for one in held if one != url]
    spec = msgspec.structs.replace(found.spec, **{field: tuple(urls)})
    await app.ask(lambda client: client.change_watch(spec.name, spec))
    app.tell(f"{told[0] if is_new else told[1]} {relay}{_but(spec, url)}")


def _but(spec: Watch, url: str) -> str:
    """What holds back a relay that is trusted."""
    is_both = url in map(normalize, spec.excluded) and url in map(normalize, spec.trusted)
    return ": trusted, but left out until you take it back (e)" if is_both else ""


async def span(app: TallyApp, words: list[str]) -> None:
    """The next span of the plot, or the one named."""
    app.watch_page.choose_span(words[0] if words else None)
