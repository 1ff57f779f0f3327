"""The tables for analysts, `<out>/tables/NAME`: plain expressions over public events of archives.

`docs/reference/tables.md` has each schema with a query. Keys and ids are lower-case hex, times are
Unix seconds, and days are dates in UTC.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from pyspark.sql import Observation, Window
from pyspark.sql import functions as f
from pyspark.sql.types import StructType

from agent.reindex.parquet import MOST_MSATS
from agent.reindex.spark.columns import KEY, PAYMENT
from nostr_client.assertions.fields import ADDRESS, EVENT, IDENTIFIER, USER
from nostr_client.assertions.tally import NO_SUBJECTS
from nostr_client.codecs import kinds
from nostr_client.store.index.schema import DAY

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

TABLES: Final = {
    "daily_actives": "day date, events bigint, people bigint, sketch binary",
    "weekly_actives": "week date, events bigint, people bigint, sketch binary",
    "authors": "pubkey string, events bigint, first_seen bigint, last_seen bigint,"
    " posts bigint, replies bigint, first_note bigint",
    "follows": "follower string, followed string, first_seen bigint, last_seen bigint,"
    " left_at bigint",
    "reactions": "target string, events bigint, people bigint, dislikes bigint,"
    " first_seen bigint, last_seen bigint",
    "reposts": "target string, events bigint, people bigint, first_seen bigint, last_seen bigint",
    "quotes": "target string, events bigint, people bigint, first_seen bigint, last_seen bigint",
    "replies": "target string, target_kind int, events bigint, people bigint, direct bigint,"
    " first_seen bigint, last_seen bigint",
    "hashtags": "hashtag string, events bigint, people bigint, first_seen bigint, last_seen bigint",
    "zaps": "recipient string, sender string, day date, payments bigint, msats bigint",
    "relays": "relay string, events bigint, share double, only_here bigint, people bigint,"
    " targets bigint",
    "relay_overlap": "relay string, other string, events bigint, people bigint, targets bigint",
    "assertions": "kind int, subject string, subject_kinds array<string>,"
    " fields map<string, bigint>, as_of bigint",
}
"""The tables and their columns; each is sorted by its first column in each file."""


def schemas() -> dict[str, StructType]:
    """TABLES as Spark's schemas."""
    return {name: cast("StructType", StructType.fromDDL(ddl)) for name, ddl in TABLES.items()}


_LAST_DAY: Final = 2_932_896
"""31 December 9999, the last day that all readers of Parquet know."""

_SKETCH_BITS: Final = 12
"""Registers of a sketch as a power of two: an error of 1.6 %, in at most 2 KB."""


def write_table(path: str, table: DataFrame) -> int:
    """Write a table to a folder, sorted within each file; return its rows."""
    counted = Observation()
    rows = table.observe(counted, f.count(f.lit(1)).alias("rows"))
    writer = rows.sortWithinPartitions(*rows.columns[:2]).write.mode("overwrite")
    writer.options(compression="zstd", **{"parquet.enable.dictionary": "true"}).parquet(path)
    return int(counted.get["rows"])


def actives(events: DataFrame, unit: str) -> DataFrame:
    """Events and people of each `day` or `week`, and a DataSketches HLL of the people, which
    merges with those of other days. Weeks begin on Monday."""
    began = f.trunc(_date("created_at"), unit) if unit == "week" else _date("created_at")
    people = events.groupBy(began.alias(unit), "pubkey").agg(f.count("*").alias("events"))
    return people.groupBy(unit).agg(
        f.sum("events").alias("events"),
        f.count("*").alias("people"),
        f.hll_sketch_agg("pubkey", _SKETCH_BITS).alias("sketch"),
    )


def _date(seconds: str) -> Column:
    """The day of a time; null after the year 9999, as anybody may write any time."""
    day = f.expr(f"{seconds} DIV {DAY}")
    return f.when(day <= _LAST_DAY, f.date_from_unix_date(day.cast("int")))


def follows(lists: DataFrame) -> DataFrame:
    """Who follows whom, by all versions of follow lists that were ever valid: `lists`.

    `left_at`: the time of the first later list that does not name the followed, null where the
    newest list names them. A version is newer by its time, of equals by the lower id.
    """
    order = Window.partitionBy("pubkey").orderBy("created_at", f.desc("id"))
    versions = lists.repartition("pubkey").select(
        "pubkey",
        "created_at",
        "targets",
        f.row_number().over(order).alias("n"),
        f.lead("created_at").over(order).alias("until"),
    )
    # In a step of its own: a window beside an explode sees the exploded rows.
    rows = versions.withColumn("followed", f.explode(_keys("targets")))
    edges = rows.groupBy("pubkey", "followed").agg(
        f.min("created_at").alias("first_seen"),
        f.max("created_at").alias("last_seen"),
        f.max_by("until", "n").alias("left_at"),
    )
    return edges.select(
        _hex("pubkey").alias("follower"),
        _hex("followed").alias("followed"),
        "first_seen",
        "last_seen",
        "left_at",
    )


def _keys(column: str) -> Column:
    """The keys that a follow list names, as `columns` packs them: a name and 32 bytes each."""
    size = KEY + 1
    places = f"sequence(0, length({column}) DIV {size} - 1)"
    keys = f"transform({places}, at -> substring({column}, at * {size} + 2, {KEY}))"
    return f.when(f.length(column) > 0, f.expr(keys))


def zaps(events: DataFrame) -> DataFrame:
    """What zap receipts claim that each sender paid each recipient on each day.

    A payment counts once, by its first receipt.
    """
    tag = f.explode(f.from_json("tags", "array<array<string>>")).alias("tag")
    receipts = events.where(f.col("kind") == kinds.ZAP).select("id", "created_at", tag)
    name, payment, msats, sender, recipient = (f.get("tag", f.lit(at)) for at in range(5))
    one = receipts.where(name == PAYMENT).groupBy(payment.alias("payment"))
    claim = f.struct(
        recipient.alias("recipient"),
        sender.alias("sender"),
        _date("created_at").alias("day"),
        msats.cast("decimal(20,0)").alias("msats"),
    )
    first = one.agg(f.min_by(claim, f.struct("created_at", "id")).alias("first"))
    total = f.least(f.sum("msats"), f.lit(MOST_MSATS)).cast("long")
    return (
        first.select("first.*")
        .groupBy("recipient", "sender", "day")
        .agg(f.count("*").alias("payments"), total.alias("msats"))
    )


def seen(authors: DataFrame) -> DataFrame:
    """Authors, with their keys in hex."""
    return authors.drop("has_card").withColumn("pubkey", _hex("pubkey"))


def of_mentions(mentioned: DataFrame) -> dict[str, DataFrame]:
    """The tables whose rows are those of one sort of `mentions.mentioned`."""

    def said(what: str, **names: str) -> DataFrame:
        return mentioned.where(f.col("what") == what).withColumnsRenamed(names)

    return {
        "reactions": said("reaction", marked="dislikes"),
        "reposts": said("repost"),
        "quotes": said("quote"),
        "replies": _replies(mentioned),
        "hashtags": said("hashtag", target="hashtag"),
    }


def _replies(mentioned: DataFrame) -> DataFrame:
    """The replies to events, addresses and identifiers. An identifier may have any name, also that
    of an event or address, so that `target_kind` is part of the key."""
    what, target = f.col("what"), f.col("target")
    thing = f.when(target.contains(":"), ADDRESS).otherwise(EVENT)
    kind = f.when(what == "external reply", IDENTIFIER).otherwise(thing)
    rows = mentioned.where(what.isin("reply", "external reply"))
    return rows.withColumn("target_kind", kind).withColumnRenamed("marked", "direct")


def assertions(
    events: DataFrame, authors: DataFrame, mentioned: DataFrame, identifiers: DataFrame, as_of: int
) -> DataFrame:
    """Every count that NIP-85 names, by subject, as `nostr_client.assertions.fields` defines it.

    Neither zaps nor personal fields are counted. `as_of` is the time at which expiry was judged.
    """
    counts = _counts(mentioned)
    cards = _people(events, authors, counts).unionByName(_things(events, counts))
    cards = cards.unionByName(_externals(identifiers, counts))
    fields = f.map_filter("fields", lambda _, value: value.isNotNull())
    return cards.select(
        "kind", "subject", "subject_kinds", fields.alias("fields"), f.lit(as_of).alias("as_of")
    )


def _counts(mentioned: DataFrame) -> DataFrame:
    """What is said of each target, in one row."""
    people, number = f.col("people"), f.col("events")
    wanted = {
        "comments": ("reply", number),
        "quotes": ("quote", number),
        "reposts": ("repost", people),
        "reactions": ("reaction", people),
        "external_comments": ("external reply", number),
        "external_reactions": ("external reaction", people),
        "received": ("reaction to", number),
    }
    sums = [
        f.sum(f.when(f.col("what") == what, value)).alias(name)
        for name, (what, value) in wanted.items()
    ]
    return mentioned.where("what <> 'hashtag'").groupBy("target").agg(*sums)


def _people(events: DataFrame, authors: DataFrame, counts: DataFrame) -> DataFrame:
    """Cards of authors. Who asked to vanish has no living event but that request, and no card."""
    lists = events.where(f.col("kind") == kinds.CONTACTS)
    followed = lists.select(f.explode(_keys("targets")).alias("pubkey"))
    followers = followed.groupBy("pubkey").agg(f.count("*").alias("followers"))
    rows = authors.where("has_card").join(followers, "pubkey", "left")
    rows = rows.withColumn("target", _hex("pubkey")).join(counts, "target", "left")
    fields = {
        "followers": _number("followers"),
        "first_created_at": f.col("first_note"),
        "post_cnt": f.col("posts"),
        "reply_cnt": f.col("replies"),
        "reactions_cnt": _number("received"),
    }
    return _cards(rows, f.lit(USER), fields)


def _things(events: DataFrame, counts: DataFrame) -> DataFrame:
    """Cards of events and addresses."""
    kind = f.col("kind")
    addressable = kind.between(30_000, 39_999)
    replaceable = kind.isin(kinds.METADATA, kinds.CONTACTS) | kind.between(10_000, 19_999)
    subjects = events.where(~kind.isin(*NO_SUBJECTS) & ~replaceable)
    address = f.concat_ws(":", kind.cast("string"), _hex("pubkey"), f.coalesce("d", f.lit("")))
    rows = subjects.select(
        f.when(addressable, ADDRESS).otherwise(EVENT).alias("card"),
        f.when(addressable, address).otherwise(_hex("id")).alias("target"),
    ).join(counts, "target", "left")
    fields = {
        "comment_cnt": _number("comments"),
        "quote_cnt": _number("quotes"),
        "repost_cnt": _number("reposts"),
        "reaction_cnt": _number("reactions"),
    }
    return _cards(rows, f.col("card"), fields)


def _externals(identifiers: DataFrame, counts: DataFrame) -> DataFrame:
    """Cards of identifiers (NIP-73)."""
    rows = identifiers.join(counts, "target", "left")
    fields = {
        "comment_cnt": _number("external_comments"),
        "reaction_cnt": _number("external_reactions"),
    }
    k = f.when(f.col("k").isNotNull(), f.array("k"))
    return _cards(rows, f.lit(IDENTIFIER), fields, k)


def _cards(
    rows: DataFrame, kind: Column, fields: dict[str, Column], k: Column | None = None
) -> DataFrame:
    named = [one for name, value in fields.items() for one in (f.lit(name), value)]
    nothing = f.lit(None).cast("array<string>")
    return rows.select(
        kind.cast("int").alias("kind"),
        f.col("target").alias("subject"),
        (nothing if k is None else k).alias("subject_kinds"),
        f.create_map(*named).alias("fields"),
    )


def _number(name: str) -> Column:
    return f.coalesce(name, f.lit(0).cast("long"))


def _hex(column: str) -> Column:
    return f.lower(f.hex(column))
