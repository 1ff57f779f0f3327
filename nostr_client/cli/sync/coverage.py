"""`nostr-client coverage`: which relay has which of an author's events."""

from __future__ import annotations

import io
import sys
from collections import Counter
from typing import TYPE_CHECKING, Final

import click

from nostr_client.cli.entry import FAILURE, NO_RELAY, OK, run_async
from nostr_client.cli.key import key_file_option, optional_signer
from nostr_client.cli.names import with_keys
from nostr_client.cli.output import console, json_option, plain_table, print_json, say, waiting
from nostr_client.cli.parameters import TimeParameter
from nostr_client.cli.place import StoreOrAgent, place_option
from nostr_client.cli.questions import (
    deny_option,
    dry_run_option,
    indexer_option,
    max_events_option,
    most_option,
    relay_choice,
)
from nostr_client.cli.relays import network_options, relay_option
from nostr_client.cli.sync.coverage_kept import (
    in_cell,
    part_of_all,
    say_what_is_known,
    say_what_the_store_lacks,
    show_kept,
)
from nostr_client.codecs.display import plural

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nostr_client.client import NostrClient
    from nostr_client.options import Options
    from nostr_client.sync.coverage import Coverage, CoveragePlan, Look, RepairReport

_NIP65: Final = "from:nip65"
_SHOWN: Final = 5
"""Most ids printed of one relay's deleted events; `--json` has all."""


@click.command()
@click.argument("who", metavar="[NPUB]", required=False)
@relay_option
@click.option(
    "--relays",
    "listed",
    metavar="from:nip65|URL,…",
    help="from:nip65: the relays where NPUB writes, found by --indexer; or relays, as --relay.",
)
@indexer_option
@deny_option
@most_option
@click.option(
    "--kind", "-k", "kinds", metavar="KIND", type=click.IntRange(0, 65535), multiple=True,
    help="Compare this kind; repeat for more. Default: the kinds that people want to keep.",
)  # fmt: skip
@click.option("--since", metavar="TIME", type=TimeParameter(), help="Compare only newer events.")
@max_events_option
@place_option
@click.option("--repair", is_flag=True, help="Compare, then repair what differs.")
@click.option("--yes", is_flag=True, help="Repair without asking.")
@dry_run_option
@key_file_option
@network_options(strangers=True)
@json_option
@click.pass_context
def coverage(
    ctx: click.Context,
    who: str | None,
    relays: tuple[str, ...],
    listed: str | None,
    indexers: tuple[str, ...],
    denied: tuple[str, ...],
    most: int,
    kinds: tuple[int, ...],
    since: int | None,
    max_events: int,
    place: StoreOrAgent,
    repair: bool,
    yes: bool,
    dry_run: bool,
    key_file: str | None,
    network: Options,
    as_json: bool,
) -> None:
    """Show which of NPUB's events each relay has, by kind, of all known events.

    Relays are compared by ids (NIP-77); the events of a relay without NIP-77 are read. Of
    replaceable events only the newest version counts. Events that NPUB deleted do not count, and
    relays that still serve them are named. With --store the events in the store are compared, too.
    "of all" is the part that a relay has of the events that it should have; protected and expired
    events are none of them. ? marks what is not known: relays and kinds that were not read to the
    end, and every share if no event is known. Exit code 3 if no relay was read to the end.

    --repair shows the plan, asks, and sends each relay what it lacks, deletions first. Events that
    the store lacks are downloaded for that. Deletions and requests to vanish are sent whatever
    --kind names. Private and protected events are never sent. Relays
    that you did not name, such as those that read NPUB's mentions (found by --indexer), get only
    events of your own key of the last 30 days, 200 a run. Exit code 1 if a relay did not accept
    all.

    Without NPUB: show what an agent compared last ([[coverage]] of its configuration), read from
    its store, or through --api.
    """
    from nostr_client.client import NostrClient

    if who is None:
        if relays or listed or kinds or since is not None or repair:
            raise click.UsageError("whose events? give NPUB")
        ctx.exit(show_kept(place, as_json=as_json))
    if place.api or place.token_file:
        raise click.UsageError("--api and --token-file show what an agent compared: leave NPUB out")
    named, written = _chosen(relays, listed)
    (who,) = with_keys([who], network)
    question = _question(who, kinds, since)
    client = NostrClient(
        store=place.given,
        options=network,
        choice=relay_choice(indexers, denied, most),
        signer=optional_signer(key_file),
    )
    if repair and not (yes or dry_run or sys.stdin.isatty()):
        raise click.UsageError("--repair asks on a terminal: give --yes, or --dry-run")
    printer = _Printer(as_json, yes=yes, dry_run=dry_run)
    ctx.exit(run_async(_run(client, question, named, written, max_events, repair, printer)))


async def _run(
    client: NostrClient,
    question: Look,
    named: Sequence[str],
    written: bool,
    most: int,
    repair: bool,
    printer: _Printer,
) -> int:
    """Compare, and repair if that is wanted and confirmed; return the exit code."""
    from nostr_client.options import ReadBudget

    async with client:
        with waiting("comparing…"):
            budget = ReadBudget(events=most)
            found = await client.coverage(question, named, written=written, budget=budget)
        if not repair:
            return printer.end(found)
        with waiting("planning…"):
            plan = await client.plan_repair(found)
        if not await printer.confirms(found, plan):
            return printer.end(found, plan)
        with waiting("repairing…"):
            report = await client.repair(plan)
        return printer.end(found, plan, report)


class _Printer:
    """Prints results: everything at the end as JSON, or step by step for people."""

    def __init__(self, as_json: bool, *, yes: bool, dry_run: bool) -> None:
        self._as_json = as_json
        self._yes = yes
        self._dry_run = dry_run
        self._shown = False

    async def confirms(self, found: Coverage, plan: CoveragePlan) -> bool:
        """Show the plan, and return whether to execute it."""
        self._shown = not self._as_json
        if self._shown:
            show(found)
            show_plan(plan)
        if self._dry_run or not plan.steps:
            return False
        if self._yes:
            return True
        from nostr_client.network.waiting import in_own_thread

        click.echo("send these? [y/N]: ", err=True, nl=False)
        answer = await in_own_thread(io.FileIO(sys.stdin.fileno(), closefd=False).readline)
        return answer.strip().lower() in (b"y", b"yes")

    def end(
        self, found: Coverage, plan: CoveragePlan | None = None, report: RepairReport | None = None
    ) -> int:
        """Print what is left to print; return the exit code."""
        if self._as_json:
            parts = {} if plan is None else {"plan": plan.to_dict()}
            done = {} if report is None else {"report": report.to_dict()}
            print_json(found.to_dict() | parts | done)
        elif not self._shown:
            show(found)
        if report is not None and not self._as_json:
            show_report(report)
        code = _code(found)
        return FAILURE if code == OK and report is not None and not report.complete else code


def _chosen(relays: Sequence[str], listed: str | None) -> tuple[list[str], bool]:
    """Return the named relays, and whether to look up the author's own."""
    given = [one.strip() for one in (listed or "").split(",") if one.strip()]
    named = [*relays, *(one for one in given if one != _NIP65)]
    written = _NIP65 in given
    if not named and not written:
        raise click.UsageError(f"no relay: give --relay URL, or --relays {_NIP65}")
    return named, written


def _question(who: str, kinds: Sequence[int], since: int | None) -> Look:
    from nostr_client.codecs.nip19 import decode_pubkey
    from nostr_client.sync.coverage import Look

    asked = {"kinds": tuple(dict.fromkeys(kinds))} if kinds else {}
    return Look(author=decode_pubkey(who), since=since, **asked)


def show(found: Coverage) -> None:
    """Print the matrix, deleted events that relays still serve, and relays not read to the end."""
    from rich.text import Text

    from nostr_client.errors import clip

    kinds = [kind for kind in found.kinds if found.union(kind)]
    table = plain_table("relay", *(f"kind {kind}" for kind in kinds), "of all")
    for relay in found.relays:
        cells = [_cell(found, relay, kind) for kind in kinds]
        table.add_row(Text(clip(relay)), *cells, _share(found, relay))
    stored = [n for kind in kinds if (n := found.stored(kind)) is not None]
    if found.local:
        table.add_row(Text("store"), *map(str, stored), "")
    known = [found.union(kind) for kind in kinds]
    table.add_row(Text("known"), *(str(len(ids)) for ids in known), "")
    console().print(table)
    every = frozenset[str]().union(*known)
    say_what_is_known(len(every), len(every & found.protected), len(every & found.expired))
    if found.local:
        say_what_the_store_lacks(len(every) - sum(stored))
    if found.no_list:
        say(f"only the named relays are compared: {found.no_list}")
    for relay in found.relays:
        _remark(found, relay)


def show_plan(plan: CoveragePlan) -> None:
    """Print how many events of which kinds each relay gets, and what is skipped."""
    from rich.text import Text

    from nostr_client.errors import clip

    table = plain_table("to", "events", "of kinds")
    for relay in plan.relays:
        kinds = Counter(one.kind for one in plan.of(relay))
        listed = ", ".join(f"{kind} ({number})" for kind, number in sorted(kinds.items()))
        table.add_row(Text(clip(relay)), str(kinds.total()), listed)
    if plan.steps:
        console().print(table)
    else:
        say("nothing to send")
    for relay, why, number in plan.left:
        say(f"{clip(relay)} does not get {plural(number, 'event')}: {why}")
    for relay, uncompared in plan.uncompared.items():
        listed = ", ".join(map(str, uncompared))
        say(f"{clip(relay)} gets nothing of kinds not compared to the end: {listed}")


def show_report(report: RepairReport) -> None:
    """Print what each relay accepted."""
    from rich.text import Text

    from nostr_client.errors import clip

    table = plain_table("relay", "took", "had", "refused", "not sent")
    for one in report.relays:
        numbers = (one.taken, one.had, sum(one.refused.values()), one.unsent)
        table.add_row(Text(clip(one.relay)), *map(str, numbers))
    console().print(table)
    for one in report.relays:
        for reason, number in one.refused.items():
            say(f"{clip(one.relay)} refused {plural(number, 'event')}: {clip(reason)}")


def _cell(found: Coverage, relay: str, kind: int) -> str:
    return in_cell(found.held(relay, kind), whole=found.cell(relay, kind).whole)


def _share(found: Coverage, relay: str) -> str:
    from nostr_client.sync.coverage.matrix import share

    return part_of_all(share(found, relay))


def _remark(found: Coverage, relay: str) -> None:
    """Print what a relay should not have or may not have, and why it was not read to the end."""
    from nostr_client.errors import clip

    deleted = sorted(found.undeleted(relay))
    if deleted:
        ids = ", ".join(deleted[:_SHOWN]) + (", …" if len(deleted) > _SHOWN else "")
        served = plural(len(deleted), "deleted event")
        lacks = "; it lacks the request: --repair sends it" if found.requests_lacking(relay) else ""
        least = "at least " if relay in found.vanish_doubt else ""
        say(f"{clip(relay)} serves {least}{served}: {ids}{lacks}")
    elif doubt := found.vanish_doubt.get(relay):
        say(f"{clip(relay)} may serve events from before a request to vanish: {clip(doubt)}")
    elif relay in found.vanished:
        say(f"{clip(relay)} was asked to forget events (NIP-62): what it should have is not known")
    alone = sum(found.alone(relay, kind) for kind in found.kinds)
    if alone:
        say(f"{clip(relay)} names {plural(alone, 'event')} that nothing confirms: not counted")
    why = dict.fromkeys(one.why for one in found.cells[relay].values() if one.why)
    for reason in why:
        say(f"{clip(relay)} was not read to the end: {clip(reason)}")


def _code(found: Coverage) -> int:
    looked = any(found.cell(relay, kind).whole for relay in found.relays for kind in found.kinds)
    return OK if looked else NO_RELAY
