"""`nostr-agent relay`: a store as a relay, alone."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import re
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from agent.relay.listen import allowed_origin, own_url, parse_address
from agent.relay.policy import all_of, everything, only_keys
from nostr_client.cli.entry import run_async
from nostr_client.cli.output import json_option, print_json, say
from nostr_client.cli.parameters import UserPath
from nostr_client.cli.place import store_option
from nostr_client.codecs import nip19
from nostr_client.codecs.display import plural
from nostr_client.errors import InvalidInput, NetworkError
from nostr_client.paths import RELAY_PORT, read_secret, store_path

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from agent.relay.options import RelayOptions
    from agent.relay.policy import WriteContext, WritePolicy
    from agent.relay.server import RelayServer
    from nostr_client.codecs.event import Event

SWITCH_S = 0.0005
"""How long a thread may keep the GIL while another wants it: the sockets' loop shares it with the
store's threads, and Python's 5 ms would delay every answer."""

DEFAULT_LISTEN = f"127.0.0.1:{RELAY_PORT}"


@click.command()
@store_option
@click.option(
    "--listen", default=DEFAULT_LISTEN, show_default=True, metavar="HOST:PORT",
    help="Where it answers; port 0: any.",
)  # fmt: skip
@click.option(
    "--write-key",
    "write_keys",
    multiple=True,
    metavar="NPUB",
    help="Take events of these keys only.",
)
@click.option("--policy", metavar="MODULE:NAME", help="A Python callable that judges each event.")
@click.option(
    "--write-token-file",
    "token_file",
    type=UserPath(exists=True, dir_okay=False, path_type=Path),
    help="Writing needs the token in this file.",
)
@click.option(
    "--tls-cert", type=UserPath(exists=True, dir_okay=False, path_type=Path),
    help="Certificate chain in PEM, for wss.",
)  # fmt: skip
@click.option(
    "--tls-key", type=UserPath(exists=True, dir_okay=False, path_type=Path),
    help="Key of --tls-cert.",
)  # fmt: skip
@click.option(
    "--allow-origin",
    "origins",
    multiple=True,
    metavar="ORIGIN",
    help='A web origin that may use the relay; "*" for all.',
)
@click.option(
    "--allow-host",
    "hosts",
    multiple=True,
    metavar="NAME",
    help="A host name that clients may use besides loopback.",
)
@click.option(
    "--url",
    "urls",
    multiple=True,
    metavar="URL",
    help="A URL by which clients know the relay besides its address, as behind a proxy.",
)
@click.option(
    "--foreign-origins",
    type=click.Choice(["refuse", "read"]),
    default="refuse",
    show_default=True,
    help="What pages of other origins get.",
)
@click.option("--count/--no-count", default=True, help="Answer COUNT (NIP-45).")
@click.option("--hll/--no-hll", default=True, help="Send registers with counts.")
@click.option("--hello/--no-hello", default=False, help="Greet with HELLO.")
@click.option("--negentropy/--no-negentropy", default=True, help="Answer NEG-OPEN (NIP-77).")
@click.option(
    "--neg-reasons",
    type=click.Choice(["current", "seed"]),
    default="current",
    show_default=True,
    help="Words of NEG-ERR.",
)
@click.option(
    "--index-search",
    "search",
    is_flag=True,
    help="Index contents for NIP-50, now and from then on.",
)
@click.option("--auth-on-connect", is_flag=True, help="Send the AUTH challenge at once.")
@json_option
def relay(store: Path | None, listen: str, search: bool, as_json: bool, **given: Any) -> None:
    """Serve a store as a Nostr relay until interrupted."""
    host, port = parse_address(listen)
    options = _options(given)
    path = store or store_path()
    try:
        run_async(_serve(path, host, port, options, search=search, as_json=as_json))
    except NetworkError as error:  # an address in use
        raise click.ClickException(f"{error}; another address: --listen HOST:PORT") from error


async def _serve(
    path: Path, host: str, port: int, options: RelayOptions, *, search: bool, as_json: bool
) -> None:
    from agent.relay.bounded import raise_open_files
    from agent.relay.server import serve
    from nostr_client.store.sqlite import SqliteStore

    raise_open_files()
    sys.setswitchinterval(SWITCH_S)
    stop = asyncio.Event()
    async with (
        await SqliteStore.open(path, search=search) as events,
        serve(events, host=host, port=port, options=options, on_break=stop.set) as server,
    ):
        with _stopped_by_signals(stop):
            _announce(server, path, options, as_json=as_json)
            await stop.wait()
        say(f"stopping: {plural(server.connections, 'client is', 'clients are')} notified")
        say(_summary(server))


def _summary(server: RelayServer) -> str:
    """One line about what was served, printed when the relay stops."""
    counted = ", ".join(f"{name} {number}" for name, number in sorted(server.counted.items()))
    slowest = sorted(server.count_seconds)
    p99 = f"; COUNT p99 {1e3 * slowest[len(slowest) * 99 // 100]:.1f} ms" if slowest else ""
    return f"served: {counted or 'nothing'}{p99}"


@contextlib.contextmanager
def _stopped_by_signals(stop: asyncio.Event) -> Iterator[None]:
    """SIGINT and SIGTERM end the relay in order: what was taken is stored and answered."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    try:
        yield
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)


def _announce(server: RelayServer, path: Path, options: RelayOptions, *, as_json: bool) -> None:
    served = server.document()
    if as_json:
        print_json({"url": server.url, "store": str(path), **served})
        return
    click.echo(f"{server.url} serves {path}")
    click.echo("NIPs " + " ".join(map(str, cast("list[int]", served["supported_nips"]))))
    access = options.access
    who = "everyone" if options.write_policy is everything else "by policy"
    click.echo(f"writing: {who}{', with the token' if access.token else ''}")


def _options(given: dict[str, Any]) -> RelayOptions:
    from agent.relay.options import RelayAccess, RelayOptions

    token_file = given["token_file"]
    access = RelayAccess(
        token=read_secret(token_file) if token_file else None,
        hosts=frozenset(host.lower() for host in given["hosts"]),
        origins=frozenset(map(allowed_origin, given["origins"])),
        foreign_origins=given["foreign_origins"],
        tls_cert=given["tls_cert"],
        tls_key=given["tls_key"],
    )
    features = {name: given[name] for name in _FEATURES}
    urls = tuple(map(own_url, given["urls"]))
    return RelayOptions(access=access, urls=urls, write_policy=_policy(given), **features)


_FEATURES = ("count", "hll", "hello", "negentropy", "neg_reasons", "auth_on_connect")


def _policy(given: dict[str, Any]) -> WritePolicy:
    policies: list[WritePolicy] = []
    if given["write_keys"]:
        policies.append(only_keys(nip19.decode_pubkey(text) for text in given["write_keys"]))
    if given["policy"]:
        policies.append(_plug_in(given["policy"]))
    if not policies:
        return everything
    return policies[0] if len(policies) == 1 else all_of(*policies)


def _plug_in(target: str) -> WritePolicy:
    """The callable `module:name`; the module is looked for as Python does."""
    module, colon, name = target.partition(":")
    try:
        policy = getattr(importlib.import_module(module), name) if colon else None
    except (ImportError, AttributeError, ValueError) as error:
        raise InvalidInput(f"policy {target!r}: {error}") from error
    if not callable(policy):
        raise InvalidInput(f"policy {target!r} is not MODULE:NAME of a callable")
    return _well_spoken(policy)


def _well_spoken(judge: Callable[[Event, WriteContext], object]) -> WritePolicy:
    """`judge` as a policy: a result that is not text refuses the event, the safe side."""

    def policy(event: Event, context: WriteContext, /) -> str:
        reason = judge(event, context)
        if not isinstance(reason, str):
            return f"error: the write policy gave {type(reason).__name__}, not a reason"
        return reason if not reason or _PREFIX.match(reason) else f"blocked: {reason}"

    return policy


_PREFIX = re.compile(r"[a-z-]+: ")
