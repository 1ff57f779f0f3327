"""`nostr-client assertions`: publish counts as signed events that other clients read (NIP-85)."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from nostr_client.cli.entry import FAILURE, NO_RELAY, OK, CommandGroup, run_async
from nostr_client.cli.key import KEY_VARIABLE, key_file_option, key_text, optional_signer
from nostr_client.cli.names import root_with_key, with_keys
from nostr_client.cli.output import (
    console,
    json_option,
    plain_table,
    print_json,
    say,
)
from nostr_client.cli.parameters import Percent, Seconds
from nostr_client.cli.place import StoreOrAgent, place_option, store_option, the_agent
from nostr_client.cli.questions import dry_run_option, from_option, listed, provider_option
from nostr_client.cli.relays import chosen_relays, network_options, relay_option
from nostr_client.codecs.display import age, moment, plural
from nostr_client.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nostr_client.assertions import CardOptions, PublishReport
    from nostr_client.assertions.relays import CardRelays
    from nostr_client.assertions.report import RelayDelivery
    from nostr_client.assertions.run import Subject
    from nostr_client.codecs.keys import KeySigner, Signer
    from nostr_client.codecs.nip44 import Nip44
    from nostr_client.options import Options
    from nostr_client.store.sqlite import SqliteStore


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
    type=Percent(),
    default=0.0,
    show_default=True,
    metavar="PERCENT",
    help="Publish a number again if it changed by more than this, such as 5%.",
)
@click.option(
    "--rank-of",
    "root",
    metavar="KEY[:DEPTH]",
    help="Also publish the rank of each person within the web of trust of this key, or with :2 to "
    "depth 2; each viewpoint needs a key for cards of its own.",
)
@click.option(
    "--adopt",
    is_flag=True,
    help="Take over a key for cards that this program used with another store, or with other "
    "relays.",
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
    help="Send events to the relays for at most this long. Before, the relays say which events of "
    "the key they have; this question has its own limit.",
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
    count the store's events. If --from names a folder, which `nostr-agent reindex --out` made, the
    numbers are those of its archive, for all subjects there. A card is signed again when a number
    changes, and before it expires. --key-file names a key for cards only, never your identity's: a
    secret key, or a bunker:// link.
    """
    from nostr_client.assertions import CardOptions
    from nostr_client.assertions.fields import subject_of
    from nostr_client.cli.gc_tuning import prepare_for_long_runs

    prepare_for_long_runs()
    if "rank" in how["personal"] and not how["root"]:
        raise click.UsageError("a rank needs a viewpoint: give --rank-of KEY")
    ranked = ("rank",) if how["root"] else ()
    options = CardOptions(personal=frozenset((*how["personal"], *ranked)), step=how["step"] / 100)
    options.check()
    if how["followed_by"]:
        (how["followed_by"],) = with_keys([how["followed_by"]], network)
    how["root"] = root_with_key(how["root"], network)
    tables = _tables(file, subjects, how)
    named = [] if tables else [*map(subject_of, subjects), *_listed(file)]
    if not (tables or named or how["everything"] or how["followed_by"] or how["watches"]):
        raise click.UsageError("no subject: give SUBJECT, --from, --all, --followed-by or --watch")
    urls, key = chosen_relays(relays), _card_key(key_file)
    run = PublishRun(StoreOrAgent(store).path, key, urls, options, network, how)
    report = run_async(run.of_store(named) if tables is None else run.of_table(tables))
    _show(report, as_json, is_dry=how["dry_run"])
    ctx.exit(_code(report))


def _tables(file: str | None, subjects: Sequence[str], how: Mapping[str, Any]) -> Path | None:
    """Return the folder of tables, if `--from` names one. Raises click.UsageError."""
    if file is None or file == "-" or not Path(file).is_dir():
        return None
    others = {
        "SUBJECT": subjects,
        "--all": how["everything"],
        "--followed-by": how["followed_by"],
        "--watch": how["watches"],
        "--field": how["personal"],
        "--claimed-zaps": how["claimed_zaps"],
        "--rank-of": how["root"],
    }
    given = next((name for name, value in others.items() if value), None)
    if given is not None:
        raise click.UsageError(f"{file} is a folder of tables, which name all cards: drop {given}")
    return Path(file)


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
    from nostr_client.assertions.fields import subject_of

    named = [subject_of(one) for one in subjects]
    urls, key = chosen_relays(relays), _card_key(key_file)
    report = run_async(_retract(StoreOrAgent(store).path, key, urls, named, network))
    _show(report, as_json)
    ctx.exit(_code(report))


@assertions.command()
@click.option("--run", is_flag=True, help="Publish what changed first, and wait for it.")
@place_option
@json_option
@click.pass_context
def status(ctx: click.Context, run: bool, place: StoreOrAgent, as_json: bool) -> None:
    """Show what became of the cards that the agent publishes."""
    found = run_async(_status(place, run=run))
    if as_json:
        print_json(found)
    elif not found["on"]:
        say("the agent publishes no cards: set key_file in [assertions] of its configuration")
    else:
        _show_status(found)
    ctx.exit(_status_code(found))


async def _status(place: StoreOrAgent, *, run: bool) -> Mapping[str, Any]:
    async with the_agent(place) as agent:
        return await (agent.run_assertions() if run else agent.assertions())


def _show_status(found: Mapping[str, Any]) -> None:
    report = _report_of(found)
    if found["why"]:
        say(f"nothing was published {moment(found['ran_at'])}: {found['why']}")
    elif report is None:
        say("the first run has not ended yet")
    else:
        say(f"published {moment(found['ran_at'])} by {found['pubkey']}")
        _show(report, as_json=False)


def _status_code(found: Mapping[str, Any]) -> int:
    report = _report_of(found)
    is_done = report is None or report.is_done
    return OK if found["on"] and not found["why"] and is_done else FAILURE


def _report_of(found: Mapping[str, Any]) -> PublishReport | None:
    import msgspec

    from nostr_client.assertions import PublishReport

    report: PublishReport | None = msgspec.convert(found["report"], PublishReport | None)
    return report


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
@provider_option
@click.option(
    "--for-field",
    "named",
    metavar="KIND:TAG",
    multiple=True,
    help="Trust only this field; repeat for more. Default: all that are not personal.",
)
@click.option(
    "--private",
    is_flag=True,
    help="Encrypt whom you trust to your own key (NIP-44); needs the key and the extra fleet.",
)
@relay_option
@key_file_option
def declare(
    providers: tuple[str, ...],
    named: tuple[str, ...],
    private: bool,
    relays: tuple[str, ...],
    key_file: str | None,
) -> None:
    """Print the event (kind 10040) in which a user trusts providers of cards.

    With a key it is signed, for `nostr-client publish -`; else it is a template to sign elsewhere.
    It replaces the user's previous one.
    """
    import msgspec

    from nostr_client.assertions.declaration import declaration
    from nostr_client.codecs.nip19 import decode_pubkey

    if not providers:
        raise click.UsageError("give --provider KEY, the key that signs the cards to trust")
    (relay, *_) = chosen_relays(relays)
    keys = list(dict.fromkeys(map(decode_pubkey, providers)))
    signer = optional_signer(key_file)
    if private and signer is None:
        raise click.UsageError(f"--private encrypts to your key: give --key-file or {KEY_VARIABLE}")
    pair = _pair(signer) if private and signer is not None else None
    made = declaration(keys, relay, named, int(time.time()), pair)
    print_json(msgspec.to_builtins(made if signer is None else signer.sign_now(made).event))


def _pair(signer: KeySigner) -> Nip44:
    from nostr_client.codecs.nip44 import Nip44

    return Nip44(signer, "an encrypted declaration")


def _listed(file: str | None) -> list[Subject]:
    """Read subjects, one a line. Raises InvalidInput with the number of the line."""
    from nostr_client.assertions.fields import subject_of

    found = []
    for n, line in listed(file):
        try:
            found.append(subject_of(line))
        except InvalidInput as error:
            raise type(error)(f"line {n}: {error}") from error
    return found


class CardKeyFile(NamedTuple):
    """The file of a key for cards, and what it holds: a secret key or a bunker's link."""

    text: str
    where: str
    path: Path | None

    async def signer(self, network: Options) -> Signer:
        """Open the key. Raises InvalidInput for the key of $NOSTR_TALLY_KEY, RelayError."""
        from nostr_client.assertions.card_key import card_signer

        signer = await card_signer(self.text, self.path, network.connection, self.where)
        identity = optional_signer(None)
        if identity is not None and identity.pubkey == signer.pubkey:
            raise InvalidInput(
                f"{self.where} is the key in ${KEY_VARIABLE}: cards need one of their own"
            )
        return signer


def _card_key(key_file: str | None) -> CardKeyFile:
    """Read the file of a key for cards only. Raises click.UsageError, InvalidInput."""
    if key_file is None:
        raise click.UsageError(
            "give --key-file FILE, a key for these numbers alone: "
            "`nostr-client key gen --output FILE`"
        )
    text, where = key_text(key_file)
    return CardKeyFile(text, where, None if key_file == "-" else Path(key_file))


class PublishRun(NamedTuple):
    """One run of `assertions publish`; `how`: its other options by name."""

    store: Path
    key: CardKeyFile
    urls: Sequence[str]
    options: CardOptions
    network: Options
    how: Mapping[str, Any]

    async def of_store(self, named: Sequence[Subject]) -> PublishReport:
        """Publish counts of the store's events, also of the named subjects."""
        from nostr_client.assertions.run import AssertionPlan, publish
        from nostr_client.codecs.nip19 import decode_pubkey
        from nostr_client.codecs.web_of_trust import read_root

        how, followed_by = self.how, self.how["followed_by"]
        plan = AssertionPlan(
            subjects=tuple(named),
            everything=how["everything"],
            followed_by=decode_pubkey(followed_by) if followed_by else "",
            watches=how["watches"],
            claimed_zaps=how["claimed_zaps"],
            prune=how["prune"],
            name=how["name"],
            viewpoint=read_root(how["root"]) if how["root"] else None,
        )
        async with await _open(self.store) as store:
            signer = await self.key.signer(self.network)
            return await publish(
                store,
                signer,
                plan,
                self.options,
                self._relays,
                now=time.time,
                dry_run=how["dry_run"],
                adopt=how["adopt"],
                note=say,
            )

    async def of_table(self, folder: Path) -> PublishReport:
        """Publish the counts of the tables in a folder."""
        from nostr_client.assertions.bulk import publish_table
        from nostr_client.assertions.count_table import CountTable

        table = CountTable(folder)
        async with await _open(self.store) as store:
            signer = await self.key.signer(self.network)
            return await publish_table(
                store,
                signer,
                table,
                self.options,
                self._relays,
                prune=self.how["prune"],
                name=self.how["name"],
                now=time.time,
                dry_run=self.how["dry_run"],
                adopt=self.how["adopt"],
            )

    @property
    def _relays(self) -> CardRelays:
        from nostr_client.assertions.relays import CardRelays

        return CardRelays(self.urls, self.network, self.how["timeout"])


async def _retract(
    path: Path, key: CardKeyFile, urls: Sequence[str], named: Sequence[Subject], network: Options
) -> PublishReport:
    from nostr_client.assertions import CardOptions, Ledger, Publisher
    from nostr_client.assertions.relays import CardRelays

    async with await _open(path) as store:
        signer = await key.signer(network)
        ledger = Ledger(store.database, signer.pubkey)
        publisher = Publisher(ledger, signer, CardOptions(), time.time)
        await publisher.retract(named)
        await CardRelays(urls, network, 60.0).send(publisher, {})
        return publisher.report


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


def _show(report: PublishReport, as_json: bool, *, is_dry: bool = False) -> None:
    if as_json:
        print_json(report.to_dict())
        return
    signed, retracted = ("to sign", "to retract") if is_dry else ("signed", "retracted")
    click.echo(
        f"{plural(report.signed, 'card')} {signed}, {report.unchanged} unchanged, "
        f"{report.retracted} {retracted}"
    )
    for why, number in report.withheld.items():
        say(f"{plural(number, 'card')} not published: {why}")
    for reason, number in report.without_card.items():
        noun, _, why = reason.partition(": ")
        say(f"{plural(number, noun)} without a card: {why}")
    for lacks, number in report.incomplete.items():
        say(f"{plural(number, 'card')} without {lacks}")
    if report.ahead:
        say(
            f"the newest published card is {age(report.ahead)} ahead of this clock: relays may"
            " refuse cards that are dated in the future"
        )
    table = plain_table("relay", "taken", "left", "why")
    for url, one in report.relays.items():
        table.add_row(url, str(one.taken), str(one.left), _why(one))
    if report.relays:
        console().print(table)


def _why(one: RelayDelivery) -> str:
    """Return why a relay lacks events and what is wrong there, each reason once."""
    reasons = [f"{number} × {reason or 'refused'}" for reason, number in one.refused.items()]
    if one.error and one.error not in one.refused:
        reasons.append(one.error)
    if one.others:
        reasons.append(
            f"{plural(one.others, 'newer card')} by this key that this store did not sign"
        )
    if one.unread:
        reasons.append(one.unread)
    return "; ".join(reasons)


def _code(report: PublishReport) -> int:
    relays = report.relays.values()
    if relays and all(one.error and not one.taken for one in relays):
        return NO_RELAY
    return OK if report.is_done else FAILURE
