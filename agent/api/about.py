"""What a relay says of itself, as the API hands it on."""

from __future__ import annotations

import msgspec

from agent.api.schema import Answer


class RelayInfo(Answer, frozen=True):
    """The document of a relay (NIP-11): hints that nobody has checked."""

    url: str
    name: str = ""
    software: str = ""
    version: str = ""
    nips: tuple[int, ...] = ()
    limits: dict[str, int] = msgspec.field(default_factory=dict)
    """Those that it gives."""
