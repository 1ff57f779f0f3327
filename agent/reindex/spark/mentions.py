"""What public events say about other events, people, hashtags and identifiers, as narrow rows.

Events are parsed in Python anyway, so `mentions` reads them there, by the SDK's one statement of
each rule (NIP-10, NIP-18, NIP-22, NIP-25, NIP-73). All sums are plain expressions of Spark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from pyspark.sql import functions as f

from nostr_client.assertions.tally import EXTERNAL_REACTION
from nostr_client.codecs import kinds
from nostr_client.codecs.private_kinds import is_private
from nostr_client.codecs.references import (
    identifiers_named,
    reaction_label,
    reaction_targets,
    targets_named,
    thread_of,
)
from nostr_client.store.rows import encode_tags

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import DataFrame

    from nostr_client.codecs.event import Event

    Mention = tuple[str, ...]
    """What is said, about what, and a label."""

DISLIKE: Final = "-"
DIRECT: Final = "direct"

NOTHING: Final = "[]"


class PublicMentions(NamedTuple):
    """`found`: JSON of what a public event says, None for a private one. `is_reply`: of a note."""

    found: str | None
    is_reply: bool


def mentions(event: Event) -> PublicMentions:
    """Read one event. A private one says nothing: its columns are in no table for analysts."""
    if is_private(event):
        return PublicMentions(None, False)
    is_reply = event.kind == kinds.TEXT_NOTE and bool(thread_of(event).parents)
    read = _READ.get(event.kind)
    found = [] if read is None else [*read(event)]
    found += [("hashtag", tag) for tag in {value.lower() for value in event.tag_values("t")}]
    return PublicMentions(encode_tags(found).decode() if found else NOTHING, is_reply)


def _note(event: Event) -> Iterator[Mention]:
    thread, by_ids = thread_of(event), thread_of(event, addresses=False)
    direct = by_ids.parents | {one for one in thread.parents if ":" in one}
    below = by_ids.roots | {one for one in thread.roots if ":" in one}
    yield from (("reply", target, DIRECT) for target in direct)
    yield from (("reply", target) for target in below - direct)
    yield from _quotes(event)


def _comment(event: Event) -> Iterator[Mention]:
    things = targets_named(event, "ea"), targets_named(event, "EA")
    externals = set(event.tag_values("i")), set(event.tag_values("I"))
    for what, (direct, below) in (("reply", things), ("external reply", externals)):
        yield from ((what, target, DIRECT) for target in direct)
        yield from ((what, target) for target in below - direct)
    yield from _identifiers(event, "Ii")
    yield from _quotes(event)


def _quotes(event: Event) -> Iterator[Mention]:
    return (("quote", target) for target in set(event.tag_values("q")))


def _repost(event: Event) -> Iterator[Mention]:
    return (("repost", one) for one in targets_named(event, "ea"))


def _reaction(event: Event) -> Iterator[Mention]:
    label = reaction_label(event)
    yield from (("reaction", one, label) for one in reaction_targets(event))
    for person in list(event.tag_values("p"))[-1:]:
        yield "reaction to", person


def _external_reaction(event: Event) -> Iterator[Mention]:
    yield from (("external reaction", one) for one in set(event.tag_values("i")))
    yield from _identifiers(event, "i")


def _identifiers(event: Event, names: str) -> Iterator[Mention]:
    """Each identifier (NIP-73) that an event is about, once for each kind that the event gives it,
    or once without a kind."""
    for one, given in identifiers_named(event, names).items():
        yield from (("identifier", one, kind) for kind in sorted(given))
        if not given:
            yield "identifier", one


_READ: Final[dict[int, Callable[[Event], Iterator[Mention]]]] = {
    kinds.TEXT_NOTE: _note,
    kinds.COMMENT: _comment,
    kinds.REPOST: _repost,
    kinds.GENERIC_REPOST: _repost,
    kinds.REACTION: _reaction,
    EXTERNAL_REACTION: _external_reaction,
}


def mentioned(events: DataFrame) -> DataFrame:
    """Each thing that events say of each target: `what`, `target`, `events`, `people`, `marked`
    (dislikes, or direct replies), `first_seen`, `last_seen`."""
    marked = f.coalesce(f.col("label").isin(DISLIKE, DIRECT), f.lit(False))
    times = (f.min("first_seen").alias("first_seen"), f.max("last_seen").alias("last_seen"))
    one = _exploded(events).where("what <> 'identifier'")
    by_author = one.groupBy("what", "target", "pubkey").agg(
        f.count("*").alias("events"),
        f.count_if(marked).alias("marked"),
        f.min("created_at").alias("first_seen"),
        f.max("created_at").alias("last_seen"),
    )
    return by_author.groupBy("what", "target").agg(
        f.sum("events").alias("events"),
        f.count("*").alias("people"),
        f.sum("marked").alias("marked"),
        *times,
    )


def identifiers(events: DataFrame) -> DataFrame:
    """Each identifier that events are about, `target`, and the kind `k` (NIP-73) that most of them
    give it, of equals the first by name; null where none gives one."""
    asking = events.where(f.col("kind").isin(kinds.COMMENT, EXTERNAL_REACTION))
    one = _exploded(asking).where("what = 'identifier'")
    counted = one.groupBy("target", f.col("label").alias("k")).agg(f.count("*").alias("n"))
    order = f.when(f.col("k").isNotNull(), f.struct(-f.col("n"), "k"))
    return counted.groupBy("target").agg(f.min_by("k", order).alias("k"))


def _exploded(events: DataFrame) -> DataFrame:
    said = events.where(f.col("mentions") != NOTHING)
    tag = f.explode(f.from_json("mentions", "array<array<string>>")).alias("tag")
    what, target, label = (f.get("tag", f.lit(at)) for at in range(3))
    return said.select("pubkey", "created_at", tag).select(
        "pubkey",
        "created_at",
        what.alias("what"),
        target.alias("target"),
        label.alias("label"),
    )


def authors(events: DataFrame) -> DataFrame:
    """Every author of public events: when they were first and last seen, and what they wrote.

    `has_card`: whether the author is the subject of a card: not if a request to vanish alone stays.
    """
    kind, at = f.col("kind"), f.col("created_at")
    note = kind == kinds.TEXT_NOTE
    return events.groupBy("pubkey").agg(
        f.count("*").alias("events"),
        f.min(at).alias("first_seen"),
        f.max(at).alias("last_seen"),
        f.count_if(note & ~f.col("is_reply")).alias("posts"),
        f.count_if((note & f.col("is_reply")) | (kind == kinds.COMMENT)).alias("replies"),
        f.min(f.when(note, at)).alias("first_note"),
        f.bool_or(kind != kinds.VANISH).alias("has_card"),
    )
