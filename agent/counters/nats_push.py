"""Pushes counters to nats-servers: one task for each push, which compares and sends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from agent.api import schema
from agent.config.counters import push_options
from agent.counters.links import KIND
from nostr_client.codecs.display import seconds
from nostr_client.counters.base import NoStream
from nostr_client.counters.push import Pusher, aggregate_stream, own_stream
from nostr_client.counters.rules import format_integer
from nostr_client.errors import NostrTallyError, clip, host_alone, optional
from nostr_client.watch import scheduler

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agent.config.model import PushSection
    from agent.counters.links import Links
    from agent.log import Log
    from nostr_client.counters.jetstream import JetStreamCounterStore
    from nostr_client.counters.push import PushReport
    from nostr_client.counters.sqlite import SqliteCounterStore
    from nostr_client.options import ConnectionOptions
    from nostr_client.watch.clock import Clock

LONGEST_VALUE: Final = 200
"""Digits of a value in a status: a longer value is left out."""

MOST_PROBLEMS: Final = 20


class Push:
    """One configured push at work: its state is in the store."""

    def __init__(self, section: PushSection, pusher: Pusher) -> None:
        self.section = section
        self.pusher = pusher
        self.made = not section.create
        """Whether the streams there are known to exist."""


class PushRunner:
    """All pushes, by the name of their links. Each turn has a connection of its own."""

    def __init__(
        self,
        clock: Clock,
        log: Log,
        counters: SqliteCounterStore,
        links: Links,
        connection: ConnectionOptions,
    ) -> None:
        self.pushes: dict[str, Push] = {}
        self.sent = 0
        self._clock = clock
        self._log = log
        self._counters = counters
        self._links = links
        self._connection = connection
        self._confirmed: set[str] = set()

    def configure(self, sections: Sequence[PushSection]) -> None:
        """Replace all pushes by these."""
        before, self.pushes = self.pushes, {}
        for section in sections:
            name = link_name(section)
            one = before.get(name)
            if one is None or one.section != section:
                one = Push(section, self._pusher(section))
                self._links.put(_link(section))
            self.pushes[name] = one
        self._links.keep({("nats", "out")}, self.pushes)

    def _pusher(self, section: PushSection) -> Pusher:
        return Pusher(
            self._counters,
            section.stream,
            section.name,
            push_options(section),
            clock=lambda: int(self._clock.wall() * 1e9),
        )

    def tasks(self) -> list[scheduler.Task]:
        """One task for each push, each in a lane of its own."""
        return [
            scheduler.Task(f"{KIND} {name}", f"{KIND} {name}", seconds(one.section.interval))
            for name, one in self.pushes.items()
        ]

    def confirm(self, name: str) -> bool:
        """Let the next round lower counters that others raised; False if no push waits for it."""
        link = self._links.get(name)
        if name not in self.pushes or link is None or not link.confirmable:
            return False
        self._confirmed.add(name)
        return True

    async def run(self, name: str) -> bool:
        """Run one round of a push; return whether all values there equal those here."""
        one = self.pushes.get(name)
        if one is None:
            return True
        self._links.change(name, asked_at=self._clock.wall())
        confirmed = name in self._confirmed
        try:
            report = await self._round(one, confirmed=confirmed)
        except NostrTallyError as error:
            self._say(name, "failing", clip(str(error)))
            return False
        if confirmed:  # a confirmation during this round is for the next
            self._confirmed.discard(name)
        self._show(name, report)
        return report.settled

    async def _round(self, one: Push, *, confirmed: bool) -> PushReport:
        async with await _connect(one.section, self._connection) as remote:
            if not one.made:
                await _make_streams(remote, one.section)
                one.made = True
            return await one.pusher.push(remote, confirmed=confirmed)

    def _show(self, name: str, report: PushReport) -> None:
        now = self._clock.wall()
        self.sent += report.sent
        link = self._links.get(name)
        changed: dict[str, Any] = {"done_at": now, "last_seq": report.seq}
        if report.sent and link is not None:
            changed |= {"changed_at": now, "moved": link.moved + report.sent}
        if report.last_value is not None:
            value = format_integer(report.last_value)
            changed["last_subject"] = report.last_subject
            changed["last_value"] = value if len(value) <= LONGEST_VALUE else None
        if report.settled:
            changed["seq"] = report.seq
        self._links.change(
            name,
            lag=report.subjects - report.even,
            subjects=report.subjects,
            parked=len(report.refused),
            left_out=report.left_out,
            confirmable=bool(report.stopped),
            problems=_problems(report),
            **changed,
        )
        self._say(name, *_state(report))

    def _say(self, name: str, state: str, why: str) -> None:
        """Set the state of a push; log a failure once."""
        link = self._links.get(name)
        if state in ("failing", "stopped") and link is not None and link.why != why:
            self._log.warning("push_failed", push=name, state=state, why=why)
        self._links.change(name, state=state, why=why)


def link_name(section: PushSection) -> str:
    """The name of a push's link, which no source can have."""
    return f"nats:{section.name}"


def _link(section: PushSection) -> schema.CounterLink:
    return schema.CounterLink(
        name=link_name(section),
        direction="out",
        via="nats",
        stream=section.stream,
        peer=f"{', '.join(map(host_alone, section.servers))} {section.into}",
    )


def _state(report: PushReport) -> tuple[str, str]:
    """The state of a push after a round, and the reason."""
    if report.stopped:
        first = report.stopped[0]
        more = f" and {len(report.stopped) - 1} more" if len(report.stopped) > 1 else ""
        there, here = (clip(format_integer(n), 40) for n in (first.there, first.here))
        why = (
            f"{first.subject}{more}: it is {there} there, which this store has not pushed, and"
            f" {here} here; confirm that it may fall, or add the difference here"
        )
        return "stopped", clip(why)
    if report.refused:
        return "failing", clip(": ".join(report.refused[0]))
    if report.doubtful:
        return "behind", clip(": ".join(report.doubtful[0]))
    return ("ok", "") if report.settled else ("behind", "")


def _problems(report: PushReport) -> tuple[str, ...]:
    found = [*report.notes, *(": ".join(one) for one in (*report.refused, *report.doubtful))]
    return tuple(clip(text, 300) for text in found[:MOST_PROBLEMS])


async def _connect(section: PushSection, connection: ConnectionOptions) -> JetStreamCounterStore:
    with optional("a push"):
        from nostr_client.counters.jetstream import JetStreamCounterStore, NatsOptions
    options = NatsOptions(
        domain=section.domain or None,
        credentials=section.credentials or None,
        timeout_s=TIMEOUT_S,
        connection=connection,
    )
    return await JetStreamCounterStore.connect(section.servers, options)


TIMEOUT_S: Final = 5.0
"""How long one request may take: a cluster that elects a leader needs seconds."""


async def _make_streams(remote: JetStreamCounterStore, section: PushSection) -> None:
    """Create the streams that the push needs there; existing ones do not change."""
    wanted = [own_stream(section.into)]
    if section.total:
        wanted.append(aggregate_stream(section.total, section.into))
    for config in wanted:
        try:
            await remote.stream_info(config.name)
        except NoStream:
            await remote.create_stream(config)
