"""Formats metrics for Prometheus, read from the parts at each request.

Names and units follow Prometheus' rules: a base unit at the end, `_total` for what only grows. Each
watch has gauges of its own, up to MOST_WATCHES: each is six series that a server keeps for weeks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from prometheus_client import (
    CollectorRegistry,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from nostr_client import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from agent.api.schema import CounterLink, CoverageState, WatchState

MOST_WATCHES: Final = 1_000
"""Watches with gauges, in the order of their names: 6,000 series."""

BUCKETS: Final = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 15.0)

Family = CounterMetricFamily | GaugeMetricFamily


class Metrics:
    """`read` gives numbers by name: those that end in `_total` only ever grow.

    `are_open`: whether they are served without a token.
    """

    def __init__(
        self,
        read: Callable[[], Mapping[str, tuple[str, float]]],
        links: Callable[[], Iterable[CounterLink]] = tuple,
        watches: Callable[[], Mapping[str, WatchState]] = dict,
        syncs: Callable[[], Mapping[str, float]] = dict,
        coverages: Callable[[], Mapping[str, CoverageState]] = dict,
        are_open: Callable[[], bool] = lambda: False,
    ) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(_Reader(read))
        self._registry.register(_LinkReader(links))
        self._registry.register(_WatchReader(watches))
        self._registry.register(_SyncReader(syncs))
        self._registry.register(_CoverageReader(coverages, are_open))
        ProcessCollector(registry=self._registry)
        PlatformCollector(registry=self._registry)
        self.answers = Histogram(
            "nostr_agent_relay_answer_seconds",
            "Seconds that relays took to answer a question of a watch.",
            registry=self._registry,
            buckets=BUCKETS,
        )
        self.merges = Histogram(
            "nostr_agent_merge_seconds",
            "Seconds that the agent took to merge the claims of a watch.",
            registry=self._registry,
            buckets=BUCKETS,
        )

    def text(self) -> str:
        """The exposition format."""
        return generate_latest(self._registry).decode()


class _Reader:
    """A collector over plain numbers."""

    def __init__(self, read: Callable[[], Mapping[str, tuple[str, float]]]) -> None:
        self._read = read

    def collect(self) -> Iterable[Family]:
        for name, (text, value) in self._read().items():
            full = f"nostr_agent_{name}"
            kind: Any = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
            yield kind(full, text, value=value)

    def describe(self) -> Iterable[Family]:
        return ()


def _gauge(name: str, text: str, label: str, values: Iterable[tuple[str, float]]) -> Family:
    family = GaugeMetricFamily(f"nostr_agent_{name}", text, labels=(label,))
    for labelled, value in values:
        family.add_metric((labelled,), value)
    return family


class _WatchReader:
    """A collector over watches that have a number: label `watch`.

    A number that nothing bounds has no `_high`, one that is not known no gauge but the relays'.
    """

    def __init__(self, read: Callable[[], Mapping[str, WatchState]]) -> None:
        self._read = read

    def collect(self) -> Iterable[Family]:
        watches = self._read()
        shown = [(name, watches[name]) for name in sorted(watches)[:MOST_WATCHES]]
        figures = [(name, one.figure) for name, one in shown if one.figure is not None]
        answered = [(name, at) for name, one in shown if (at := one.answered_at) is not None]
        yield _gauge(
            "watch_value", "The number of a watch.", "watch", ((n, f.value) for n, f in figures)
        )
        yield _gauge(
            "watch_low",
            "The lower end of the number's interval.",
            "watch",
            ((n, f.low) for n, f in figures),
        )
        yield _gauge(
            "watch_high",
            "The upper end of the number's interval. Absent if there is none.",
            "watch",
            ((n, f.high) for n, f in figures if f.high is not None),
        )
        yield _gauge(
            "watch_exact",
            "1 if the number is exact, else 0.",
            "watch",
            ((n, float(f.exact)) for n, f in figures),
        )
        yield _gauge(
            "watch_relays_answered",
            "Relays that answered the question of a watch.",
            "watch",
            ((name, one.answered) for name, one in shown),
        )
        yield _gauge(
            "watch_last_success_timestamp_seconds",
            "Time of the newest answer of a relay to a watch's question, in Unix seconds.",
            "watch",
            answered,
        )
        left_out = max(0, len(watches) - MOST_WATCHES)
        yield GaugeMetricFamily(
            "nostr_agent_watches_without_gauges",
            f"Watches beyond {MOST_WATCHES:,}. The HTTP API has their numbers.",
            value=left_out,
        )
        yield _gauge(
            "build_info",
            "1, with the version of the agent as a label.",
            "version",
            [(__version__, 1.0)],
        )

    def describe(self) -> Iterable[Family]:
        return ()


class _SyncReader:
    """A collector over syncs that completed: label `sync`."""

    def __init__(self, read: Callable[[], Mapping[str, float]]) -> None:
        self._read = read

    def collect(self) -> Iterable[Family]:
        yield _gauge(
            "sync_last_success_timestamp_seconds",
            "Time of the last complete run of a sync, in Unix seconds.",
            "sync",
            self._read().items(),
        )

    def describe(self) -> Iterable[Family]:
        return ()


class _CoverageReader:
    """A collector over coverages that were compared: labels `coverage` and `relay`.

    An unknown share is no sample: it is neither a zero nor a one. Metrics that
    anybody may read name no relay.
    """

    def __init__(
        self, read: Callable[[], Mapping[str, CoverageState]], are_open: Callable[[], bool]
    ) -> None:
        self._read = read
        self._are_open = are_open

    def collect(self) -> Iterable[Family]:
        runs = {name: one.run for name, one in self._read().items() if one.run is not None}
        shares = GaugeMetricFamily(
            "nostr_agent_coverage_share",
            "Share of the known events that a relay has, from 0 to 1. Absent if unknown.",
            labels=("coverage", "relay"),
        )
        for name, run in runs.items():
            for one in () if self._are_open() else run.relays:
                if one.share is not None:
                    shares.add_metric((name, one.relay), one.share)
        yield shares
        yield _gauge(
            "coverage_known_events",
            "Distinct events on all relays of a coverage and in the store.",
            "coverage",
            ((name, run.known) for name, run in runs.items()),
        )
        yield _gauge(
            "coverage_relays_not_compared",
            "Relays that the newest run did not compare completely.",
            "coverage",
            ((name, sum(not one.compared for one in run.relays)) for name, run in runs.items()),
        )
        yield _gauge(
            "coverage_last_run_timestamp_seconds",
            "Time of the newest run of a coverage, in Unix seconds.",
            "coverage",
            ((name, run.at) for name, run in runs.items()),
        )

    def describe(self) -> Iterable[Family]:
        return ()


_LINK_NUMBERS: Final = {
    "lag": "How far a link is behind: in messages, counters (nats) or seconds (nostr).",
    "seq": "The sequence that a link has reached.",
    "subjects": "Counters that a link has carried.",
    "parked": "Subjects with an error, which a link keeps for later.",
    "gaps": "How often a link missed messages that its source had removed.",
    "left_out": "Messages that a link ignored, because the source must not send them.",
}


class _LinkReader:
    """A collector over the links of counters: labels `link`, `direction`, `via`."""

    def __init__(self, read: Callable[[], Iterable[CounterLink]]) -> None:
        self._read = read

    def collect(self) -> Iterable[Family]:
        labels = ("link", "direction", "via")
        links = list(self._read())
        for name, text in _LINK_NUMBERS.items():
            family = GaugeMetricFamily(f"nostr_agent_counter_link_{name}", text, labels=labels)
            for one in links:
                value = getattr(one, name)
                if value is not None:
                    family.add_metric((one.name, one.direction, one.via), value)
            yield family
        state = GaugeMetricFamily(
            "nostr_agent_counter_link_state",
            "1 for the current state of a link.",
            labels=(*labels, "state"),
        )
        for one in links:
            state.add_metric((one.name, one.direction, one.via, one.state), 1)
        yield state

    def describe(self) -> Iterable[Family]:
        return ()
