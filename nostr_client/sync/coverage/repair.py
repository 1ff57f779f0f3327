"""Plan and execute a repair: find what relays lack, then upload it, deletions first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from nostr_client.codecs.kinds import DELETION, VANISH
from nostr_client.network.waiting import task_group
from nostr_client.sync.coverage.gathering import lacking, recent, uncompared, unseen
from nostr_client.sync.coverage.plan import Rules, planned
from nostr_client.sync.memory import SETTLED, Side, place_of
from nostr_client.sync.options import SyncOptions
from nostr_client.sync.sharing import Sharing
from nostr_client.sync.tally import RelayTally
from nostr_client.sync.uploads import Uploads

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nostr_client.codecs.event import Event
    from nostr_client.codecs.filters import Filter
    from nostr_client.network.relay import Relay
    from nostr_client.store.base import EventStore
    from nostr_client.sync.coverage.gathering import Mentions, NamedByUser
    from nostr_client.sync.coverage.matrix import Coverage
    from nostr_client.sync.coverage.plan import CoveragePlan
    from nostr_client.sync.memory import SyncMemory
    from nostr_client.sync.sent import RepairAttempts

_BATCH: Final = 100
"""Events between two writes of the progress. After a crash these events are sent again."""


class Repaired(msgspec.Struct, frozen=True, kw_only=True):
    """One relay: the number of events planned for it, and the number that it accepted.

    `refused`: by reason, in the relay's words. `unsent`: events that were not sent to it.
    """

    relay: str
    planned: int
    taken: int = 0
    had: int = 0
    """Events that it already had, or of which it has a newer version."""
    refused: dict[str, int] = {}
    unsent: int = 0


class RepairReport(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a repair, relay by relay."""

    relays: tuple[Repaired, ...]

    @property
    def complete(self) -> bool:
        """Whether every relay has all events planned for it."""
        return all(one.taken + one.had == one.planned for one in self.relays)

    def to_dict(self) -> dict[str, Any]:
        """Return the report in the form of its JSON."""
        return {"complete": self.complete, "relays": msgspec.to_builtins(self.relays)}


async def carry_out(
    plan: CoveragePlan,
    relays: Mapping[str, Relay],
    memory: SyncMemory,
    sent: RepairAttempts,
    options: SyncOptions | None = None,
) -> RepairReport:
    """Upload the events of a plan at the rate of a sync. Failures of relays are in the report.

    `relays`: by the names in the plan. Raises StoreError. Safe to cancel or kill. Accepted events
    are noted every hundred events, and the next repair compares the relays again.
    """
    async with task_group() as group:
        tasks = [
            group.create_task(
                _to_relay(name, relays[name], plan.of(name), memory, sent, options or SyncOptions())
            )
            for name in plan.relays
        ]
    return RepairReport(relays=tuple(task.result() for task in tasks))


async def prepared(
    coverage: Coverage,
    relays: Mapping[str, Relay],
    *,
    pubkey: str | None,
    now: int,
    named: NamedByUser,
    memory: SyncMemory,
    sent: RepairAttempts,
    store: EventStore | None = None,
    mentions: Mentions | None = None,
) -> CoveragePlan:
    """Return the plan of a repair. Downloads missing events that the store lacks too.

    `relays`: by the names in the coverage. `pubkey`: the user's own key (hex). `mentions` finds the
    relays where mentioned people read. Raises StoreError. Safe to cancel.
    """
    wanted = await lacking(coverage, relays, store, named)
    by_url = {one.url: one for one in relays.values()}
    if mentions is not None and coverage.author == pubkey:
        own = await recent(coverage, relays, store, now)
        more, readers = await mentions.lacking(coverage, own, by_url.keys())
        wanted += more
        by_url |= {one.url: one for one in readers.values()}
    ids: dict[str, list[str]] = {}
    for one in wanted:
        ids.setdefault(one.url, []).append(one.id)
    rules = Rules(
        author=coverage.author,
        pubkey=pubkey,
        now=now,
        gone=coverage.gone,
        vanishing=tuple(one for one in coverage.events.values() if one.kind == VANISH),
        dropped={url: await sent.times(url) for url in ids},
        refused={url: await refused_before(by_url[url], memory, ids[url]) for url in ids},
    )
    return planned(wanted, rules, unseen(coverage), uncompared(coverage))


async def refused_before(relay: Relay, memory: SyncMemory, ids: Sequence[str]) -> frozenset[str]:
    """Return ids that the relay refused recently, and that are not sent now."""
    raw = [bytes.fromhex(one) for one in ids]
    recalled = await memory.recall(place_of(relay), Side.UP, raw)
    return frozenset(one.hex() for one in recalled.waiting)


async def _to_relay(
    name: str,
    relay: Relay,
    events: Sequence[Event],
    memory: SyncMemory,
    sent: RepairAttempts,
    options: SyncOptions,
) -> Repaired:
    tally = RelayTally(name, relay)
    first = [one for one in events if one.kind in (DELETION, VANISH)]
    rest = [one for one in events if one.kind not in (DELETION, VANISH)]
    for part in (first, rest):
        for at in range(0, len(part), _BATCH):
            if tally.lacking_something:  # the relay accepts no more in this run
                break
            batch = part[at : at + _BATCH]
            uploads = _uploads(relay, batch, memory, options, tally)
            await uploads.run()
            await uploads.note_unsettled()
            await sent.took(relay.url, [one.hex() for one in uploads.moved])
    return _repaired(name, tally, len(events))


def _uploads(
    relay: Relay,
    events: Sequence[Event],
    memory: SyncMemory,
    options: SyncOptions,
    tally: RelayTally,
) -> Uploads:
    """Upload some events, which the plan has chosen."""
    sharing = Sharing((), others=True)
    uploads = Uploads(relay, _Planned(events), memory, options, tally, sharing)
    uploads.put([bytes.fromhex(one.id) for one in events])
    uploads.finish()
    return uploads


class _Planned:
    """Events of a plan as the source of an upload."""

    def __init__(self, events: Sequence[Event]) -> None:
        self._events = {one.id: one for one in events}

    async def query(self, filters: Sequence[Filter]) -> list[Event]:
        """Return the events of the ids, in the order of the ids."""
        return [self._events[one] for asked in filters for one in asked.ids or ()]


def _repaired(name: str, tally: RelayTally, planned: int) -> Repaired:
    had = 0
    refused: dict[str, int] = {}
    for note, number in tally.unmoved.items():
        if note.verdict in SETTLED:
            had += number
        else:
            refused[note.reason] = refused.get(note.reason, 0) + number
    unsent = planned - tally.uploaded - had - sum(refused.values())
    return Repaired(
        relay=name,
        planned=planned,
        taken=tally.uploaded,
        had=had,
        refused=refused,
        unsent=unsent,
    )
