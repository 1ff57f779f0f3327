"""`nostr-client count`: one number from many relays, and each relay's answer."""

from __future__ import annotations

import time
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import click

from nostr_client import hll
from nostr_client.cli.count.enough import enough_option, unasked_lines
from nostr_client.cli.count.overlap import overlap_fields, overlap_option, show_overlap
from nostr_client.cli.entry import run_async
from nostr_client.cli.filteroptions import Conditions, filter_options
from nostr_client.cli.key import key_file_option, optional_signer
from nostr_client.cli.names import conditions_with_keys, root_with_key, with_keys
from nostr_client.cli.output import console, json_option, plain_table, print_json, say, waiting
from nostr_client.cli.place import store_option
from nostr_client.cli.questions import (
    NAMES,
    asked_query,
    deny_option,
    from_option,
    indexer_option,
    keep_option,
    listed,
    max_events_option,
    monitor_option,
    most_option,
    provider_option,
    relay_choice,
    trust_option,
    trusted_option,
    within_option,
)
from nostr_client.cli.relays import (
    chosen_relays,
    network_options,
    outcome_code,
    relay_option,
    timeout_option,
    worst_code,
)
from nostr_client.codecs import nip19
from nostr_client.codecs.display import plural, said, sats
from nostr_client.codecs.profiles import person
from nostr_client.count.merge import Claim, CountUnit, Figure
from nostr_client.count.overlaps import overlaps_of
from nostr_client.errors import InvalidInput, MissingExtra, clip

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence
    from pathlib import Path

    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from nostr_client.assertions.reading import Asserted
    from nostr_client.client import NostrClient
    from nostr_client.count import Query
    from nostr_client.count.result import CountResult, VerifiedZaps
    from nostr_client.options import Options

    Show = Callable[[int, CountResult, Mapping[str, str], Sequence[Asserted] | None], None]
    AskToo = Callable[[NostrClient, Query, Sequence[str] | None], Awaitable[Sequence[Asserted]]]

MOST_NOTED = 3
"""Relays of which is printed since when only new events were read; --json has all."""

MOST_WALLETS = 5
"""Wallets whose failure is printed; --json has all."""

_STYLES = {"ok": "green"} | dict.fromkeys(
    ("refused", "auth_required", "unsupported", "held_back"), "yellow"
)


def show(
    result: CountResult,
    out: Console | None = None,
    names: Mapping[str, str] | None = None,
    people: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Print the table, with relays called by `names`, and the merged line on stdout.

    `people`: names by key, as from `NostrClient.names`.
    """
    out = out or console()
    out.print(table(result, names))
    out.print(str(result), style="bold", soft_wrap=True)
    for line in second_lines(result, people):
        out.print(line, soft_wrap=True)


def table(result: CountResult, names: Mapping[str, str] | None = None) -> Table:
    """Return one row for each relay, called by `names`; control characters in foreign text are
    visible."""
    from rich.table import Column

    right = [Column(name, justify="right", overflow="fold") for name in ("count", "hll")]
    read = [Column(name, justify="right", overflow="fold") for name in ("read", "ms")]
    shown = plain_table("relay", *right, "method", *read, "status", "warning")
    for claim in result.relays:
        shown.add_row(*_row(claim, (names or {}).get(claim.relay, claim.relay)))
    return shown


def _row(claim: Claim, name: str) -> list[Text]:
    from rich.text import Text

    people = "" if claim.registers is None else f"{_estimate(claim.registers)}"
    latency = "" if claim.latency_ms is None else f"{claim.latency_ms:.0f}"
    cells = [
        clip(name, 60),
        _count_cell(claim),
        people,
        str(claim.method or ""),
        size(claim.bytes_read) if claim.bytes_read else "",
        latency,
    ]
    status = Text(str(claim.status), style=_STYLES.get(claim.status, "red"))
    warning = Text("; ".join(clip(w, 160) for w in claim.warnings), style="dim")
    return [*(Text(cell) for cell in cells), status, warning]


def _count_cell(claim: Claim) -> str:
    if claim.count is None:
        return ""
    sign = "≥" if claim.limited else "~" if claim.approximate else ""
    return f"{sign}{claim.count:,}"


def _estimate(registers: bytes) -> str:
    estimate = hll.estimate(registers)
    return f"~{estimate:,.0f}" if estimate < 1e15 else "full"


def size(octets: int) -> str:
    """Return a number of bytes for people."""
    if octets < 1000:
        return f"{octets} B"
    return f"{octets / 1e3:.0f} kB" if octets < 1e6 else f"{octets / 1e6:.1f} MB"


def second_lines(
    result: CountResult, people: Mapping[str, str] = MappingProxyType({})
) -> list[str]:
    """Yield the other unit if it differs, the amount, the contents, and what is unknown."""
    lines = []
    if result.unit is CountUnit.AUTHORS and result.events not in (None, result.authors):
        assert result.events is not None
        lines.append(f"events: {said(result.events)}")
    if result.unit is CountUnit.EVENTS and result.authors not in (None, result.events):
        assert result.authors is not None
        if any("registers" in part.used for part in result.merged.parts):
            lines.append(f"distinct authors, estimated from registers: {said(result.authors)}")
    amount = result.merged.amount
    if amount is not None:
        lines.append(f"amount: {_sats(amount)}, as receipts claim")
    if result.verified is not None:
        lines += _verified(result.verified, people)
    if result.contents is not None:
        split = (f"{clip(label, 64)} {n:,}" for label, n in result.contents.items())
        lines.append(f"of the events read: {', '.join(split) or 'none'}")
    if result.note is not None:
        lines.append(f"note: {result.note}")
    lines += _why_at_least(result)
    if result.within is not None:
        lines.append(result.within.line(people))
    if result.unasked is not None:
        lines += unasked_lines(result.unasked)
    return lines


def _why_at_least(result: CountResult) -> list[str]:
    """Return the relays whose events were not all read now: so the number is a lower bound."""
    noted = [one for one in result.relays if one.note] if result.lower_bound else []
    lines = [f"at least: {clip(one.relay, 60)}: {one.note}" for one in noted[:MOST_NOTED]]
    if more := noted[MOST_NOTED:]:
        lines.append(f"and {plural(len(more), 'more relay')}: see note in --json")
    return lines


def _verified(found: VerifiedZaps, people: Mapping[str, str]) -> list[str]:
    """Yield what the wallets signed, and which wallets are unknown: unknown is not zero."""
    if found.receipts is None or found.amount is None:
        lines = ["signed by the recipient's wallet: not known"]
    else:
        signed = f"{_sats(found.amount)} in {plural(found.receipts.value, 'receipt')}"
        lines = [f"signed by the recipient's wallet: {signed}"]
    for wallet in found.unknown[:MOST_WALLETS]:
        host = f" at {clip(wallet.host, 60)}" if wallet.host else ""
        name = person(wallet.recipient, people)
        lines.append(f"wallet of {name}{host}: {wallet.status}: {clip(wallet.reason, 160)}")
    if len(found.unknown) > MOST_WALLETS:
        more = len(found.unknown) - MOST_WALLETS
        are = plural(more, "more wallet is", "more wallets are")
        lines.append(f"{are} not known: see wallets in --json")
    return lines


def _sats(amount: Figure) -> str:
    """Return millisats in sats; if the low end is below the sum, some of it may not count."""
    value, low = sats(amount.value), sats(amount.low)
    if amount.exact:
        return value
    return f"at least {value}" if amount.low == amount.value else f"{value}, at least {low}"


@click.command()
@click.argument("what", metavar="[WHAT]", type=click.Choice(NAMES), required=False)
@click.argument("targets", metavar="[TARGET...]", nargs=-1)
@from_option
@filter_options
@relay_option
@indexer_option
@deny_option
@most_option
@monitor_option
@timeout_option
@click.option("--read/--no-read", default=True, help="Read the events of relays without HLL.")
@click.option(
    "--max-bytes",
    type=click.IntRange(min=1),
    default=32 * 2**20,
    show_default=True,
    help="Read at most this many bytes from one relay; if it has more, the number is a lower "
    "bound.",
)
@max_events_option
@click.option(
    "--by-content",
    is_flag=True,
    help="Read events from every relay, and split reactions into likes, dislikes and emoji, "
    "replies into direct ones and deeper ones.",
)
@click.option(
    "--verify-zaps",
    is_flag=True,
    help="Ask recipients' wallets for the key that signs their zap receipts: their hosts learn "
    "that you count.",
)
@within_option
@click.option(
    "--assertions",
    "asserted",
    is_flag=True,
    help="Also print what providers assert (NIP-85): those of --provider, else those that your key "
    "declares to trust (kind 10040). It is no part of the number.",
)
@provider_option
@enough_option
@overlap_option
@trust_option
@trusted_option
@store_option
@keep_option
@key_file_option
@network_options(strangers=True)
@json_option
@click.pass_context
def count(
    ctx: click.Context,
    /,
    what: str | None,
    targets: tuple[str, ...],
    file: str | None,
    conditions: Conditions,
    relays: tuple[str, ...],
    indexers: tuple[str, ...],
    by_content: bool,
    verify_zaps: bool,
    asserted: bool,
    providers: tuple[str, ...],
    overlap: bool,
    enough: float | None,
    within: str | None,
    as_json: bool,
    **how: Any,
) -> None:
    """Count WHAT about each TARGET over all relays, or the events of a filter.

    WHAT is followers, reactions, reposts, quotes, replies, comments, replies+comments or zaps;
    TARGET is an npub, nprofile, note, nevent, naddr, hex or a name such as bob@example.com
    (NIP-05), whose key the command asks of the domain. Several targets are counted one after
    the other over the same connections; the output has one line for each, or with --json one object
    a line.

    Each relay gets a COUNT (NIP-45). If it returns no HLL registers, its events are read, up to
    --max-bytes and --max-events; the table shows how many were read. --no-read turns that off. With
    --store, answers are stored, and the next count reads only what is new.
    """
    if by_content and (what not in ("reactions", "replies") or not how["read"]):
        raise click.UsageError("--by-content goes with reactions and replies, which it reads")
    if verify_zaps and (what != "zaps" or not how["read"]):
        raise click.UsageError("--verify-zaps goes with zaps, whose receipts it reads")
    if within is not None and (how["store"] is None or not how["read"]):
        raise click.UsageError("--within needs --store PATH with follow lists, and reads events")
    named = with_keys([*targets, *(line for _, line in listed(file))], how["network"])
    conditions = conditions_with_keys(conditions, how["network"])
    within = root_with_key(within, how["network"])
    providers = tuple(with_keys(providers, how["network"]))
    asked: list[str | None] = [*named] if named else [None]
    queries = [asked_query(what, one, conditions) for one in asked]
    if by_content:
        from msgspec.structs import replace

        queries = [replace(query, by_content=True) for query in queries]
    ask_too = _asserting(queries, providers, how["key_file"]) if asserted or providers else None
    urls = None if indexers and not relays else chosen_relays(relays)
    client = _client(indexers, **how)
    show_one = _shower(named, as_json=as_json, overlap=overlap)
    more = {"verify_zaps": verify_zaps, "enough": enough, "within": within}
    asking = _count(client, queries, urls, show_one, ask_too, named=not as_json, **more)
    code = worst_code(run_async(asking))
    if code:
        say("nostr-client: count: no relay answered")
    ctx.exit(code)


def _shower(named: Sequence[str], *, as_json: bool, overlap: bool) -> Show:
    """Return the function that prints one result: all of a single one, one line for each of
    several."""

    def show_one(
        n: int,
        result: CountResult,
        people: Mapping[str, str],
        asserted: Sequence[Asserted] | None,
    ) -> None:
        if as_json:
            found = {} if asserted is None else {"assertions": [o.to_dict() for o in asserted]}
            more = overlap_fields(overlaps_of(result)) if overlap else {}
            print_json(result.to_dict() | more | found)
        elif len(named) > 1:
            near = f"; {result.within.line(people)}" if result.within else ""
            click.echo(f"{_called(named[n], result.query, people)}  {result}{near}")
        else:
            show(result, people=people)
        if overlap and not as_json:
            show_overlap(overlaps_of(result))
        if asserted is not None and not as_json:
            show_asserted(asserted, result)

    return show_one


def _called(typed: str, query: Query, people: Mapping[str, str]) -> str:
    """Return a target as it was typed, behind the name of the person that it is."""
    name = people.get(query.person or "")
    return clip(typed, 80) if name is None else f"{name} ({clip(typed, 80)})"


def _people(result: CountResult) -> list[str]:
    """Return the keys that the details of a result show."""
    found = [] if result.within is None else [result.within.key]
    unknown = [] if result.verified is None else result.verified.unknown[:MOST_WALLETS]
    return [*found, *(wallet.recipient for wallet in unknown)]


def _asserting(queries: Sequence[Query], providers: Sequence[str], key_file: str | None) -> AskToo:
    """Return what asks for assertions. Raises InvalidInput for a query that no card answers."""
    from nostr_client.assertions.reading import subject_of_query

    for query in queries:
        subject_of_query(query)
    for provider in providers:
        nip19.decode_pubkey(provider)
    signer = None if providers else optional_signer(key_file)
    if not providers and signer is None:
        raise click.UsageError(
            "--assertions needs --provider, or the key that declares whom it trusts (--key-file)"
        )

    async def ask_too(
        client: NostrClient, query: Query, urls: Sequence[str] | None
    ) -> list[Asserted]:
        try:
            return await client.assertions(query, providers, trusted_by=signer, relays=urls)
        except (InvalidInput, MissingExtra) as error:
            if signer is None:
                raise
            say(f"only the public part of your declaration is read: {error}")
            return await client.assertions(query, trusted_by=signer.pubkey, relays=urls)

    return ask_too


def show_asserted(asserted: Sequence[Asserted], result: CountResult) -> None:
    """Print what providers assert beside what relays show."""
    from nostr_client.assertions.reading import compared

    if not asserted:
        say("your key declares no provider for this, as far as these relays have")
    for one in asserted:
        click.echo(compared(one, result, time.time()))


def _client(
    indexers: Sequence[str],
    *,
    denied: Sequence[str],
    most: int,
    monitors: Sequence[str],
    timeout: float,
    read: bool,
    max_bytes: int,
    max_events: int,
    trust: str | None,
    trusted: Sequence[str],
    store: Path | None,
    keep_events: bool,
    key_file: str | None,
    network: Options,
) -> NostrClient:
    from nostr_client.client import NostrClient
    from nostr_client.count.merge import TrustPolicy
    from nostr_client.options import ReadBudget

    if keep_events and store is None:
        raise click.UsageError("--keep-events needs --store PATH")
    return NostrClient(
        options=network,
        timeout=timeout,
        read=read,
        budget=ReadBudget(bytes=max_bytes, events=max_events),
        trust=TrustPolicy(trust or TrustPolicy.EXCLUDE),
        trusted=trusted,
        store=store,
        keep_events=keep_events,
        choice=relay_choice(indexers, denied, most, with_keys(monitors, network)),
        signer=optional_signer(key_file),
    )


async def _count(
    client: NostrClient,
    queries: Sequence[Query],
    urls: Sequence[str] | None,
    show_one: Show,
    ask_too: AskToo | None,
    *,
    named: bool,
    **how: Any,
) -> list[int]:
    """Ask one question after the other, and print each result as it arrives; return the code of
    each.

    `named`: people whose keys are shown are named by their profiles. `ask_too`: what providers
    assert, which changes neither number nor code.
    """
    whom = "the target's relays" if urls is None else plural(len(urls), "relay")
    codes = []
    async with client:
        people: dict[str, str] = {}
        if named and len(queries) > 1:
            targets = [one.person for one in queries if one.person is not None]
            people = await client.names(targets, relays=urls)
        for n, query in enumerate(queries):
            with waiting(f"asking {whom}…"):
                result = await client.count(query, relays=urls, **how)
                keys = [key for key in _people(result) if key not in people] if named else []
                people |= await client.names(keys, relays=urls) if keys else {}
                asserted = None if ask_too is None else await ask_too(client, query, urls)
            show_one(n, result, people, asserted)
            codes.append(outcome_code([claim.status for claim in result.relays]))
    return codes
