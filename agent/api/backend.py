"""What stands behind the API: one method for each thing that can be asked of the agent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from nostr_client.errors import NostrTallyError

if TYPE_CHECKING:
    from agent.api import about, schema
    from agent.api.feed import Feed
    from agent.specs import SyncSpec, WatchSpec


class Refusal(NostrTallyError):
    """A request that cannot be done: an HTTP status, a stable word, and why."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code


def not_found(what: str) -> Refusal:
    """There is no such thing."""
    return Refusal(404, "not_found", f"there is no {what}")


def read_only(what: str) -> Refusal:
    """It stands in the file, which the API never writes."""
    return Refusal(409, "read_only", f"{what} stands in the configuration file: change it there")


class Backend(Protocol):
    """The agent as the API sees it. Methods raise Refusal, InvalidInput, StoreError."""

    @property
    def feed(self) -> Feed: ...

    def ready(self) -> schema.Ready: ...

    def status(self) -> schema.Status: ...

    def metrics(self) -> bytes: ...

    def snapshot(self) -> schema.Snapshot: ...

    # Watches.

    async def watches(self) -> schema.Watches: ...

    async def watch(self, name: str) -> schema.Watch: ...

    async def add_watch(self, spec: WatchSpec) -> schema.Watch: ...

    async def change_watch(self, name: str, spec: WatchSpec) -> schema.Watch: ...

    async def remove_watch(self, name: str) -> schema.Done: ...

    async def recount(self, name: str) -> schema.Done: ...

    async def explain(self, name: str) -> schema.Counted: ...

    async def history(self, name: str, since: float, limit: int) -> schema.History: ...

    async def count(self, body: schema.CountBody) -> schema.Counted: ...

    # Syncs.

    async def syncs(self) -> schema.Syncs: ...

    async def sync(self, name: str) -> schema.Sync: ...

    async def add_sync(self, spec: SyncSpec) -> schema.Sync: ...

    async def remove_sync(self, name: str) -> schema.Done: ...

    async def run_sync(self, name: str) -> schema.Done: ...

    async def cancel_sync(self, name: str) -> schema.Done: ...

    # Relays, counters, store, log.

    async def relays(self) -> schema.Relays: ...

    async def relay_info(self, url: str) -> about.RelayInfo: ...

    async def streams(self) -> schema.Streams: ...

    async def counters(self, stream: str, pattern: str, limit: int) -> schema.Counters: ...

    async def counter_history(
        self, stream: str, subject: str, after: int, limit: int
    ) -> schema.Counters: ...

    async def add(self, stream: str, body: schema.AddBody) -> schema.Added: ...

    async def audit(self, stream: str, subject: str) -> schema.Audit: ...

    async def reset(self, stream: str, subject: str) -> schema.Added: ...

    async def store_stats(self) -> schema.Store: ...

    async def retention(self) -> schema.Retention: ...

    async def log(self, after: int, limit: int) -> schema.Log: ...
