"""Numbers for Prometheus, read from the parts when they are asked for.

Nothing for each watch, of which there are thousands; links of counters are few, and have their own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from prometheus_client import CollectorRegistry, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from agent.api.schema import CounterLink

BUCKETS: Final = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 15.0)

Family = CounterMetricFamily | GaugeMetricFamily


class Metrics:
    """`read` gives numbers by name: those that end in `_total` only ever grow."""

    def __init__(
        self,
        read: Callable[[], Mapping[str, tuple[str, float]]],
        links: Callable[[], Iterable[CounterLink]] = tuple,
    ) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(_Reader(read))
        self._registry.register(_LinkReader(links))
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


_LINK_NUMBERS: Final = {
    "lag": "What is not taken or sent yet: messages, counters (nats) or seconds (nostr).",
    "seq": "The sequence that a link has come to.",
    "subjects": "Counters that a link has brought or sent.",
    "parked": "Subjects that could not be taken.",
    "gaps": "Places where messages were gone before they came.",
    "left_out": "Messages of subjects that a source may not bring.",
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
            "1 for the state that a link is in.",
            labels=(*labels, "state"),
        )
        for one in links:
            state.add_metric((one.name, one.direction, one.via, one.state), 1)
        yield state

    def describe(self) -> Iterable[Family]:
        return ()
