"""What reads foreign text or bytes, each as a function that may refuse, and do nothing else.

A refusal is one of the project's own errors about the input. What is read must come out the same
when it is written and read again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.config.load import parse
from nostr_client import hll
from nostr_client.codecs import nip19
from nostr_client.codecs.event import parse_event
from nostr_client.codecs.filters import Filter
from nostr_client.codecs.messages import parse_client_message, parse_relay_message
from nostr_client.codecs.zaps import parse_invoice
from nostr_client.errors import InvalidInput, ProtocolError
from nostr_client.negentropy import encoding

if TYPE_CHECKING:
    from collections.abc import Callable

MOST = 1_000_000


def event(data: bytes) -> None:
    one = parse_event(data)
    assert parse_event(one.to_json()) == one


def filters(data: bytes) -> None:
    one = Filter.from_json(data)
    assert Filter.from_json(one.to_json()) == one


def relay_message(data: bytes) -> None:
    parse_relay_message(_text(data), max_size=MOST)


def client_message(data: bytes) -> None:
    one = parse_client_message(_text(data))
    assert parse_client_message(one.to_json()) == one


def identifier(data: bytes) -> None:
    one = nip19.decode(_text(data))
    assert nip19.decode(one.encode()) == one


def invoice(data: bytes) -> None:
    parse_invoice(_text(data))


def registers(data: bytes) -> None:
    found, _ = hll.from_hex(_text(data))
    if found is not None:
        assert hll.estimate(found) >= 0


def config(data: bytes) -> None:
    parse(data.decode("utf-8", "replace"))


def negentropy(data: bytes) -> None:
    reader = encoding.MessageReader(data)
    while reader.version == encoding.PROTOCOL_VERSION and not reader.exhausted:
        assert reader.read(100).stamps


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


TARGETS: dict[str, tuple[Callable[[bytes], None], bytes]] = {
    "event": (event, b'{"id":"%s","pubkey":"%s","created_at":1,"kind":1,"tags":[],"content":""}'),
    "filter": (filters, b'{"kinds":[1],"#e":["%s"],"since":1,"limit":5}'),
    "relay-message": (relay_message, b'["COUNT","q",{"count":1,"hll":"00"}]'),
    "client-message": (client_message, b'["NEG-OPEN","s",{"kinds":[1]},"6100000200"]'),
    "identifier": (
        identifier,
        b"npub10elfcs4fr0l0r8af98jlmgdh9c8tcxjvz9qkw038js35mp4dma8qzvjptg",
    ),
    "invoice": (invoice, b"lnbc10u1p3unwfusp5"),
    "registers": (registers, b"00" * 256),
    "config": (config, b'[store]\npath = "x"\n[[watches]]\nname = "a"\nquery = "followers"\n'),
    "negentropy": (negentropy, b"\x61\x00\x00\x02\x00"),
}
"""Each target with a text to begin from."""

REFUSALS = (InvalidInput, ProtocolError)
