"""`nostr-client publish`: hand an event to many relays."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

import click

from nostr_client.cli.exitcodes import FAILURE, NO_RELAY, OK, TIMEOUT
from nostr_client.cli.output import console, json_option, print_json, say
from nostr_client.cli.paths import UserPath, read_given
from nostr_client.cli.relays import chosen_relays, outcome_code, relay_option, timeout_option
from nostr_client.cli.runner import run_async
from nostr_client.cli.secretkey import key_file_option, load_signer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nostr_client.client import NostrClient
    from nostr_client.keys import VerifiedEvent
    from nostr_client.pool import PublishResult

_LARGEST = 4 * 2**20


@click.command()
@click.argument("file", type=UserPath(path_type=str, allow_dash=True), required=False)
@click.option("--content", help="Make and sign an event with this text instead of reading one.")
@click.option(
    "--kind", type=click.IntRange(0, 65535), default=1, show_default=True, help="Its kind."
)
@click.option("--tag", "tags", metavar="NAME=VALUE", multiple=True, help="Such as e=ID.")
@relay_option
@timeout_option
@key_file_option
@json_option
@click.pass_context
def publish(
    ctx: click.Context,
    file: str | None,
    content: str | None,
    kind: int,
    tags: tuple[str, ...],
    relays: tuple[str, ...],
    timeout: float,
    key_file: str | None,
    as_json: bool,
) -> None:
    """Publish an event: the signed JSON in FILE or stdin, or one made from --content.

    Exit code 0 when any relay took it, 1 when those that answered refused.
    """
    from nostr_client.client import NostrClient

    urls = chosen_relays(relays)
    if content is not None:
        if file is not None:
            raise click.UsageError("give FILE or --content, not both")
        event = _signed(content, kind, tags, key_file)
    else:
        event = _given(file)
    results = run_async(_publish(NostrClient(urls, timeout=timeout), event, timeout))
    _report(event, results, as_json)
    code = _code(results)
    if code in (NO_RELAY, TIMEOUT):
        say("nostr-client: publish: no relay answered")
    ctx.exit(code)


def _given(file: str | None) -> VerifiedEvent:
    """The event as JSON, verified before anything is sent. Raises InvalidEvent, InvalidInput."""
    from nostr_client.event import parse_event
    from nostr_client.keys import verify

    if file is None or file == "-":
        raw = sys.stdin.buffer.read(_LARGEST)
    else:
        raw = read_given(file, _LARGEST)
    return verify(parse_event(raw))


def _signed(content: str, kind: int, tags: Sequence[str], key_file: str | None) -> VerifiedEvent:
    from nostr_client.event import EventTemplate

    pairs = tuple(_tag(text) for text in tags)
    template = EventTemplate(kind=kind, content=content, tags=pairs, created_at=int(time.time()))
    return load_signer(key_file).sign_now(template)


def _tag(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not sign or not name:
        raise click.UsageError("--tag wants NAME=VALUE")
    return name, value


async def _publish(
    client: NostrClient, event: VerifiedEvent, seconds: float
) -> Mapping[str, PublishResult]:
    async with client:
        return await client.publish(event, timeout=seconds)


def _report(event: VerifiedEvent, results: Mapping[str, PublishResult], as_json: bool) -> None:
    import msgspec
    from rich.table import Table
    from rich.text import Text

    from nostr_client.errors import clip

    if as_json:
        told = [
            {"relay": relay, "status": str(result.status), "message": result.message}
            for relay, result in results.items()
        ]
        print_json({"event": msgspec.to_builtins(event.event), "relays": told})
        return
    table = Table("relay", "status", "message", box=None, pad_edge=False)
    for relay, result in results.items():
        table.add_row(*(Text(clip(t)) for t in (relay, str(result.status), result.message)))
    console().print(event.event.id, soft_wrap=True)
    console().print(table)


def _code(results: Mapping[str, PublishResult]) -> int:
    statuses = [str(result.status) for result in results.values()]
    if "refused" in statuses and "ok" not in statuses:
        return FAILURE
    return outcome_code(statuses) if "ok" not in statuses else OK
