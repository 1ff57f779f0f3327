"""`nostr-client assertions`: publish counts as signed events that other clients read (NIP-85)."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

import click

from nostr_client.cli.entry import FAILURE, NO_RELAY, OK, CommandGroup, run_async
from nostr_client.cli.key import KEY_VARIABLE, key_file_option, load_signer, optional_signer
from nostr_client.cli.output import console, json_option, plain_table, print_json, say
from nostr_client.cli.parameters import Seconds
from nostr_client.cli.place import Place, store_option
from nostr_client.cli.questions import dry_run_option, from_option, listed
from nostr_client.cli.relays import chosen_relays, network_options, relay_option
from nostr_client.codecs.display import plural
from nostr_client.errors import InvalidIdentifier, InvalidInput

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from nostr_client.assertions import CardOptions, Publisher, PublishReport
    from nostr_client.assertions.tally import Tally
    from nostr_client.codecs.keys import KeySigner
    from nostr_client.options import Options
    from nostr_client.store.sqlite import SqliteStore

Subject = tuple[int, str]


@click.group(cls=CommandGroup)
def assertions() -> None:
    """Publish counts as signed cards that Nostr clients read (NIP-85)."""


@assertions.command()
@click.argument("subjects", metavar="[SUBJECT...]", nargs=-1)
@from_option
@click.option(
    "--all",
    "everything",
    is_flag=True,
    help="Publish cards of all authors and events of the store.",
)
@click.option(
    "--followed-by",
    metavar="KEY",
    help="Publish cards of everybody whom this key follows, as stored.",
)
@click.option(
    "--watch",
    "watches",
    metavar="NAME",
    multiple=True,
    help="Use the number of this watch, over many relays, instead of the store's; its subject gets "
    "a card.",
)
@click.option(
    "--field",
    "personal",
    metavar="NAME",
    multiple=True,
    help="Also publish this personal field, such as reports_cnt_recd; repeat for more.",
)
@click.option(
    "--claimed-zaps",
    is_flag=True,
    help="Also count zap receipts that no known wallet signed; the key's profile says so.",
)
@click.option(
    "--step",
    type=click.FloatRange(0, 100),
    default=0.0,
    show_default=True,
    metavar="PERCENT",
    help="Publish a number again if it changed by more than this share.",
)
@click.option(
    "--rank-of",
    "root",
    metavar="KEY[:DEPTH]",
    help="Also publish the rank of each person within the web of trust of this key, or with :2 to "
    "depth 2; each viewpoint needs a key for cards of its own.",
)
@click.option("--prune", is_flag=True, help="Retract the cards of all other subjects.")
@click.option(
    "--name", default="nostr-tally", show_default=True, help="Use this name in the profile."
)
@dry_run_option
@click.option(
    "--publish-timeout",
    "timeout",
    metavar="SECONDS",
    type=Seconds(most=86_400),
    default=600.0,
    show_default=True,
    help="Wait at most this long for all relays of a run.",
)
@key_file_option
@relay_option
@store_option
@network_options()
@json_option
@click.pass_context
def publish(
    ctx: click.Context,
    /,
    subjects: tuple[str, ...],
    file: str | None,
    key_file: str | None,
    relays: tuple[str, ...],
    store: Path | None,
    network: Options,
    as_json: bool,
    **how: Any,
) -> None:
    """Sign and publish the cards of subjects.

    A subject is an npub, note, nevent or naddr, or i:VALUE for an identifier (NIP-73). The numbers
    count the store's events. A card is signed again when a number changes, and before it expires.
    --key-file names a key for cards only, never your identity's.
    """
    from nostr_client.assertions import CardOptions

    ranked = ("rank",) if how["root"] else ()
    options = CardOptions(personal=frozenset((*how["personal"], *ranked)), step=how["step"] / 100)
    options.check()
    named = [*map(subject_of, subjects), *_listed(file)]
    if not (named or how["everything"] or how["followed_by"] or how["watches"]):
        raise click.UsageError("no subject: give SUBJECT, --from, --all, --followed-by or --watch")
    urls = chosen_relays(relays)
    signer = _own_signer(key_file)
    report = run_async(_publish(Place(store).path, signer, urls, named, options, network, how))
    _show(report, as_json)
    ctx.exit(_code(report))


@assertions.command()
@click.argument("subjects", metavar="SUBJECT...", nargs=-1, required=True)
@key_file_option
@relay_option
@store_option
@network_options()
@json_option
@click.pass_context
def retract(
    ctx: click.Context,
    subjects: tuple[str, ...],
    key_file: str | None,
    relays: tuple[str, ...],
    store: Path | None,
    network: Options,
    as_json: bool,
) -> None:
    """Ask the relays to delete the cards of subjects (kind 5, NIP-09)."""
    named = [subject_of(one) for one in subjects]
    urls, signer = chosen_relays(relays), load_signer(key_file)
    report = run_async(_retract(Place(store).path, signer, urls, named, network))
    _show(report, as_json)
    ctx.exit(_code(report))


@assertions.command()
@json_option
def fields(as_json: bool) -> None:
    """Print what every field of a card counts."""
    from nostr_client.assertions import FIELDS

    if as_json:
        rows = [{"card": kind, **_builtins(one)} for kind, some in FIELDS.items() for one in some]
        print_json(rows)
        return
    table = plain_table("card", "field", "unit", "what it counts")
    for kind, some in FIELDS.items():
        for one in some:
            personal = " (personal)" if one.personal else ""
            table.add_row(str(kind), one.name + personal, one.unit, one.counts)
    console().print(table)


@assertions.command()
@click.option("--provider", metavar="KEY", required=True, help="Trust cards that this key signs.")
@click.option(
    "--for-field",
    "named",
    metavar="KIND:TAG",
    multiple=True,
    help="Trust only this field; repeat for more. Default: all that are not personal.",
)
@relay_option
@key_file_option
def declare(
    provider: str, named: tuple[str, ...], relays: tuple[str, ...], key_file: str | None
) -> None:
    """Print the event (kind 10040) in which a user trusts a provider of cards.

    With a key it is signed, for `nostr-client publish -`; else it is a template to sign elsewhere.
    It replaces the user's previous one.
    """
    import msgspec

    from nostr_client.assertions.cards import declaration
    from nostr_client.codecs.nip19 import decode_pubkey

    (relay, *_) = chosen_relays(relays)
    made = declaration(decode_pubkey(provider), relay, named, int(time.time()))
    signer = optional_signer(key_file)
    print_json(msgspec.to_builtins(made if signer is None else signer.sign_now(made).event))


def subject_of(text: str) -> Subject:
    """Return the card's kind and `d` for what people type. Raises InvalidIdentifier."""
    from nostr_client.assertions.fields import ADDRESS, EVENT, IDENTIFIER, USER
    from nostr_client.codecs import nip19

    bare = text.strip()
    if bare.startswith("i:") and len(bare) > 2:
        return IDENTIFIER, bare[2:]
    if nip19.looks_hex(bare):
        raise InvalidIdentifier(
            "64 hex characters may be a key or an event id: write npub1… or note1…"
        )
    what = "a subject: expected npub, note, nevent, naddr, or i:IDENTIFIER"
    name, found = nip19.person_event_or_address(bare, what)
    return {"p": USER, "e": EVENT, "a": ADDRESS}[name], found


def _listed(file: str | None) -> list[Subject]:
    """Read subjects, one a line. Raises InvalidInput with the number of the line."""
    found = []
    for n, line in listed(file):
        try:
            found.append(subject_of(line))
        except InvalidInput as error:
            raise type(error)(f"line {n}: {error}") from error
    return found


def _own_signer(key_file: str | None) -> KeySigner:
    """Return the signer of a key for cards only. Raises click.UsageError."""
    if key_file is None:
        raise click.UsageError(
            "give --key-file FILE, a key for these numbers alone: "
            "`nostr-client key gen --output FILE`"
        )
    signer = load_signer(key_file)
    identity = optional_signer(None) if os.environ.get(KEY_VARIABLE) else None
    if identity is not None and identity.pubkey == signer.pubkey:
        raise InvalidInput(f"{key_file} is the key in ${KEY_VARIABLE}: cards need one of their own")
    return signer


async def _publish(
    path: Path,
    signer: KeySigner,
    urls: Sequence[str],
    named: Sequence[Subject],
    options: CardOptions,
    network: Options,
    how: dict[str, Any],
) -> PublishReport:
    from nostr_client.assertions import Ledger, Publisher, cards_of
    from nostr_client.assertions.sources import measured_by, tallied, why_not_whole
    from nostr_client.codecs.web_of_trust import read_root

    root = read_root(how["root"]) if how["root"] else None
    now = int(time.time())
    async with await _open(path) as store:
        tally = await tallied(store, now, claimed_zaps=how["claimed_zaps"], viewpoint=root)
        why = await why_not_whole(store, tally, now)
        if why:
            raise InvalidInput(f"nothing is published: {why}")
        if signer.pubkey in tally.identities:
            raise InvalidInput("this key follows, writes or reacts: cards need a key of their own")
        missing = 0 if tally.web is None else tally.web.followed - tally.web.lists
        if missing:
            say(f"ranks are without {plural(missing, 'follow list')}, not stored")
        measured = await measured_by(store, how["watches"])
        wanted = dict.fromkeys([*named, *await _chosen(store, tally, how), *measured])
        ledger = Ledger(store.database, signer.pubkey)
        publisher = Publisher(ledger, signer, options, time.time)
        dry = how["dry_run"]
        method = "claimed zaps" if how["claimed_zaps"] else "verified zaps"
        method += "" if root is None else f", ranks as seen by {root}"
        if not dry:
            await ledger.claim(method)
            await publisher.introduce(urls, how["name"], about(method))
        await publisher.sign(cards_of(tally, wanted, options, measured), dry_run=dry)
        gone = [one for one in await ledger.subjects() if _is_gone(one, tally, wanted, how)]
        await publisher.retract(gone, dry_run=dry)
        if not dry:
            await _send(publisher, urls, network, how["timeout"])
        return publisher.report


def about(method: str) -> str:
    """Return the text in the profile of a key about its numbers (NIP-85, appendix 1)."""
    return (
        "Counts of followers, posts, reactions, reposts, replies and zaps over the events of many "
        f"relays, by nostr-tally ({method}). What each number counts: `nostr-client assertions "
        "fields`."
    )


def _is_gone(
    subject: Subject, tally: Tally, wanted: dict[Subject, None], how: dict[str, Any]
) -> bool:
    """Whether to retract a published card: its key vanished, or only others are wanted."""
    vanished = len(subject[1]) == 64 and tally.has_vanished(subject[1])
    return vanished or (bool(how["prune"]) and subject not in wanted)


async def _chosen(store: SqliteStore, tally: Tally, how: dict[str, Any]) -> list[Subject]:
    from nostr_client.assertions.fields import USER
    from nostr_client.codecs import kinds
    from nostr_client.codecs.filters import Filter
    from nostr_client.codecs.nip19 import decode_pubkey

    chosen = list(tally.subjects()) if how["everything"] else []
    if how["followed_by"]:
        key = decode_pubkey(how["followed_by"])
        lists = await store.query([Filter(kinds=[kinds.CONTACTS], authors=[key])])
        if not lists:
            raise InvalidInput(f"the store holds no follow list (kind 3) of {key}")
        chosen += [(USER, one) for one in dict.fromkeys(lists[0].tag_values("p"))]
    return chosen


async def _retract(
    path: Path, signer: KeySigner, urls: Sequence[str], named: Sequence[Subject], network: Options
) -> PublishReport:
    from nostr_client.assertions import CardOptions, Ledger, Publisher

    async with await _open(path) as store:
        ledger = Ledger(store.database, signer.pubkey)
        publisher = Publisher(ledger, signer, CardOptions(), time.time)
        await publisher.retract(named)
        await _send(publisher, urls, network, 60.0)
        return publisher.report


async def _send(
    publisher: Publisher, urls: Sequence[str], network: Options, seconds: float
) -> None:
    from nostr_client.network.pool import RelayPool

    async with RelayPool(options=network) as pool:
        await publisher.send(pool, urls, seconds)


async def _open(path: Path) -> SqliteStore:
    from nostr_client.assertions import ASSERTIONS
    from nostr_client.count.claims import CLAIMS
    from nostr_client.count.wallets.rows import WALLETS
    from nostr_client.store.sqlite import SqliteStore
    from nostr_client.watch.repository import WATCHES

    return await SqliteStore.open(path, migrations=[CLAIMS, WALLETS, WATCHES, ASSERTIONS])


def _builtins(value: object) -> dict[str, Any]:
    import msgspec

    made: dict[str, Any] = msgspec.to_builtins(value)
    return made


def _show(report: PublishReport, as_json: bool) -> None:
    if as_json:
        print_json(report.to_dict())
        return
    click.echo(
        f"{plural(report.signed, 'card')} signed, {report.unchanged} unchanged, "
        f"{report.retracted} retracted"
    )
    for why, number in report.withheld.items():
        say(f"{plural(number, 'card')} not published: {why}")
    for lacks, number in report.incomplete.items():
        say(f"{plural(number, 'card')} without {lacks}: no known wallet signed the receipts")
    table = plain_table("relay", "taken", "left", "why")
    for url, one in report.relays.items():
        reasons = [f"{number} × {reason or 'refused'}" for reason, number in one.refused.items()]
        table.add_row(
            url, str(one.taken), str(one.left), "; ".join([*reasons, one.error]).strip("; ")
        )
    if report.relays:
        console().print(table)


def _code(report: PublishReport) -> int:
    relays = report.relays.values()
    if relays and all(one.error and not one.taken for one in relays):
        return NO_RELAY
    return FAILURE if any(one.left for one in relays) else OK
