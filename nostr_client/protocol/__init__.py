"""Model one relay connection without I/O (NIP-01, 42, 45, 77).

The package takes requests and frames. It returns frames to send, and notifications. Start with
`connection`, the state machine, and `notifications`, its results.
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
