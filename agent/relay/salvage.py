"""What to answer to a frame that is no client message: as near to its sender's request as it goes.

A bad REQ or COUNT whose id can be read gets CLOSED, a bad EVENT whose id can be read gets OK
false, a bad NEG-OPEN or NEG-MSG gets NEG-ERR; anything else a NOTICE.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from nostr_client.errors import clip
from nostr_client.messages import Closed, NegErr, Notice, Ok

if TYPE_CHECKING:
    from nostr_client.errors import MalformedMessage

REASON_BYTES = 200
"""Bytes of a reason: it quotes what a stranger sent."""

_EVENT_ID = re.compile(r"[0-9a-f]{64}")


def refuse_frame(error: MalformedMessage) -> str:
    """The frame that answers one which could not be read because of `error`."""
    reason = f"invalid: {clip(str(error), REASON_BYTES)}"
    if error.label in ("REQ", "COUNT") and error.ref:
        return Closed(error.ref, reason).to_json()
    if error.label in ("NEG-OPEN", "NEG-MSG") and error.ref:
        return NegErr(error.ref, reason).to_json()
    if error.label in ("EVENT", "AUTH") and _EVENT_ID.fullmatch(error.ref):
        return Ok(error.ref, accepted=False, message=reason).to_json()
    return Notice(reason).to_json()
