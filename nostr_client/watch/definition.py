"""A watch: a named question that is asked again and again."""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

from nostr_client.count.queries import Query
from nostr_client.errors import InvalidInput, clip
from nostr_client.options import SHORTEST_INTERVAL, WATCH_NAME, WATCH_NAME_IN_WORDS
from nostr_client.relayurl import normalize
from nostr_client.trust import TrustPolicy

SHORTEST: Final = SHORTEST_INTERVAL
"""Seconds between two rounds at least."""

INTERVAL: Final = 900.0
"""Seconds between two rounds by default; live events show what is new in between."""

# Of watches that are there: earlier versions took more than `check_name` does.
_NAME: Final = re.compile(r"[^\s/\x00-\x1f\x7f][^/\x00-\x1f\x7f]{0,63}")


_NEW_NAME: Final = re.compile(WATCH_NAME)


def check_name(name: str) -> None:
    """Raise InvalidInput unless a new watch may be called so: as in an agent, which asks it too."""
    if not _NEW_NAME.fullmatch(name):
        raise InvalidInput(f"a watch's name is {WATCH_NAME_IN_WORDS}, not {clip(repr(name), 80)}")


class Watch(msgspec.Struct, frozen=True, kw_only=True):
    """A named query with its interval, its relays and what is done about relays that lie.

    `relays` are spelled as the user wrote them; none means the read relays of the target's author
    (NIP-65). `trusted` relays are believed in any case; `excluded` ones are asked, and left out of
    the number. `interval` in seconds. `extra` is what another program keeps beside it, JSON values
    that are carried along. Raises InvalidInput and InvalidRelayURL.
    """

    name: str
    query: Query
    relays: tuple[str, ...] = ()
    interval: float = INTERVAL
    policy: TrustPolicy = TrustPolicy.EXCLUDE
    trusted: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()
    created_at: int = 0
    extra: dict[str, Any] = {}

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise InvalidInput("a watch's name is 1 to 64 characters without / and line breaks")
        if not self.interval >= SHORTEST:
            raise InvalidInput(f"a watch's interval is {SHORTEST:g} seconds at least")
        for url in (*self.relays, *self.trusted, *self.excluded):
            normalize(url)

    @property
    def left_out(self) -> frozenset[str]:
        """The normalised URLs of `excluded`."""
        return frozenset(map(normalize, self.excluded))

    def to_dict(self) -> dict[str, Any]:
        """The watch as JSON values."""
        return {
            "name": self.name,
            "query": self.query.to_dict()
            | {"author": self.query.author, "hints": list(self.query.hints)},
            "relays": list(self.relays),
            "interval": self.interval,
            "policy": str(self.policy),
            "trusted": list(self.trusted),
            "excluded": list(self.excluded),
            "created_at": self.created_at,
            **({"extra": self.extra} if self.extra else {}),
        }

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> Watch:
        """What `to_dict` gave. Raises InvalidInput and its kinds for anything else."""
        try:
            return cls(
                name=fields["name"],
                query=Query.from_dict(fields["query"]),
                relays=tuple(fields["relays"]),
                interval=float(fields["interval"]),
                policy=TrustPolicy(fields["policy"]),
                trusted=tuple(fields["trusted"]),
                excluded=tuple(fields.get("excluded", ())),
                created_at=int(fields["created_at"]),
                extra=dict(fields.get("extra", {})),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidInput(f"not a watch: {error}") from error
