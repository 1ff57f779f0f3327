"""What public events say about other events, people, hashtags and identifiers, as narrow rows.

Events are parsed in Python anyway, so `mentions` reads them there, by the SDK's one statement of
each rule (NIP-10, NIP-18, NIP-22, NIP-25, NIP-73). `queries.sql` has all sums of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

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

    from nostr_client.codecs.event import Event

    Mention = tuple[str, ...]
    """What is said, about what, and a label."""

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
