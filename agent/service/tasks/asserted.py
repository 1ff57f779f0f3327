"""Reads what the providers of watches assert (NIP-85), to be shown beside their numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from nostr_client.assertions.reading import read_assertions
from nostr_client.codecs import nip19
from nostr_client.errors import InvalidInput
from nostr_client.watch.scheduler import Task

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from nostr_client.assertions.report import Asserted
    from nostr_client.network.pool import RelayPool
    from nostr_client.watch.clock import Clock
    from nostr_client.watch.engine import Engine

KIND: Final = "asserted"
LANE: Final = "asserted"
EVERY_S: Final = 3600.0
"""Cards are renewed at most a few times a day."""


class AssertedRunner:
    """One task for each watch that names providers; `found` gets what they assert."""

    def __init__(
        self,
        clock: Clock,
        engine: Engine,
        pool: RelayPool,
        found: Callable[[str, Sequence[Asserted]], object],
    ) -> None:
        self._clock = clock
        self._engine = engine
        self._pool = pool
        self._found = found

    def tasks(self) -> list[Task]:
        """One task for each watch with providers."""
        return [
            Task(f"{KIND} {name}", LANE, max(EVERY_S, one.watch.every), backs_off=False)
            for name, one in self._engine.watches.items()
            if one.watch.providers
        ]

    async def last(self) -> dict[str, float]:
        """What was asserted before is not stored: it is read again at once."""
        return {}

    async def run(self, name: str) -> bool:
        """Read the cards that are about the target of a watch, from its own relays."""
        one = self._engine.watches.get(name)
        if one is None or not one.relays:
            return True
        providers = list(map(nip19.decode_pubkey, one.watch.providers))
        for url in one.relays:  # as one of strangers, where only they name it
            self._engine.relay(url)
        try:
            found = await read_assertions(
                self._pool, list(one.relays), providers, one.query, now=self._clock.wall()
            )
        except InvalidInput:  # no card answers its question
            return True
        self._found(name, found)
        return True
