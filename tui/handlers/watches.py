"""Handlers of watches, and of a count that is asked once."""

from __future__ import annotations

import shlex
from functools import partial
from typing import TYPE_CHECKING, Final, get_args

import msgspec

from agent.api.schema import CountBody, NameBody
from nostr_client.codecs.display import plural, seconds
from nostr_client.codecs.relay_url import normalize
from nostr_client.errors import InvalidInput
from nostr_client.watch.definition import QueryName, switched
from tui import format
from tui.pages.troubles import troubles_of

if TYPE_CHECKING:
    from agent.api.client import AgentClient
    from agent.api.schema import CountReport, WatchState
    from nostr_client.watch.definition import Watch
    from tui.host import Host

DAY_S: Final = 86_400.0
ABSENCE_S: Final = 3 * 3600.0
"""Seconds after which somebody who comes back gets a digest."""


async def _named(host: Host, words: list[str]) -> WatchState | None:
    """The watch that is named, else the one that is pointed at. Raises NetworkError."""
    await host.until_known()
    name = words[0] if words else host.watch_name
    found = host.model.watches.get(name)
    if found is None:
        host.trouble(f"there is no watch {name}" if name else "there is no watch to do this with")
    return found


def _marked(host: Host, words: list[str]) -> list[str]:
    """The marked watches, for an action of the first page that names none."""
    return [] if words or host.page_name != "overview" else host.overview_page.chosen


async def _recount(client: AgentClient, *, name: str) -> object:
    return await client.recount(name)


async def _remove(client: AgentClient, *, name: str) -> object:
    return await client.remove_watch(name)


async def show(host: Host, words: list[str]) -> None:
    """Go to the page of one watch, or fold the group under the cursor."""
    if not words and host.overview_page.fold():
        return
    found = await _named(host, words)
    if found is not None:
        host.watched = found.spec.name
        await host.go("watch")


async def add(host: Host, words: list[str]) -> None:
    """Ask what to watch, and add it."""
    from tui.dialogs.add import AddWatch

    async def begin(spec: Watch) -> None:
        await host.bring_agent()
        named = await _of_key(host, spec)
        await host.ask(lambda client: client.add_watch(named))
        host.report(f"watching {spec.name}")

    form = AddWatch(begin, " ".join(words), taken=set(host.model.watches))
    await host.push_screen_wait(form)


async def _of_key(host: Host, spec: Watch) -> Watch:
    """Return the watch of the key behind a NIP-05 name; any other watch as it is.

    The agent asks the domain. Raises ApiError, NetworkError.
    """
    if "@" not in spec.target:
        return spec
    found = await host.ask(lambda client: client.look_up_name(NameBody(name=spec.target)))
    return msgspec.structs.replace(spec, target=found.pubkey)


async def warnings(host: Host, words: list[str]) -> None:
    """Show why a watch is marked: its warnings in full, and the relays that fail."""
    found = await _named(host, words)
    if found is None:
        return
    lines = [one.sentence for one in troubles_of(found, host.model.relays)]
    if found.figure is None and found.answered_at is None:
        lines.append("No relay has answered yet: the number is not known.")
    text = "\n".join(map(format.plain, lines)) or "Nothing is wrong: no warning, no failing relay."
    await host.inform(f"What is wrong with {found.spec.name}", text)


async def alerts(host: Host, words: list[str]) -> None:
    """Show all alerts of the log, and all warnings, each with the names of its watches."""
    from tui.pages.panels import all_alerts

    lines = map(format.plain, all_alerts(host))
    text = "\n\n".join(lines) or "Nothing is wrong, and no alert is in the log."
    await host.inform("Alerts and warnings", text)


async def recount(host: Host, words: list[str]) -> None:
    """Ask all relays again, for every marked watch if there are any."""
    names = _marked(host, words)
    found = None if names else await _named(host, words)
    if found is not None:
        await host.ask(lambda client: client.recount(found.spec.name))
        host.report(f"asking the {plural(found.asked, 'relay')} of {found.spec.name}")
    elif names:
        for name in names:
            await host.ask(partial(_recount, name=name))
        host.report(f"asking the relays of {plural(len(names), 'watch', 'watches')}")


async def remove(host: Host, words: list[str]) -> None:
    """Remove it, or every marked watch, when that is really meant."""
    names = _marked(host, words)
    if names:
        many = plural(len(names), "marked watch", "marked watches")
        if await host.sure(f"Remove {many} with their history?", "Remove"):
            for name in names:
                await host.ask(partial(_remove, name=name))
            host.report(f"removed {plural(len(names), 'watch', 'watches')}")
        return
    found = await _named(host, words)
    if found is None:
        return
    name = found.spec.name
    if await host.sure(f"Remove the watch {name} and its history?", "Remove"):
        await host.ask(lambda client: client.remove_watch(name))
        host.report(f"removed {name}")
        if host.page_name == "watch":
            await host.go("overview")


async def exclude(host: Host, words: list[str]) -> None:
    """Leave a relay out of the number of the watch that is open, or take it back."""
    await _switch(host, words, "excluded", ("counting without", "counting again with"))


async def trust(host: Host, words: list[str]) -> None:
    """Believe a relay in any case for the watch that is open, or not any more."""
    await _switch(host, words, "trusted", ("believing", "testing again"))


async def _switch(host: Host, words: list[str], field: str, texts: tuple[str, str]) -> None:
    found = await _named(host, [host.watched] if host.watched else [])
    relay = words[0] if words else host.page.pointed
    if found is None or not relay:
        return
    url, urls = normalize(relay), switched(getattr(found.spec, field), relay)
    is_new = url in urls
    spec = msgspec.structs.replace(found.spec, **{field: urls})
    await host.ask(lambda client: client.change_watch(spec.name, spec))
    but = _but(host, spec, url, field)
    host.report(f"{texts[0] if is_new else texts[1]} {relay} for {spec.name}{but}")


def _but(host: Host, spec: Watch, url: str, field: str) -> str:
    """What holds back a relay that is trusted, or is tested again."""
    is_trusted, is_out = (url in map(normalize, urls) for urls in (spec.trusted, spec.excluded))
    if is_trusted and is_out:
        return ": trusted, but excluded until you take it back (x)"
    relay = host.model.relays.get(url)
    if field == "trusted" and relay is not None and relay.trusted:
        return ": it is trusted for every watch, by relays.trusted of the configuration"
    return ""


async def relay(host: Host, words: list[str]) -> None:
    """Show why a relay counts as it does, or all of what one person did."""
    from tui.dialogs.claim import ClaimDetail

    text = "" if words else host.watch_page.person
    if text:
        await host.inform("Who it was", text)
        return
    found = await _named(host, [host.watched] if host.watched else [])
    url = words[0] if words else host.page.pointed
    if found is None or not url:
        return
    name = found.spec.name
    counted = await host.ask(lambda client: client.explain(name))
    one = next((one for one in counted.relays if normalize(one.relay) == normalize(url)), None)
    if one is None:
        raise InvalidInput(f"{url} is no relay of {name}")
    without = await host.ask(lambda client: client.explain(name, excluded=url))
    believed = await host.ask(lambda client: client.explain(name, trusted=url))
    past = await host.ask(lambda client: client.claims(name, url))
    detail = ClaimDetail(host, found.spec, one, counted, without, believed, past)
    chosen = await host.push_screen_wait(detail)
    if chosen:
        await host.perform(chosen, [url])


async def people(host: Host, words: list[str]) -> None:
    """Go to who did what, or to the relays again."""
    host.watch_page.toggle_people()


async def overlap(host: Host, words: list[str]) -> None:
    """Go to the people that the relays of a watch share."""
    found = await _named(host, words)
    if found is not None:
        host.watched = found.spec.name
        await host.go("overlap")


async def digest(host: Host, words: list[str]) -> None:
    """Show what changed for all watches since the last look, within a day, or a time that is named.

    The last look counts from an absence of ABSENCE_S on.
    """
    from tui.dialogs.digest import DigestView

    now, last = host.now(), host.last_look
    since, title = now - DAY_S, "What changed within a day"
    if words:
        since, title = now - seconds(words[0]), f"What changed within {words[0]}"
    elif last is not None and now - last >= ABSENCE_S:
        when = format.clock(last, date=True)
        since, title = last, f"Since you last looked, {format.age(now - last)} ago ({when})"
    found = await host.ask(lambda client: client.digest(max(0.0, since)))
    await host.push_screen_wait(DigestView(title, found))


async def span(host: Host, words: list[str]) -> None:
    """The next span of the plot, or the one named."""
    host.watch_page.choose_span(words[0] if words else None)


async def count_once(host: Host, words: list[str]) -> None:
    """Ask, and show the number with what each relay said."""
    from tui.dialogs.counted import CountDialog

    async def ask(line: str) -> None:
        body = _count_body(line)
        host.report(f"counting {body.query}")
        found.append(await host.ask(lambda client: client.count(body)))

    found: list[CountReport] = []
    line, hint = shlex.join(words), "query and target: followers npub1…"
    given = line if len(words) > 1 else ""
    await host.fill("Count once", hint, ask, given, held=line)
    for one in found:
        await host.push_screen_wait(CountDialog(one, host.glyphs))


def _count_body(line: str) -> CountBody:
    try:
        query, target = [*shlex.split(line), "", ""][:2]
    except ValueError as error:  # a quote that is not closed
        raise InvalidInput(f"a query and a target are needed: {error}") from error
    if query not in get_args(QueryName):
        raise InvalidInput(f"the query is one of: {', '.join(get_args(QueryName))}")
    try:
        return msgspec.convert({"query": query, "target": target}, CountBody)
    except msgspec.ValidationError as error:
        raise InvalidInput(f"a query and a target are needed: {error}") from error
