"""What the stored claims show of relays, and the stored events of those who answer somebody.

Nothing is stored for it, and no relay is asked. If a question is removed, its claims and what they
showed are gone.
"""

from __future__ import annotations

import json
from collections import Counter
from itertools import accumulate
from typing import TYPE_CHECKING, Final

from nostr_client.codecs.filters import Filter
from nostr_client.count.claims.rows import registers_of
from nostr_client.count.merge import ClaimStatus
from nostr_client.network.outbox.evidence import (
    MONTH_S,
    WEEK_S,
    RelayEvidence,
    confirmed_people,
)
from nostr_client.network.outbox.relaylist import RELAY_LIST, RelayList, parse_relay_list

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Collection

    from nostr_client.store.base import EventStore
    from nostr_client.store.file.database import Database

MOST_ASKED: Final = 100
"""Questions whose answers and failures are counted, the newest: each costs some rows."""

MOST_SHOWN: Final = 30
"""Questions whose registers are compared, the newest."""

MOST_SKETCHES: Final = 2_000
"""Registers of relays that are compared: fewer questions if these have many relays. They take a
second."""

MOST_ANSWERS: Final = 500
"""Stored answers to an author from which those who usually answer are taken, the newest."""

MOST_ANSWERERS: Final = 20
"""People who usually answer, those who did so most often."""

_FAILED: Final = frozenset({ClaimStatus.TIMEOUT, ClaimStatus.UNREACHABLE})
_ZERO: Final = "status = 'ok' AND method = 'count' AND count = 0 AND registers IS NULL"
"""A bare zero is counted as a refusal: one relay family refuses so."""

_NEWEST: Final = (
    "SELECT q FROM claim WHERE asked_at >= ?2 GROUP BY q ORDER BY max(asked_at) DESC LIMIT ?3"
)
_RELAYS: Final = "url IN (SELECT value FROM json_each(?1))"
_DAYS: Final = (
    f"SELECT url, name, CASE WHEN {_ZERO} THEN 'refused' ELSE status END AS how, count(*)"
    " FROM claim_past JOIN claim_query USING (q) JOIN claim_relay USING (r)"
    f" WHERE q IN ({_NEWEST}) AND {_RELAYS} AND asked_at >= ?2 GROUP BY url, name, how"
)
_LATENCY: Final = (
    "SELECT url, avg(latency_ms) FROM claim JOIN claim_relay USING (r)"
    f" WHERE q IN ({_NEWEST}) AND {_RELAYS} AND answered AND asked_at >= ?2 GROUP BY url"
)


class StoredExperience:
    """The experience of one store: its claims, and its events if there are any.

    `now` gives Unix seconds.
    """

    def __init__(
        self, database: Database, events: EventStore | None, now: Callable[[], float]
    ) -> None:
        self._database = database
        self._events = events
        self._now = now

    async def evidence(self, relays: Collection[str], name: str) -> dict[str, RelayEvidence]:
        """Return what is known of relays, by normalised URL, for questions of this name.

        Raises StoreError and its kinds. Safe to cancel.
        """
        now, wanted = self._now(), list(relays)
        return await self._database.read(lambda conn: evidence_of(conn, wanted, name, now))

    async def relays(self) -> list[str]:
        """Return every relay that a stored question was asked, by normalised URL."""
        sql = "SELECT url FROM claim_relay WHERE r IN (SELECT r FROM claim) ORDER BY url"
        return await self._database.read(lambda conn: [url for (url,) in conn.execute(sql)])

    async def answerers(self, author: str, kinds: Collection[int]) -> list[RelayList]:
        """Return the stored relay lists of those who usually answer an author, by such events.

        A person who answered twice usually answers. Raises StoreError and its kinds. Safe to
        cancel.
        """
        if self._events is None:
            return []
        asked = Filter(kinds=list(kinds), tags={"#p": [author]}, limit=MOST_ANSWERS)
        times = Counter(event.pubkey for event in await self._events.query([asked]))
        del times[author]
        usual = [key for key, n in times.most_common(MOST_ANSWERERS) if n > 1]
        if not usual:
            return []
        lists = await self._events.query([Filter(kinds=[RELAY_LIST], authors=usual)])
        return [parse_relay_list(event) for event in lists]


def evidence_of(
    conn: sqlite3.Connection, relays: Collection[str], name: str, now: float
) -> dict[str, RelayEvidence]:
    """Return what the claims show of relays, by URL; a relay without any is missing."""
    wanted = json.dumps(list(relays))
    newest = (wanted, now - WEEK_S, MOST_ASKED)
    days: dict[str, Counter[str]] = {}
    for url, asked, how, n in conn.execute(_DAYS, newest):
        kind = _kind(ClaimStatus(how))
        if kind:
            found = days.setdefault(url, Counter())
            found[kind] += n
            if not name or asked == name:  # of several names, all questions count
                found[{"answered": "served", "refused": "declined"}.get(kind, "")] += n
    latency = dict(conn.execute(_LATENCY, newest).fetchall())
    shown = confirmed_people(_questions(conn, now))
    known = [url for url in relays if url in days or url in shown]
    return {
        url: _evidence(days.get(url, Counter()), latency.get(url), shown.get(url)) for url in known
    }


def _questions(conn: sqlite3.Connection, now: float) -> list[dict[str, bytes]]:
    """Return the registers of the newest questions that at least two relays answered."""
    found = registers_of(conn, None, but="", since=now - MONTH_S, most=MOST_SHOWN)
    several = [one for one in found if len(one) > 1]
    sizes = accumulate(map(len, several))
    return [one for one, size in zip(several, sizes, strict=True) if size <= MOST_SKETCHES]


def _kind(status: ClaimStatus) -> str:
    """Return what a day's last answer counts as; nothing if our own budget held the question."""
    if status is ClaimStatus.HELD_BACK:
        return ""
    if status is ClaimStatus.OK:
        return "answered"
    return "failed" if status in _FAILED else "refused"


def _evidence(
    days: Counter[str], latency_ms: float | None, people: tuple[int, int] | None
) -> RelayEvidence:
    shown, registers = people or (0, 0)
    return RelayEvidence(
        answered=days["answered"],
        refused=days["refused"],
        failed=days["failed"],
        served=days["served"],
        declined=days["declined"],
        latency_ms=latency_ms,
        shown=shown,
        registers=registers,
    )
