"""The local relay as a part of the agent."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from agent.relay.follow import following
from agent.relay.listen import normal_urls, own_urls
from agent.relay.options import Access, RelayOptions
from agent.relay.policy import everything, only_keys
from agent.relay.server import serve
from agent.service.front import address
from nostr_client import nip19
from nostr_client.errors import InvalidInput

if TYPE_CHECKING:
    from contextlib import AsyncExitStack

    from agent.config.model import LocalRelaySection
    from nostr_client.store.sqlite import SqliteStore


def relay_options(section: LocalRelaySection) -> RelayOptions:
    """The relay's options. Raises InvalidInput for a token file that is empty, OSError."""
    token = None
    if section.token_file:
        token = Path(section.token_file).expanduser().read_text("ascii", "replace").strip()
        if not token:
            raise InvalidInput(f"{section.token_file} is empty")
    access = Access(
        token=token,
        hosts=frozenset(host.lower() for host in section.hosts),
        origins=frozenset(origin.lower() for origin in section.origins),
        tls_cert=_path(section.tls_cert),
        tls_key=_path(section.tls_key),
    )
    keys = [nip19.decode_pubkey(key) for key in section.write_keys]
    return RelayOptions(access=access, write_policy=only_keys(keys) if keys else everything)


def relay_urls(section: LocalRelaySection) -> list[str]:
    """URLs that this store answers for (NIP-62)."""
    if not section.enabled:
        return []
    return normal_urls(own_urls(RelayOptions(), *address(section.listen)))


async def serve_relay(stack: AsyncExitStack, section: LocalRelaySection, store: SqliteStore) -> str:
    """Serve the store for as long as the stack lives; the relay's URL, "" where it is off."""
    if not section.enabled:
        return ""
    host, port = address(section.listen)
    options = relay_options(section)
    server = await stack.enter_async_context(serve(store, host=host, port=port, options=options))
    await stack.enter_async_context(following(store, server))
    return server.url


def _path(text: str) -> Path | None:
    return Path(text).expanduser() if text else None
