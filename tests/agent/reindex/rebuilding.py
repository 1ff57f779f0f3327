"""A rebuild by Spark in the tests' own session, and the archive that most of its tests share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from agent.reindex import inputs
from agent.reindex.inputs import Settings
from agent.reindex.protocol import Built, Job, Stage, from_line
from agent.reindex.reporter import Reporter
from agent.reindex.spark.job import rebuild
from nostr_client.codecs.event import parse_event
from tests.agent.reindex import analysts
from tests.agent.reindex.nasty import HOT, NOW, URLS, make, nasty, write_archive
from tests.conftest import shared_path

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from nostr_client.codecs.event import Event

SETTINGS = Settings(now=NOW, urls=URLS, hot=HOT)


class Heard:
    """What an engine said."""

    def __init__(self) -> None:
        self.messages: list[Any] = []
        self.reporter = Reporter(lambda line: self.messages.append(from_line(line)))

    @property
    def built(self) -> Built:
        (found,) = [one for one in self.messages if isinstance(one, Built)]
        return found

    def rows(self, stage: str) -> int:
        """Rows that a stage told of at its end."""
        return [one.rows for one in self.messages if isinstance(one, Stage) and one.name == stage][
            -1
        ]

    def states(self) -> dict[str, str]:
        return {one.name: one.state for one in self.messages if isinstance(one, Stage)}


def job_of(source: inputs.Input, folder: Path, **options: Any) -> Job:
    return Job(
        source=source,
        settings=SETTINGS,
        engine="spark",
        work=str(folder / "work"),
        out=str(folder / "out"),
        partitions=2,
        **options,
    )


def by_spark(spark: SparkSession, job: Job) -> Heard:
    heard = Heard()
    rebuild(spark, job, heard.reporter)
    return heard


KEYS = [f"{n:02x}" * 32 for n in range(4)]


def further() -> list[Event]:
    """What the shared events lack: versions of follow lists, dislikes, identifiers, privacy."""

    def follows(at: int, *keys: str) -> Event:
        return make(5, 3, at=NOW - at, tags=tuple(("p", key) for key in keys))

    site, web = ("i", "https://a.example"), ("k", "web")
    note = make(5, 1, content="named by an identifier too")
    episode = (("i", "podcast:item:guid:2"), ("k", "podcast:item:guid"))
    podcast = (("I", "podcast:guid:1"), ("K", "podcast:guid"), *episode)
    stranger = (("e", KEYS[0]), ("i", note.id), ("k", "web"))
    return [
        note,
        make(4, 1111, tags=stranger),
        make(4, 1111, tags=podcast),
        make(4, 1111, tags=(("e", note.id), ("I", note.id), ("a", note.id))),
        make(4, 7, tags=(("a", note.id), ("e", KEYS[0]))),
        make(4, 17, tags=(("i", note.id), ("k", "other"))),
        follows(900, KEYS[0], KEYS[1], KEYS[1], "no key"),
        follows(800, KEYS[0], KEYS[2]),
        follows(800, KEYS[0], KEYS[3]),
        follows(700, KEYS[0], KEYS[1]),
        make(5, 7, tags=(("e", KEYS[0]), ("p", KEYS[1])), content=" - "),
        make(5, 17, tags=(site, web)),
        make(4, 17, tags=(site, ("k", "other"))),
        make(4, 1111, tags=(("I", site[1]), ("K", "web"), ("e", KEYS[0]), ("E", KEYS[1]))),
        make(4, 30_003, at=NOW - 5, tags=(("d", "x"), ("t", "Secret")), content="encrypted"),
        make(4, 4, tags=(("p", KEYS[0]), ("t", "Secret"))),
        make(4, 1, tags=(("t", "Öffentlich"), ("t", "öffentlich"), ("q", KEYS[0]))),
    ]


def everything() -> list[Event]:
    """The shared events, the nasty ones, and what both lack."""
    lines = shared_path("data/events.jsonl").read_bytes().splitlines()
    found = [*nasty(), *further(), *map(parse_event, lines)]
    return list({event.id: event for event in found}.values())


RELAYS = {"one.example": 2, "wss%3A%2F%2Ftwo.example%2Fa+b": 3, "100% three": 7}
"""Names of relays as folders have them, and which of the events each has: every second, and so on.
An event whose place in the list none of the numbers divides is in no folder of a relay."""

NAMES = ("one.example", "wss://two.example/a+b", "100% three")
"""The same names as the tables have them."""


class Archived(NamedTuple):
    """An archive of everything: its job, its events as they are judged, the ids and the relays of
    copies, and what the run said."""

    job: Job
    events: list[tuple[Event, str]]
    copies: list[tuple[str, str]]
    heard: Heard

    @property
    def tables(self) -> Path:
        return Path(self.job.out) / "tables"


def archived(spark: SparkSession, folder: Path) -> Archived:
    """Rebuild the tables of an archive of everything."""
    events = everything()  # once: requests of zaps are signed at random
    copies = write_by_relay(folder / "archive", events)
    job = job_of(inputs.archive("jsonl", [str(folder / "archive")]), folder)
    return Archived(job, analysts.judged(events, URLS, NOW), copies, by_spark(spark, job))


def write_by_relay(folder: Path, events: list[Event]) -> list[tuple[str, str]]:
    """Each event twice in the folder of each relay that has it, and in one of no relay if none
    has; the ids and the relays."""
    copies, left = [], {event.id: event for event in events}
    for (escaped, every), name in zip(RELAYS.items(), NAMES, strict=True):
        some = events[every::every]
        place = folder / f"relay={escaped}" / "2026"
        place.mkdir(parents=True)
        write_archive(place / "a.jsonl", some)
        copies += [(event.id, name) for event in some]
        for event in some:
            left.pop(event.id, None)
    write_archive(folder / "a.jsonl", left.values())
    return copies
