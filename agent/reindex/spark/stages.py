"""Runs the stages of a rebuild in order: which tables each stages, and from which earlier ones."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import functions as f

from agent.reindex import inputs
from agent.reindex.single import ARCHIVED
from agent.reindex.spark import analysis, groups, mentions, plan, readers, relays, tombstones
from agent.reindex.spark.columns import SCHEMA
from agent.reindex.spark.numeric import fingerprints
from nostr_client.codecs import kinds
from nostr_client.store import digest
from nostr_client.store.base import SaveStatus
from nostr_client.store.index.schema import IndexedState

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from agent.reindex.protocol import Job
    from agent.reindex.spark.staging import Staging

STATUS: Final = "status string, events long"

_ALIVE: Final = f"status = '{SaveStatus.STORED.value}'"

_VALID: Final = f"'{SaveStatus.STORED.value}', '{SaveStatus.SUPERSEDED.value}'"
_FOLLOW_LISTS: Final = f"kind = {kinds.CONTACTS} AND status IN ({_VALID})"

MENTIONS: Final = "mentions"
"""The stage of archives that follows the others, and makes what their further tables share."""


class Stages:
    """One job's stages. `mark`: how far its store was; None for archives."""

    def __init__(
        self, spark: SparkSession, staging: Staging, job: Job, mark: IndexedState | None
    ) -> None:
        self._spark = spark
        self._staging = staging
        self._job = job
        self._mark = mark

    def mark(self) -> IndexedState:
        """How far the store was that was read, once the first stage is done."""
        if self._mark is None:
            return ARCHIVED
        notes = self._staging.marks["events"].notes
        return self._mark._replace(removals=notes["removals"], digest=notes["digest"])

    def run(self) -> None:
        """All of them. Raises whatever Spark raises."""
        self._events()
        self._dead()
        run, read = self._staging.run, self._staging.read
        self._tags()
        self._registers()
        run(
            "daily",
            {
                "authors": lambda: plan.daily_authors(self._living()),
                "daily": lambda: plan.daily(read("daily", "authors")),
            },
        )
        run(
            "counters",
            {
                "zap": lambda: plan.zaps(self._living()),
                "kinds": lambda: plan.kinds_table(read("daily", "daily")),
            },
        )
        run("fingerprints", {"sums": lambda: fingerprints(self._living())})
        if self._mark is None:
            self._mentions()

    def _mentions(self) -> None:
        """Archives: what public events say of each target, and by whom they are."""
        self._staging.run(
            MENTIONS,
            {
                "mentioned": lambda: mentions.mentioned(self._public()),
                "identifiers": lambda: mentions.identifiers(self._public()),
                "authors": lambda: mentions.authors(self._public()),
                "relay_sets": lambda: relays.relay_sets(self._archived(), self._public()),
            },
        )

    def tables(self) -> dict[str, DataFrame]:
        """The tables for analysts, as analysis.TABLES; call it once `run` has ended."""
        public, read = self._public(), self._staging.read
        mentioned, authors = read(MENTIONS, "mentioned"), read(MENTIONS, "authors")
        identifiers, sets = read(MENTIONS, "identifiers"), read(MENTIONS, "relay_sets")
        found = analysis.of_mentions(mentioned) | {
            "daily_actives": analysis.actives(public, "day"),
            "weekly_actives": analysis.actives(public, "week"),
            "authors": analysis.seen(authors),
            "follows": analysis.follows(self._follow_lists()),
            "zaps": analysis.zaps(public),
            "relays": relays.coverage(sets),
            "relay_overlap": relays.overlap(sets),
            "assertions": analysis.assertions(
                public, authors, mentioned, identifiers, self._job.settings.now
            ),
        }
        return {name: found[name].to(schema) for name, schema in analysis.schemas().items()}

    def _public(self) -> DataFrame:
        """The living events of archives that are not private."""
        return self._living().where("mentions IS NOT NULL")

    def _follow_lists(self) -> DataFrame:
        """All versions of follow lists that were valid until a newer one came."""
        lists = plan.living(self._archived(), self._staging.read("dead", "lists"))
        return lists.where(f.col("kind") == kinds.CONTACTS)

    def _events(self) -> None:
        if self._mark is None:
            self._archives()
            return
        start = self._mark
        self._staging.written("events", {"events": SCHEMA}, lambda: self._from_store(start))

    def _from_store(self, start: IndexedState) -> tuple[dict[str, int], dict[str, int]]:
        """The stage `events` of a store, which makes the table of the stage `tags` on its way."""
        stages = ("events", "tags")
        places = {one: Path(self._staging.path(one, one)).absolute() for one in stages}
        read, named = readers.stage_store(
            self._spark, self._job.source.store, start.next_seq, self._job.partitions, places
        )
        now, left = self._removed(start)
        living = read if left is None else left
        return {"events": read}, {"tags": named, "living": living} | now._asdict()

    def _removed(self, start: IndexedState) -> tuple[IndexedState, int | None]:
        """The store's mark for these ranges once they are read; where there were removals
        meanwhile, the events that are still there then are staged as the living ones, and how
        many they are."""
        with closing(inputs.open_store(self._job.source.store)) as conn:
            conn.execute("BEGIN")
            now = IndexedState.of_store(conn)
            later = digest.compute(conn, start.next_seq)
            read = start._replace(
                removals=now.removals, digest=(now.digest - later) % digest.MODULUS
            )
            if now.removals == start.removals:
                return read, None
            sql = "SELECT seq FROM event WHERE seq < ?"
            seqs = conn.execute(sql, (start.next_seq,)).fetchall()
        here = self._spark.createDataFrame(seqs, "seq long")
        here.write.mode("overwrite").parquet(self._staging.path("events", "here"))
        return read, len(seqs)

    def _archives(self) -> None:
        """Read all files; where one is damaged, without the damaged ones, unless that is strict.

        They are looked for only then: it means to unpack every packed file once more.
        """
        source = self._job.source
        try:
            self._read(source, [])
        except (PySparkException, Py4JError) as error:
            if self._job.settings.strict or readers.DAMAGED_FILE not in str(error):
                raise
            remote = [one.path for one in readers.listed(self._spark, source)]
            damaged = readers.damaged_files(self._spark, source, remote)
            if not damaged:
                raise
            self._read(inputs.without(source, damaged, remote), damaged)

    def _read(self, source: inputs.Input, damaged: list[str]) -> None:
        verify = self._job.settings.verify
        self._staging.run(
            "events",
            {
                "read": lambda: readers.archives(self._spark, source, damaged, verify=verify),
                "rejects": lambda: readers.rejects(self._staging.read("events", "read")),
            },
            shown=lambda rows: rows["read"] - rows["rejects"],
        )

    def _dead(self) -> None:
        """Archives: who is alive. A store has judged its own events, which all count."""
        if self._mark is not None:
            living = self._staging.marks["events"].notes["living"]
            row = [(SaveStatus.STORED.value, living)] if living else []
            self._staging.run("dead", {"status": lambda: self._spark.createDataFrame(row, STATUS)})
            return
        settings, read = self._job.settings, self._staging.read
        self._staging.run(
            "dead",
            {
                "requests": lambda: tombstones.requests(self._archived(), settings),
                "judged": lambda: tombstones.judged(
                    self._archived(), read("dead", "requests"), settings
                ),
                "kept": lambda: plan.kept_bitmaps(read("dead", "judged").where(_ALIVE)),
                "lists": lambda: plan.kept_bitmaps(read("dead", "judged").where(_FOLLOW_LISTS)),
                "status": lambda: (
                    read("dead", "judged").groupBy("status").agg(f.count("*").alias("events"))
                ),
            },
            shown=lambda rows: rows["judged"],
        )

    def _archived(self) -> DataFrame:
        """The events of archives, each as often as it came."""
        return readers.events(self._staging.read("events", "read"))

    def _living(self) -> DataFrame:
        """The events that count."""
        if self._mark is None:
            return plan.living(self._archived(), self._staging.read("dead", "kept"))
        events = self._staging.read("events", "events")
        return events if self._all_live() else events.join(self._here(), "seq", "left_semi")

    def _all_live(self) -> bool:
        """Whether all that was read of a store counts: nothing was removed while it was read."""
        return self._mark is not None and self.mark().removals == self._mark.removals

    def _here(self) -> DataFrame:
        return self._spark.read.schema("seq long").parquet(self._staging.path("events", "here"))

    def _tags(self) -> None:
        """A store's are there, unless some of its events were removed while they were read."""
        if self._all_live():
            there = {"tags": self._staging.marks["events"].notes["tags"]}
            self._staging.written("tags", {"tags": groups.TAGS}, lambda: (there, {}))
            return
        self._staging.run(
            "tags", {"tags": lambda: plan.grouped(self._living())}, packed={"tags": "events"}
        )

    def _registers(self) -> None:
        hot, read = self._job.settings.hot, self._staging.read
        self._staging.run(
            "registers",
            {
                "target": lambda: plan.hot_targets(read("tags", "tags"), hot),
                "groups": lambda: plan.hot_groups(
                    read("tags", "tags"), read("registers", "target")
                ),
                "hot": lambda: plan.hot_table(
                    read("registers", "target"), read("registers", "groups")
                ),
            },
            packed={"groups": "n"},
        )
