"""Which relays had which events, people and targets, where the archives say it.

Whatever relays have in common, the sets of relays that have the same things are few beside the
things. So each event, person and target becomes its set of relays, and only the sets are paired.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as f

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

NAMING: Final = ("reply", "quote", "repost", "reaction")
"""What an event says of another event or an address, which is then a target of its relays."""

_THINGS: Final = ("events", "people", "targets")


def relay_sets(copies: DataFrame, public: DataFrame) -> DataFrame:
    """How many things each set of relays has, and no relay beside it: `what` (one of _THINGS),
    `relays`, `n`. `copies` are all rows of the archives, with an event as often as it came."""
    known = copies.where("relay IS NOT NULL").groupBy("id")
    held = known.agg(f.array_sort(f.collect_set("relay")).alias("relays"))
    one = f.explode(f.concat(_own(), _named())).alias("one")
    things = public.join(held, "id").select("relays", one).select("relays", "one.*")
    union = f.array_sort(f.array_distinct(f.flatten(f.collect_set("relays"))))
    sets = things.groupBy("what", "thing").agg(union.alias("relays"))
    return sets.groupBy("what", "relays").agg(f.count("*").alias("n"))


def _own() -> Column:
    return f.array(
        _thing("events", f.lower(f.hex("id"))), _thing("people", f.lower(f.hex("pubkey")))
    )


def _named() -> Column:
    said = f.from_json("mentions", "array<array<string>>")
    naming = f.filter(said, lambda one: f.get(one, f.lit(0)).isin(*NAMING))
    return f.transform(naming, lambda one: _thing("targets", f.get(one, f.lit(1))))


def _thing(what: str, thing: Column) -> Column:
    return f.struct(f.lit(what).alias("what"), thing.alias("thing"))


def coverage(sets: DataFrame) -> DataFrame:
    """What each relay had, of the staged `relay_sets`. `share` is of all events whose relay is
    known, and `only_here` are the events that no other relay had."""
    alone = f.when((f.size("relays") == 1) & (f.col("what") == "events"), f.col("n"))
    rows = sets.select("what", "n", f.explode("relays").alias("relay"), alone.alias("alone"))
    found = rows.groupBy("relay").agg(*_sums(), _sum(f.col("alone")).alias("only_here"))
    everything = sets.agg(_sum(_of("events")).alias("everything"))
    share = (f.col("events") / f.col("everything")).alias("share")
    return found.crossJoin(everything).select(
        "relay", "events", share, "only_here", "people", "targets"
    )


def overlap(sets: DataFrame) -> DataFrame:
    """What each two relays have in common: a row for each order of the two."""
    rows = sets.select("what", "n", "relays", f.explode("relays").alias("relay"))
    pairs = rows.select("what", "n", "relay", f.explode("relays").alias("other"))
    return pairs.where("relay <> other").groupBy("relay", "other").agg(*_sums())


def _sums() -> list[Column]:
    return [_sum(_of(what)).alias(what) for what in _THINGS]


def _of(what: str) -> Column:
    return f.when(f.col("what") == what, f.col("n"))


def _sum(number: Column) -> Column:
    return f.coalesce(f.sum(number), f.lit(0))
