"""One query over many relays: all asked at once, none waited for beyond the common deadline."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from nostr_client.count.asking import Asking, CountOptions
from nostr_client.count.result import CountResult
from nostr_client.merge import TrustPolicy, merge_claims
from nostr_client.relayurl import normalize

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from nostr_client.count.queries import Query
    from nostr_client.merge import Claim
    from nostr_client.relay import Relay


class Counter:
    """Counts over relays, and remembers for its lifetime which of them never answer a COUNT."""

    def __init__(
        self,
        options: CountOptions | None = None,
        *,
        policy: TrustPolicy = TrustPolicy.EXCLUDE,
        trusted: Collection[str] = (),
        now: Callable[[], float] = time.time,
    ) -> None:
        """`trusted` relays are believed whatever the tests say. Raises InvalidRelayURL."""
        self._options = options or CountOptions()
        self._policy = policy
        self._trusted = frozenset(map(normalize, trusted))
        self._now = now
        self._silent: set[str] = set()

    async def count(
        self,
        query: Query,
        relays: Sequence[tuple[str, Relay]],
        options: CountOptions | None = None,
    ) -> CountResult:
        """Ask every relay, given as (the user's spelling, relay), and merge their claims.

        Returns at the deadline of the group at the latest, with a status for each relay; raises
        nothing that a relay did. Cancelling gives up the requests.
        """
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(self._ask(name, relay, query, options or self._options))
                for name, relay in relays
            ]
        return self.result(query, [task.result() for task in tasks])

    def result(self, query: Query, claims: Sequence[Claim]) -> CountResult:
        """Merge claims into a result that lists them in the order given."""
        merged = merge_claims(
            claims,
            one_per_author=query.one_per_author,
            policy=self._policy,
            trusted=[c.relay for c in claims if normalize(c.relay) in self._trusted],
        )
        warned = {claim.relay: claim for claim in merged.claims}
        return CountResult(
            query=query, merged=merged, relays=tuple(warned[claim.relay] for claim in claims)
        )

    async def _ask(self, name: str, relay: Relay, query: Query, options: CountOptions) -> Claim:
        silent = relay.url in self._silent
        asking = Asking(relay, query, options, now=self._now, silent=silent)
        claim = await asking.run(name)
        if asking.silent:
            self._silent.add(relay.url)
        return claim
