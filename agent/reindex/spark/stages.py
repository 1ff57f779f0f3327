"""Runs the stages of a rebuild in order: which tables each stages, and from which earlier ones."""

from __future__ import annotations

from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from agent.reindex import inputs
from agent.reindex.parquet import SCHEMAS
from agent.reindex.single import ARCHIVED
from agent.reindex.spark import groups, plan, readers, tombstones
from agent.reindex.spark.columns import SCHEMA
from agent.reindex.spark.numeric import fingerprints
from agent.reindex.spark.queries import ANALYSTS, query
from nostr_client.codecs import kinds
from nostr_client.store import digest
from nostr_client.store.base import SaveStatus
from nostr_client.store.index.schema import IndexedState

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from agent.reindex.protocol import Job
    from agent.reindex.spark.archives import ArchiveReader
    from agent.reindex.spark.staging import Staging

_ALIVE: Final = f"status = '{SaveStatus.STORED.value}'"

_LISTS: Final = f"kind = {kinds.CONTACTS}"

MENTIONS: Final = "mentions"
"""The stage of archives that follows the others, and makes what their further tables share."""


class Stages:
    """One job's stages. Of a store, `mark` is how far it was; of archives, `archive` reads them."""

    def __init__(
        self,
        spark: SparkSession,
        staging: Staging,
        job: Job,
        mark: IndexedState | None,
        archive: ArchiveReader | None,
    ) -> None:
        self._spark = spark
        self._staging = staging
        self._job = job
        self._mark = mark
        self.archive = archive

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
                "authors": lambda: self._query("daily_authors", living=self._living()),
                "daily": lambda: self._query("daily", authors=read("daily", "authors")),
            },
        )
        run(
            "counters",
            {
                "zap": lambda: self._query("zap", living=self._living()),
                "kinds": lambda: self._query("kinds", daily=read("daily", "daily")),
            },
        )
        run("fingerprints", {"sums": lambda: fingerprints(self._living())})
        if self._mark is None:
            self._mentions()

    def _query(self, name: str, **given: Any) -> DataFrame:
        return query(self._spark, name, **given)

    def _mentions(self) -> None:
        """Archives: what public events say of each target, and by whom they are."""
        public = self._public()
        given = {"public": public, "said": self._query("said", public=public)}
        given["copies"] = self._reader().copies()
        names = ("mentioned", "identifiers", "people", "relay_sets")
        self._staging.run(MENTIONS, {name: partial(self._query, name, **given) for name in names})

    def tables(self) -> dict[str, DataFrame]:
        """The tables for analysts; call it once `run` has ended."""
        read = self._staging.read
        given = {
            name: read(MENTIONS, name)
            for name in ("mentioned", "identifiers", "people", "relay_sets")
        }
        given |= {name: self._marked(name, _LISTS) for name in ("lists", "only_lists")}
        given |= {"public": self._public(), "tags": read("tags", "tags")}
        now = self._job.settings.now
        return {name: self._query(name, **given, now=now) for name in ANALYSTS}

    def _public(self) -> DataFrame:
        """The living events of archives that are not private."""
        return self._query("public", living=self._living())

    def _marked(self, bits: str, which: str = "true") -> DataFrame:
        """The events of archives that a table of bitmaps marks."""
        rows, bitmaps = self._archived().where(which), self._staging.read("dead", bits)
        return self._query("marked", rows=rows, bits=bitmaps)

    def _events(self) -> None:
        if self.archive is not None:
            self.archive.run()
        elif self._mark is not None:
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

    def _dead(self) -> None:
        """Archives: who is alive. A store has judged its own events, which all count."""
        if self._mark is not None:
            living = self._staging.marks["events"].notes["living"]
            row = [(SaveStatus.STORED.value, living)] if living else []
            self._staging.run(
                "dead", {"status": lambda: self._spark.createDataFrame(row, SCHEMAS["status"])}
            )
            return
        settings, read = self._job.settings, self._staging.read
        self._staging.run(
            "dead",
            {
                "requests": lambda: tombstones.requests(self._archived(), settings),
                "judged": lambda: tombstones.judged(
                    self._archived(), read("dead", "requests"), settings
                ),
                "kept": lambda: self._bitmaps(read("dead", "judged").where(_ALIVE)),
                "lists": lambda: self._bitmaps(self._lists().where("versions > 1")),
                "only_lists": lambda: self._bitmaps(self._lists().where("versions = 1")),
                "status": lambda: self._query("statuses", judged=read("dead", "judged")),
            },
            shown=lambda rows: rows["judged"],
        )

    def _lists(self) -> DataFrame:
        return self._query("lists", judged=self._staging.read("dead", "judged"))

    def _bitmaps(self, rows: DataFrame) -> DataFrame:
        return self._query("bitmaps", rows=rows)

    def _archived(self) -> DataFrame:
        """The events of archives, each as often as it came."""
        return self._reader().events()

    def rejects(self) -> DataFrame:
        """The lines or rows of archives that are not events."""
        return self._reader().rejects()

    def _reader(self) -> ArchiveReader:
        assert self.archive is not None
        return self.archive

    def _living(self) -> DataFrame:
        """The events that count."""
        if self._mark is None:
            return self._marked("kept")
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
            "tags",
            {"tags": lambda: plan.grouped(self._living())},
            counted={"tags": {"tags": "sum(events)"}},
        )

    def _registers(self) -> None:
        hot, read = self._job.settings.hot, self._staging.read
        self._staging.run(
            "registers",
            {
                "target": lambda: self._query("hot_targets", tags=read("tags", "tags"), hot=hot),
                "groups": lambda: plan.hot_groups(
                    read("tags", "tags"), read("registers", "target")
                ),
                "hot": lambda: plan.hot_table(
                    read("registers", "target"), read("registers", "groups")
                ),
            },
            counted={"groups": {"groups": "sum(n)"}},
        )
