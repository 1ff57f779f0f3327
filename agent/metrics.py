"""Numbers for Prometheus, read from the parts when they are asked for; nothing per watch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from prometheus_client import CollectorRegistry, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

BUCKETS: Final = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 15.0)

Family = CounterMetricFamily | GaugeMetricFamily


class Metrics:
    """`read` gives numbers by name: those that end in `_total` only ever grow."""

    def __init__(self, read: Callable[[], Mapping[str, tuple[str, float]]]) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(_Reader(read))
        self.answers = Histogram(
            "nostr_agent_relay_answer_seconds",
            "How long relays took to answer a question of a watch.",
            registry=self._registry,
            buckets=BUCKETS,
        )
        self.merges = Histogram(
            "nostr_agent_merge_seconds",
            "How long merging the claims of a watch took.",
            registry=self._registry,
            buckets=BUCKETS,
        )

    def text(self) -> bytes:
        """The exposition format."""
        return generate_latest(self._registry)


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
