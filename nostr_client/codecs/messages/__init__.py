"""Every message of NIP-01, 42, 45 and 77, in both directions, as frozen typed values.

Text of one frame enters, a value leaves, and the other way round. Start with `relay` and `client`
(the values), then `parse_relay` and `parse_client`.
"""

from __future__ import annotations

from nostr_client.codecs.messages.client import (
    Auth,
    ClientMessage,
    Close,
    Count,
    NegClose,
    NegMsg,
    NegOpen,
    Publish,
    Req,
)
from nostr_client.codecs.messages.parse_client import MAX_SUB_ID, parse_client_message
from nostr_client.codecs.messages.parse_relay import (
    DEFAULT_MAX_SIZE,
    MAX_COUNT,
    parse_relay_message,
)
from nostr_client.codecs.messages.relay import (
    AuthChallenge,
    Closed,
    CountAnswer,
    Eose,
    EventReceived,
    Hello,
    Hint,
    NegErr,
    Notice,
    Ok,
    RelayMessage,
)

__all__ = [
    "DEFAULT_MAX_SIZE",
    "MAX_COUNT",
    "MAX_SUB_ID",
    "Auth",
    "AuthChallenge",
    "ClientMessage",
    "Close",
    "Closed",
    "Count",
    "CountAnswer",
    "Eose",
    "EventReceived",
    "Hello",
    "Hint",
    "NegClose",
    "NegErr",
    "NegMsg",
    "NegOpen",
    "Notice",
    "Ok",
    "Publish",
    "RelayMessage",
    "Req",
    "parse_client_message",
    "parse_relay_message",
]
