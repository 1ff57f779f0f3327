"""Runs the local relay as a part of the agent."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.relay.listen import normal_urls, own_urls, parse_address
from agent.relay.merged import PATH
from agent.relay.options import RelayAccess, RelayOptions
from agent.relay.policy import all_of, everything, only_keys, only_wanted
from agent.relay.server import following, serve
from nostr_client.codecs import nip19
from nostr_client.codecs.typed import filter_of
from nostr_client.paths import read_secret, user_path

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AsyncExitStack
    from pathlib import Path

    from agent.config.model import LocalRelaySection
    from agent.relay.merged import MergedNumbers
    from agent.relay.policy import WritePolicy
    from agent.service.parts import AgentParts
    from agent.syncing import SyncRunner
    from nostr_client.codecs.filters import Filter
    from nostr_client.watch.engine import Engine


class WantedFilters:
    """The filters of all watches and syncs, computed again when their configuration changes."""

    def __init__(self, engine: Engine, syncing: SyncRunner) -> None:
        self._engine = engine
        self._syncing = syncing
        self._watches: object = None
        self._syncs: object = None
        self._filters: tuple[Filter, ...] = ()

    def __call__(self) -> Sequence[Filter]:
        watches, syncs = self._engine.watches, self._syncing.syncs
        if watches is not self._watches or syncs is not self._syncs:
            asked = [f for watched in watches.values() for f in watched.query.filters]
            kept = [filter_of(f) for synced in syncs.values() for f in synced.spec.filters]
            self._watches, self._syncs, self._filters = watches, syncs, (*asked, *kept)
        return self._filters


def relay_options(section: LocalRelaySection, wanted: WantedFilters) -> RelayOptions:
    """The relay's options. Raises InvalidInput for a token file that is unfit, OSError."""
    return RelayOptions(
        access=relay_access(section),
        urls=section.urls,
        write_policy=_policy(section, wanted),
    )


def relay_access(section: LocalRelaySection) -> RelayAccess:
    """Who may use the relay.

    Raises InvalidInput for a token file that is empty or that others may read, OSError.
    """
    file = section.token_file
    return _access(section, read_secret(user_path(file)) if file else None)


def _access(section: LocalRelaySection, token: str | None) -> RelayAccess:
    return RelayAccess(
        token=token,
        hosts=frozenset(host.lower() for host in section.hosts),
        origins=frozenset(origin.lower() for origin in section.origins),
        tls_cert=_path(section.tls_cert),
        tls_key=_path(section.tls_key),
    )


def _policy(section: LocalRelaySection, wanted: WantedFilters) -> WritePolicy:
    policies: list[WritePolicy] = []
    if section.write_keys:
        policies.append(only_keys(nip19.decode_pubkey(key) for key in section.write_keys))
    if section.only_wanted:
        policies.append(only_wanted(wanted))
    return all_of(*policies) if policies else everything


def relay_urls(section: LocalRelaySection) -> list[str]:
    """URLs that this store answers for (NIP-62): the same as when it is served."""
    if not section.enabled:
        return []
    options = RelayOptions(access=_access(section, None), urls=section.urls)
    return normal_urls(own_urls(options, *parse_address(section.listen)))


def merged_urls(section: LocalRelaySection) -> list[str]:
    """URLs of the path of merged numbers: none of them is a relay to ask."""
    return [f"{url.rstrip('/')}{PATH}" for url in relay_urls(section)]


async def serve_relay(
    stack: AsyncExitStack,
    section: LocalRelaySection,
    parts: AgentParts,
    wanted: WantedFilters,
    merged: MergedNumbers,
    on_break: Callable[[], object],
) -> str:
    """Serve the store for as long as the stack lives; the relay's URL, "" where it is off.

    What it takes is counted as received from it. `on_break` is called when the relay can do
    nothing any more: leave the stack then.
    """
    if not section.enabled:
        return ""
    host, port = parse_address(section.listen)
    options = relay_options(section, wanted)
    served = serve(
        parts.store, host=host, port=port, options=options, on_break=on_break,
        on_event=parts.provenance.note, merged=merged,
    )  # fmt: skip
    server = await stack.enter_async_context(served)
    await stack.enter_async_context(following(parts.store, server))
    return server.url


def _path(text: str) -> Path | None:
    return user_path(text) if text else None
