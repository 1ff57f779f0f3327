"""How answers of the agent look on a terminal."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

import click

from nostr_client.cli.output import console, moment, plain_table, say
from nostr_client.codecs.display import age, as_said, plural, sparkline
from nostr_client.errors import clip
from nostr_client.store.index_schema import HOT

if TYPE_CHECKING:
    from collections.abc import Iterable

    from agent.api import schema


def print_table(columns: Iterable[str], rows: Iterable[Iterable[object]]) -> None:
    """A plain table; cells are text, foreign text has its control characters visible."""
    table = plain_table()
    for name in columns:
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(*("" if cell is None else clip(str(cell)) for cell in row))
    console().print(table, markup=False)


def status(found: schema.Status) -> None:
    """The agent at a glance."""
    ready = "ready" if found.ready else "not ready: " + "; ".join(found.reasons)
    click.echo(f"nostr-agent {found.version}, pid {found.pid}, up {age(found.uptime)}, {ready}")
    click.echo(f"store {found.store}, local relay {found.relay_url or 'off'}")
    click.echo(
        f"{plural(found.watches, 'watch', 'watches')}, {plural(found.syncs, 'sync')}, "
        f"{found.relays_connected} of {plural(found.relays, 'relay')} connected, "
        f"{found.running} of {plural(found.tasks, 'task')} running, {found.overdue} overdue"
    )
    if found.restart_for:
        click.echo(f"waiting for a restart: {', '.join(found.restart_for)}")


def reloaded(found: schema.Reloaded) -> None:
    """What reading the configuration again did."""
    for mistake in found.mistakes:
        click.echo(mistake)
    if found.ok:
        click.echo(f"changed: {', '.join(found.applied) or 'nothing'}")
    if found.restart:
        click.echo(f"after a restart: {', '.join(found.restart)}")


def watches(found: schema.Watches) -> None:
    """All watches."""
    columns = ("name", "value", "range", "1h", "1d", "1w", "trend", "age", "relays")
    print_table(columns, map(_watch_row, found.watches))


def _watch_row(one: schema.WatchState) -> Iterable[object]:
    changes = [f"{one.changes[k]:+d}" if k in one.changes else "" for k in ("1h", "1d", "1w")]
    asked = f"{one.answered}/{one.asked}"
    return (one.spec.name, *figure(one.figure), *changes, sparkline(one.spark), _age(one), asked)


def _age(one: schema.WatchState) -> str:
    if one.updated_at is None:
        return "never"
    return age(datetime.now().timestamp() - one.updated_at)


def figure(found: schema.Figure | None) -> tuple[str, str]:
    """A number, and its range."""
    if found is None:
        return "not counted yet", ""
    if words := as_said(found):
        return f"{found.value:,}", words
    if found.exact:
        return f"{found.value:,}", "exact"
    high = "" if found.high is None else f"{found.high:,}"
    return f"{'≥ ' if found.lower_bound else ''}{found.value:,}", f"{found.low:,}–{high}"


def counted(found: schema.Counted) -> None:
    """A number and its claims."""
    value, bounds = figure(found.figure)
    unit = "" if found.figure is None else f" {found.unit.replace('_', ' ')}"
    click.echo(f"{value}{unit}{f' ({bounds})' if bounds else ''}")
    columns = ("relay", "status", "method", "count", "estimate", "used", "share", "why")
    print_table(columns, map(_claim_row, found.relays))


def _claim_row(one: schema.Claim) -> Iterable[object]:
    used = "left out" if one.excluded else ", ".join(one.used)
    share = None if one.share is None else f"{one.share:.0%}"
    why = "; ".join(one.reasons)
    return one.relay, one.status, one.method, one.count, one.estimate, used, share, why


def history(found: schema.History) -> None:
    """Numbers of the past, and their line."""
    click.echo(sparkline([p.value for p in found.points[-80:]]))
    print_table(
        ("time", "value", "low", "high"),
        ((when(p.at), p.value, p.low, "exact" if p.exact else p.high) for p in found.points),
    )


def syncs(found: schema.Syncs) -> None:
    """All syncs with their relays."""
    rows: list[Iterable[object]] = []
    for one in found.syncs:
        state = "running" if one.running else one.outcome or "never ran"
        rows.append((one.spec.name, state, "", "", "", "", when(one.ended_at)))
        rows += [
            ("", r.status, r.relay, f"{r.need}/{r.have}", r.downloaded, r.uploaded, r.reason)
            for r in one.relays
        ]
    print_table(("name", "state", "relay", "need/have", "down", "up", "when / why"), rows)


def relays(found: schema.Relays) -> None:
    """All relays."""
    columns = ("relay", "status", "latency", "up", "can", "tasks", "failing", "last error")
    print_table(columns, map(_relay_row, found.relays))


def _relay_row(one: schema.Relay) -> Iterable[object]:
    able = one.capabilities
    can = [n for n in ("count", "hll", "negentropy", "auth") if getattr(able, n)]
    latency = None if one.latency_ms is None else f"{one.latency_ms:.0f} ms"
    rate = f"{one.success_rate:.0%}" if one.attempts else ""
    cells = (one.url, one.status, latency, rate, " ".join(can))
    return *cells, one.tasks, one.failing, one.last_error


def store(found: schema.Store) -> None:
    """Totals of the store."""
    click.echo(f"{found.path}: {found.bytes / 1e6:,.1f} MB")
    click.echo(
        f"{plural(found.events, 'event')} by {plural(found.authors, 'author')}, "
        f"{plural(found.tags, 'tag')}"
    )
    span = f"from {when(found.oldest)} to {when(found.newest)}; " if found.events else ""
    click.echo(f"{span}{found.expiring:,} will expire")
    click.echo(f"{found.deleted_ids + found.deleted_addresses:,} deleted")
    if found.index is None:
        click.echo("no derived tables")
    else:
        one = found.index
        dirty = f", {one.dirty:,} to be read again" if one.dirty else ""
        size = f"{one.bytes / 1e6:,.1f} MB, generation {one.generation}"
        click.echo(f"derived tables: {one.hot:,} hot targets{dirty}; {size}")
    print_table(("kind", "events"), ((kind, f"{n:,}") for kind, n in found.kinds.items()))


def hot_targets(found: schema.HotTargets) -> None:
    """Targets with most events."""
    columns = ("tag", "target", "kind", "events", "authors", "estimate")
    rows = (
        (one.name, one.value, one.kind, one.events, one.authors, _estimate(one))
        for one in found.targets
    )
    print_table(columns, rows)
    say(f"targets of fewer than {HOT} events are not in it")


def _estimate(one: schema.HotTarget) -> str:
    return f"≤ {one.estimate:g}" if one.dirty else f"{one.estimate:g}"


def retention(found: schema.Retention) -> None:
    """Rules, and their newest run."""
    if not found.rules:
        click.echo("no rules: nothing is removed")
    for one in found.rules:
        kinds = f"kinds {', '.join(map(str, one.kinds))}" if one.kinds else "every kind"
        authors = f" by {', '.join(one.authors)}" if one.authors else ""
        kept = f", not by {', '.join(one.keep_authors)}" if one.keep_authors else ""
        click.echo(f"older than {one.older_than}: {kinds}{authors}{kept}")
    ran = f"at {when(found.ran_at)} removed {found.removed:,}" if found.ran_at else "not run yet"
    click.echo(f"{ran}; {found.removed_total:,} since the start")


def counters(found: schema.Counters) -> None:
    """Counters of a stream, and where they came from."""
    rows = []
    for one in found.counters:
        brought = [f"{s}:{k}={v}" for s, of in one.sources.items() for k, v in of.items()]
        rows.append((one.subject, one.value, one.incr, one.seq, " ".join(brought)))
    print_table(("subject", "value", "last", "seq", "sources"), rows)
    if found.more:
        click.echo("there are more: narrow the pattern or raise --limit", err=True)


def links(found: schema.CounterLinks) -> None:
    """Every link of counters, and why one stands still."""
    columns = ("name", "way", "stream", "peer", "state", "lag", "seq", "subjects", "last", "notes")
    print_table(columns, map(_link_row, found.links))


def _link_row(one: schema.CounterLink) -> Iterable[object]:
    lag = "" if one.lag is None else f"{one.lag:.0f}{' s' if one.via == 'nostr' else ''}"
    last = f"{one.last_subject}={one.last_value}" if one.last_subject else ""
    counts = {
        "gaps": one.gaps,
        "lost": one.lost,
        "parked": one.parked,
        "left out": one.left_out,
    }
    notes = [one.why, " <- ".join(one.path), *(f"{n} {name}" for name, n in counts.items() if n)]
    way = f"{one.direction} {one.via}"
    cells = (one.name, way, one.stream, one.peer, one.state, lag, one.seq, one.subjects, last)
    return *cells, "; ".join(filter(None, notes))


def log_line(line: schema.LogLine) -> None:
    """One line of the log."""
    fields = " ".join(f"{key}={clip(str(value))}" for key, value in line.fields.items())
    click.echo(f"{when(line.at)} {line.level:7} {line.event} {fields}")


def when(at: float | None) -> str:
    """A time in the machine's own zone."""
    return "" if at is None else moment(at, None)
