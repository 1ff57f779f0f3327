"""The state of each watch in an engine, its input (`WatchSet`), and the result of a merge."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from nostr_client.codecs.relay_url import normalize
from nostr_client.count.beside import FirstRound
from nostr_client.count.procedure import needs_others
from nostr_client.count.remembering import asked_of
from nostr_client.watch.departures import Sightings
from nostr_client.watch.repository import question_key

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from nostr_client.count.figures import Within
    from nostr_client.count.merge import Claim
    from nostr_client.count.queries import Query
    from nostr_client.count.result import CountResult
    from nostr_client.network.outbox import RelayFinder
    from nostr_client.watch.definition import Watch

NO_RELAY: Final = "no relay to ask"
DENIED: Final = "not asked: relays.denied names this relay"


class Watched:
    """One watch at work, on relays by normalised URL with their names in results."""

    def __init__(self, watch: Watch, query: Query, relays: Mapping[str, str], lack: str) -> None:
        self.watch = watch
        self.query = query
        self.key = asked_of(self.query).key
        """Key of the claims."""
        self.question = question_key(self.query)
        self.relays = relays
        self.lack = lack
        """Why it has no relay to ask; empty if it has one."""
        self.claims: dict[str, Claim] = {}
        """Answers that arrived while others are still awaited."""
        self.needs_others = needs_others(query)
        """Whether answers are judged beside those of other relays."""
        self.first = FirstRound() if self.needs_others else None
        """The answers of the first round, until they are judged beside each other."""
        self.completing = False
        """Whether the first round is being judged."""
        self.unsaved: list[tuple[str, Claim]] = []
        """Claims that go into the store with the next merge."""
        self.has_news = False
        """Whether a relay was asked since the newest merge, or other relays count by now."""
        self.merged_at: float | None = None
        """Time of its number, Unix seconds: the newest merge with news."""
        self.asking = 0
        """Relays that are being asked."""
        self.people = Sightings()
        """What was seen of single people, until it is stored."""
        self.tried: set[str] = set()
        """Relays that were asked, whether they answered or not."""
        self.failing: dict[str, str] = {}
        """Relays whose newest attempt failed, and how."""
        self.answered: dict[str, float] = {}
        """When each relay was last asked with an answer, Unix seconds."""
        self.disbelieved: frozenset[str] = frozenset()
        """Relays whose claims the newest number excludes, by normalised URL."""
        self.launders: dict[str, str] = {}
        """Named relays that are our own merged numbers, as the user wrote them: never asked."""
        self.denied: dict[str, str] = {}
        """Named relays that the settings deny, as the user wrote them: never asked."""
        self.took: dict[str, float] = {}
        """How long that answer took, in seconds."""
        self.within: Within | None = None
        """The newest figure of its authors within a web of trust."""
        self.no_web = ""
        """Why there is no such figure; empty if there is one, or none is wanted."""
        self.is_near = False
        """Whether that figure is newer than the newest merge."""

    @property
    def named(self) -> int:
        """How many relays it has: those to ask, and those that are never asked."""
        return len(self.relays) + len(self.launders) + len(self.denied)

    @property
    def denials(self) -> tuple[str, ...]:
        """A warning for each relay that it names and that the settings deny."""
        return tuple(f"{url}: {DENIED}" for url in self.denied.values())

    @property
    def counted(self) -> AbstractSet[str]:
        """The relays that count: all but those that the watch excludes."""
        return self.relays.keys() - self.watch.left_out

    @property
    def believed(self) -> AbstractSet[str]:
        """The relays that count, without those that the newest number does not believe."""
        return self.counted - self.disbelieved

    @property
    def answered_at(self) -> float | None:
        """When a relay that counts was last asked with an answer; None if none ever answered."""
        return max(
            (self.answered[url] for url in self.counted if url in self.answered), default=None
        )

    @property
    def was_asked(self) -> bool:
        """Whether each relay was asked once."""
        return self.tried.issuperset(self.relays)

    @property
    def is_whole(self) -> bool:
        """Whether the first round is over; before, a number may lack one relay's part."""
        return self.was_asked and not self.completing

    def go_on_from(self, before: Watched) -> None:
        """Copy the knowledge about relays from an earlier value of the same watch."""
        self.tried, self.answered, self.took = before.tried, before.answered, before.took
        self.first, self.merged_at = before.first, before.merged_at
        if _counts_alike(before, self):
            self.has_news = before.has_news
            self.within, self.no_web = before.within, before.no_web
        else:
            self.has_news = True
        self.people = before.people


def _counts_alike(one: Watched, other: Watched) -> bool:
    """Whether both count the same people of the same relays: else a figure of one is not of the
    other."""
    a, b = one.watch, other.watch
    same = (a.within, a.excluded, a.trusted, a.policy) == (
        b.within,
        b.excluded,
        b.trusted,
        b.policy,
    )
    return same and one.relays.keys() == other.relays.keys()


class Merge(NamedTuple):
    """The number of a watch at a time (Unix seconds).

    `is_whole`: the first round is over. `is_news`: a relay was asked since the last merge. Only a
    number with both goes into the history, and `at` is the time of the newest one. `is_near`: the
    figure within its web of trust is new.
    """

    watched: Watched
    result: CountResult
    at: float
    is_whole: bool
    is_news: bool
    is_near: bool = False

    @property
    def believed(self) -> AbstractSet[str]:
        """The relays that count and whose claims this number does not exclude, normalised."""
        return self.watched.counted - set(map(normalize, self.result.merged.excluded))


class WatchSet(NamedTuple):
    """What an engine keeps fresh: watches by name, and the relays of those that name none.

    `default`: relays of watches that name none, until `finder` has found those of the target's
    author (NIP-65); without a finder, always. `denied`: relays that are never asked; a watch that
    names one says so. `merged_here`: URLs at which this process gives its own merged numbers; never
    asked, and invalid if a watch names one. `questions`: by name, the question
    if it is not the watch's own.
    """

    watches: Mapping[str, Watch]
    questions: Mapping[str, Query] = MappingProxyType({})
    default: Sequence[str] = ()
    denied: Collection[str] = ()
    merged_here: Collection[str] = ()
    finder: RelayFinder | None = None


def warnings_of(result: CountResult) -> tuple[str, ...]:
    """Return the warnings of every relay of a watch, each once, the first twenty."""
    found = [f"{c.relay}: {text}" for c in result.relays for text in c.warnings]
    return tuple(dict.fromkeys(found))[:20]
