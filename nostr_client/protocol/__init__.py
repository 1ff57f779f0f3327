"""One relay connection without I/O: text in, notifications and text out (NIP-01, 42, 45, 77).

Requests and frames enter; frames to send and notifications leave. Start with `connection`, the
state machine, and `notifications`, its values.
"""

from __future__ import annotations

from nostr_client.protocol.auth import AUTH_KIND, Progress, auth_template
from nostr_client.protocol.connection import Connection
from nostr_client.protocol.notifications import (
    Abused,
    AuthNeeded,
    AuthSettled,
    ChallengeReceived,
    CountAnswered,
    CountFailed,
    EventMatched,
    HelloReceived,
    NegEnded,
    NegReceived,
    NoticeReceived,
    Notification,
    PublishAnswered,
    PublishFailed,
    StoredEnd,
    SubscriptionEnded,
)
from nostr_client.protocol.state import SMALL, FrameTally, Stamp, StoredFrames, SubscriptionTally

__all__ = [
    "AUTH_KIND",
    "SMALL",
    "Abused",
    "AuthNeeded",
    "AuthSettled",
    "ChallengeReceived",
    "Connection",
    "CountAnswered",
    "CountFailed",
    "EventMatched",
    "FrameTally",
    "HelloReceived",
    "NegEnded",
    "NegReceived",
    "NoticeReceived",
    "Notification",
    "Progress",
    "PublishAnswered",
    "PublishFailed",
    "Stamp",
    "StoredEnd",
    "StoredFrames",
    "SubscriptionEnded",
    "SubscriptionTally",
    "auth_template",
]
