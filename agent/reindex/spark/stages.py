"""Runs the stages of a rebuild in order: which tables each stages, and from which earlier ones."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as f

from agent.reindex import inputs
from agent.reindex.single import ARCHIVED
from agent.reindex.spark import plan, readers, tombstones
from agent.reindex.spark.columns import SCHEMA
from agent.reindex.spark.counts import COUNTS
from agent.reindex.spark.days import DAYS
from agent.reindex.spark.files import write
from agent.reindex.spark.groups import TAGS, arrow, rows
from agent.reindex.spark.numeric import SUMS, fingerprints
from nostr_client.store import digest
from nostr_client.store.base import SaveStatus
from nostr_client.store.index_schema import IndexedState

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from agent.reindex.protocol import Job
    from agent.reindex.spark.staging import Staging

STATUS: Final = "status string, events long"

CHUNKED: Final = {"tags": TAGS, "counts": COUNTS, "days": DAYS, "sums": SUMS}
"""The tables of the stage `tags`: what is grouped chunk by chunk of the living events."""


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
                "groups": lambda: plan.daily_groups(read("tags", "days")),
                "daily": lambda: plan.daily(read("tags", "days"), read("daily", "groups")),
            },
            packed={"groups": "n"},
        )
        run(
            "counters",
            {
                "zap": lambda: plan.zaps(self._living()),
                "kinds": lambda: plan.kinds_table(read("daily", "daily")),
            },
        )
        run("fingerprints", {"sums": lambda: fingerprints(read("tags", "sums"))})

    def _events(self) -> None:
        if self._mark is None:
            self._archives()
            return
        start = self._mark
        self._staging.written("events", {"events": SCHEMA}, lambda: self._from_store(start))

    def _from_store(self, start: IndexedState) -> tuple[dict[str, int], dict[str, int]]:
        """The stage `events` of a store, which makes the tables of the stage `tags` on its way."""
        places = {"events": self._folder("events", "events")}
        places |= {table: self._folder("tags", table) for table in CHUNKED}
        read, named = readers.stage_store(
            self._spark, self._job.source.store, start.next_seq, self._job.partitions, places
        )
        now, left = self._removed(start)
        living = read if left is None else left
        notes = {"tags": named, "removals": now.removals, "digest": now.digest, "living": living}
        return {"events": read}, notes

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
        source, verify = self._job.source, self._job.settings.verify
        reader = readers.from_jsonl if source.kind == "jsonl" else readers.from_parquet
        self._staging.run(
            "events",
            {
                "read": lambda: reader(self._spark, source.paths, verify=verify),
                "rejects": lambda: readers.rejects(self._staging.read("events", "read")),
                "events": lambda: readers.events(self._staging.read("events", "read")),
            },
            shown=lambda rows: rows["read"] - rows["rejects"],
        )

    def _dead(self) -> None:
        """Archives: who is alive. A store has judged its own events, which all count."""
        if self._mark is not None:
            self._staging.written("dead", {"status": STATUS}, self._stored)
            return
        settings, read = self._job.settings, self._staging.read
        self._staging.run(
            "dead",
            {
                "judged": lambda: tombstones.with_status(read("events", "events"), settings),
                "status": lambda: (
                    read("dead", "judged").groupBy("status").agg(f.count("*").alias("events"))
                ),
            },
        )

    def _stored(self) -> tuple[dict[str, int], dict[str, int]]:
        """The status of a store's events, of which it is known how many are left."""
        living = self._staging.marks["events"].notes["living"]
        row = [(SaveStatus.STORED.value, living)] if living else []
        write(self._folder("dead", "status"), rows(arrow(STATUS), row))
        return {"status": len(row)}, {}

    def _living(self) -> DataFrame:
        """The events that count."""
        if self._mark is None:
            alive = f.col("status") == SaveStatus.STORED.value
            return self._staging.read("dead", "judged").where(alive)
        events = self._staging.read("events", "events")
        return events if self._all_live() else events.join(self._here(), "seq", "left_semi")

    def _all_live(self) -> bool:
        """Whether all that was read of a store counts: nothing was removed while it was read."""
        if self._mark is None:
            return False
        return self._staging.marks["events"].notes["removals"] == self._mark.removals

    def _folder(self, stage: str, table: str) -> Path:
        """Where this machine writes a table itself; its workers have other working folders."""
        return Path(self._staging.path(stage, table)).absolute()

    def _here(self) -> DataFrame:
        return self._spark.read.schema("seq long").parquet(self._staging.path("events", "here"))

    def _tags(self) -> None:
        """A store's are there, unless some of its events were removed while they were read."""
        if self._all_live():
            there = {"tags": self._staging.marks["events"].notes["tags"]}
            self._staging.written("tags", CHUNKED, lambda: (there, {}))
            return
        self._staging.run(
            "tags",
            {
                "tags": lambda: plan.tags(self._living()),
                "counts": lambda: plan.counts_of(self._staging.read("tags", "tags")),
                "days": lambda: plan.authors_of_days(self._living()),
                "sums": lambda: plan.sums(self._living()),
            },
            packed={"tags": "events"},
            shown=lambda rows: rows["tags"],
        )

    def _registers(self) -> None:
        hot, read = self._job.settings.hot, self._staging.read
        self._staging.run(
            "registers",
            {
                "target": lambda: plan.hot_targets(read("tags", "counts"), hot),
                "groups": lambda: plan.hot_groups(
                    read("tags", "tags"), read("registers", "target")
                ),
                "hot": lambda: plan.hot_table(
                    read("registers", "target"), read("registers", "groups")
                ),
            },
            packed={"groups": "n"},
        )
