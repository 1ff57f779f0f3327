"""`nostr-client publish`: send events to many relays."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

import click

from nostr_client.cli.entry import FAILURE, NO_RELAY, OK, TIMEOUT, run_async
from nostr_client.cli.key import key_file_option, load_signer, optional_signer
from nostr_client.cli.names import tags_with_keys
from nostr_client.cli.output import console, json_option, plain_table, print_json, say
from nostr_client.cli.parameters import UserPath, read_given
from nostr_client.cli.relays import (
    chosen_relays,
    network_options,
    outcome_code,
    relay_option,
    timeout_option,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nostr_client.client import NostrClient
    from nostr_client.codecs.keys import KeySigner, VerifiedEvent
    from nostr_client.network.pool import PublishResult
    from nostr_client.options import Options

_LARGEST = 64 * 2**20
"""Most bytes of events, all read before the first is sent: each is verified first."""


@click.command()
@click.argument("file", type=UserPath(path_type=str, allow_dash=True), required=False)
@click.option("--content", help="Make and sign an event with this text instead of reading one.")
@click.option(
    "--kind",
    "-k",
    "kind",
    type=click.IntRange(0, 65535),
    default=1,
    show_default=True,
    metavar="KIND",
    help="Give the event of --content this kind.",
)
@click.option(
    "--tag",
    "-t",
    "tags",
    metavar="NAME=VALUE|JSON",
    multiple=True,
    help='Give it this tag: e=note1…, or all elements as JSON: ["e","note1…","","reply"]; a '
    "name alone for a tag without a value, such as - (NIP-70).",
)
@relay_option
@timeout_option
@key_file_option
@network_options()
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
    network: Options,
    as_json: bool,
) -> None:
    """Publish events: signed JSON, one a line, in FILE or stdin, or one made from --content.

    Every event is verified before the first is sent. Exit code 0 if each event was accepted by some
    relay, 1 if all relays that answered refused one.
    """
    from nostr_client.client import NostrClient

    urls = chosen_relays(relays)
    signer: KeySigner | None
    if content is not None:
        if file is not None:
            raise click.UsageError("give FILE or --content, not both")
        own = load_signer(key_file)
        found = tags_with_keys(tags, network)
        events, signer = [_signed(content, kind, found, own)], own
    else:
        if tags:
            raise click.UsageError(
                "--tag goes with --content: the tags of a signed event are fixed"
            )
        events = _given(file)
        signer = optional_signer(key_file)
    client = NostrClient(urls, timeout=timeout, signer=signer, options=network)
    codes = run_async(_publish(client, events, timeout, as_json))
    if any(code in (NO_RELAY, TIMEOUT) for code in codes):
        say("nostr-client: publish: no relay answered")
    ctx.exit(next((code for code in (FAILURE, NO_RELAY, TIMEOUT) if code in codes), OK))


def _given(file: str | None) -> list[VerifiedEvent]:
    """Return one event from JSON in any layout, or several, one a line. Raises InvalidEvent,
    InvalidInput."""
    from nostr_client.codecs.event import parse_event
    from nostr_client.codecs.keys import verify
    from nostr_client.errors import InvalidEvent, InvalidInput

    piped = file is None or file == "-"
    raw = sys.stdin.buffer.read(_LARGEST + 1) if piped else read_given(str(file), _LARGEST + 1)
    if len(raw) > _LARGEST:
        raise InvalidInput(f"more than {_LARGEST} bytes of events: publish them in parts")
    lines = [(n, one.strip()) for n, one in enumerate(raw.split(b"\n"), 1) if one.strip()]
    if not lines:
        raise InvalidInput("nothing to publish: the input has no event")
    first = lines[0][1]
    if len(lines) == 1 or not (first.startswith(b"{") and first.endswith(b"}")):
        return [_sound(verify(parse_event(raw)))]
    events = {}
    for n, line in lines:
        try:
            found = _sound(verify(parse_event(line)))
        except InvalidEvent as error:
            raise InvalidEvent(f"line {n}: {error}") from error
        events[found.event.id] = found
    return list(events.values())


def _sound(event: VerifiedEvent) -> VerifiedEvent:
    """Return the event; raises InvalidEvent for one that would publish a secret key."""
    from nostr_client.errors import InvalidEvent, holds_secret_key

    if holds_secret_key(event.event.to_json()):
        raise InvalidEvent("the event holds a secret key (nsec), which relays would show everybody")
    return event


def _signed(content: str, kind: int, tags: Sequence[str], signer: KeySigner) -> VerifiedEvent:
    from nostr_client.codecs.event import EventTemplate
    from nostr_client.codecs.typed import tag_of

    made = tuple(tag_of(text) for text in tags)
    template = EventTemplate(kind=kind, content=content, tags=made, created_at=int(time.time()))
    return signer.sign_now(template)


async def _publish(
    client: NostrClient, events: Sequence[VerifiedEvent], seconds: float, as_json: bool
) -> list[int]:
    """Publish one event after the other, and report each; return the exit code of each."""
    codes = []
    async with client:
        for event in events:
            results = await client.publish(event, timeout=seconds)
            _report(event, results, as_json)
            codes.append(_code(results))
    return codes


def _report(event: VerifiedEvent, results: Mapping[str, PublishResult], as_json: bool) -> None:
    import msgspec
    from rich.text import Text

    from nostr_client.errors import clip

    if as_json:
        answers = [
            {"relay": relay, "status": str(result.status), "message": result.message}
            for relay, result in results.items()
        ]
        print_json({"event": msgspec.to_builtins(event.event), "relays": answers})
        return
    table = plain_table("relay", "status", "message")
    for relay, result in results.items():
        table.add_row(*(Text(clip(t)) for t in (relay, str(result.status), result.message)))
    console().print(event.event.id, soft_wrap=True)
    console().print(table)


def _code(results: Mapping[str, PublishResult]) -> int:
    statuses = [str(result.status) for result in results.values()]
    if "refused" in statuses and "ok" not in statuses:
        return FAILURE
    return outcome_code(statuses) if "ok" not in statuses else OK
