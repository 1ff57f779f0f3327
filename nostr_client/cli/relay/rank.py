"""`nostr-client relay rank`: which relays would be asked first, and why."""

from __future__ import annotations

import time
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from nostr_client.cli.entry import NO_RELAY, OK, run_async
from nostr_client.cli.names import with_keys
from nostr_client.cli.output import json_option, print_json, print_table, say
from nostr_client.cli.place import StoreOrAgent, store_option
from nostr_client.cli.questions import (
    NAMES,
    deny_option,
    indexer_option,
    monitor_option,
    most_option,
    relay_choice,
)
from nostr_client.cli.relays import network_options, timeout_option

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from nostr_client.count.claims import StoredExperience
    from nostr_client.network.outbox import ChosenRelays, RankedRelay
    from nostr_client.options import Options


class _Ranking(NamedTuple):
    """The relays that a count would ask, all in order, and why some of them may not be asked."""

    chosen: ChosenRelays | None
    ranked: list[RankedRelay]
    refused: dict[str, str]


@click.command("rank")
@click.argument("what", metavar="[WHAT]", type=click.Choice(NAMES), required=False)
@click.argument("target", metavar="[TARGET]", required=False)
@indexer_option
@deny_option
@most_option
@monitor_option
@timeout_option
@store_option
@network_options(strangers=True)
@json_option
@click.pass_context
def rank_relays(
    ctx: click.Context,
    /,
    what: str | None,
    target: str | None,
    store: Path | None,
    as_json: bool,
    **how: Any,
) -> None:
    """Show which relays a count of WHAT about TARGET would ask, best first, and why.

    Without a question: every relay that the stored questions were asked, and no relay is asked for
    it. The evidence comes from the stored claims: answers, refusals and failures of the last 7
    days, and the people that relays showed in the last 30. A relay that may not be asked is the
    last, with the reason. Exit code 3 if WHAT about TARGET leads to no relay at all.
    """
    if (what is None) is not (target is None):
        raise click.UsageError("give WHAT and TARGET, or neither")
    if what is not None and not how["indexers"]:
        raise click.UsageError("give --indexer, where the target's relay list is looked up")
    if target is not None:
        (target,) = with_keys([target], how["network"])
        how["monitors"] = with_keys(how["monitors"], how["network"])
    ranking = _rank(StoreOrAgent(store).there, what, target, **how)
    chosen, ranked, refused = run_async(ranking)
    if as_json:
        print_json([_as_dict(n, one, chosen, refused) for n, one in enumerate(ranked, 1)])
    else:
        _show(ranked, chosen, refused)
    ctx.exit(NO_RELAY if chosen is not None and not (chosen.relays or ranked) else OK)


async def _rank(path: Path, what: str | None, target: str | None, **how: Any) -> _Ranking:
    """Read a store's file, also beside the agent that writes it."""
    from nostr_client.count.claims import CLAIMS, StoredExperience
    from nostr_client.errors import SchemaTooOld
    from nostr_client.network.outbox.evidence import rank
    from nostr_client.store.sqlite import SqliteStore

    known = None
    async with AsyncExitStack() as stack:
        try:
            opened = await SqliteStore.open(path, read_only=True, migrations=[CLAIMS])
        except SchemaTooOld:  # nothing was counted with this store
            pass
        else:
            store = await stack.enter_async_context(opened)
            known = StoredExperience(store.database, store, time.time)
        if what is not None and target is not None:
            return await _considered(known, what, target, **how)
        urls = [] if known is None else await known.relays()
        ranked = rank(urls, {} if known is None else await known.evidence(urls, ""))
        return _Ranking(None, ranked, {})


async def _considered(
    known: StoredExperience | None,
    what: str,
    target: str,
    *,
    indexers: tuple[str, ...],
    denied: tuple[str, ...],
    most: int,
    monitors: tuple[str, ...],
    timeout: float,
    network: Options,
) -> _Ranking:
    from dataclasses import replace

    from nostr_client.count import canonical
    from nostr_client.count.queries import target_of
    from nostr_client.network.outbox import PoolFetch, RelayFinder
    from nostr_client.network.pool import RelayPool

    choice = relay_choice(indexers, denied, most, monitors)
    assert choice is not None
    choice = replace(choice, connection=network.connection)
    async with RelayPool(options=network) as pool:
        fetch = PoolFetch(pool, choice, timeout)
        finder = RelayFinder(fetch, choice, now=time.time, experience=known)
        chosen, ranked = await finder.ranked(target_of(canonical(what, target)))
    refused = {one.relay: why for one in ranked if (why := choice.objection(one.relay))}
    return _Ranking(chosen, ranked, refused)


def _as_dict(
    place: int, one: RankedRelay, chosen: ChosenRelays | None, refused: Mapping[str, str]
) -> dict[str, Any]:
    found = one.evidence
    asked: dict[str, Any] = {}
    if chosen is not None:
        asked = {"chosen": one.relay in chosen.relays, "not_asked": refused.get(one.relay)}
    return asked | {
        "place": place,
        "relay": one.relay,
        "answered": found.answered,
        "refused": found.refused,
        "failed": found.failed,
        "latency_ms": None if found.latency_ms is None else round(found.latency_ms, 1),
        "shows": one.holds,
        "adds": one.adds,
        "live": found.live,
        "answerers": found.answerers,
        "why": one.why,
    }


def _show(
    ranked: list[RankedRelay], chosen: ChosenRelays | None, refused: Mapping[str, str]
) -> None:
    asked = () if chosen is None else chosen.relays
    rows = [
        (f"{n}{'*' if one.relay in asked else ''}", one.relay, _why(one, refused))
        for n, one in enumerate(ranked, 1)
    ]
    if rows:
        print_table(("", "relay", "why"), rows)
    if chosen is not None:
        say(chosen.lack or "* is asked")
    elif not rows:
        say("no relay was asked yet: count with --store first")


def _why(one: RankedRelay, refused: Mapping[str, str]) -> str:
    reason = refused.get(one.relay)
    return one.why if reason is None else f"a count does not ask it: {reason}; {one.why}"
