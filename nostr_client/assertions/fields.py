"""Define what each number of a card means: the fields of NIP-85 that are counts, sums or times.
Pure.

A key never changes a unit: each field states once what it counts, and the documents are made from
it.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import msgspec

from nostr_client.codecs import nip19
from nostr_client.errors import InvalidIdentifier

USER: Final = 30382
EVENT: Final = 30383
ADDRESS: Final = 30384
IDENTIFIER: Final = 30385

SUBJECTS: Final = {USER: "user", EVENT: "event", ADDRESS: "address", IDENTIFIER: "identifier"}
"""The subject of a card, by its kind."""

LONGEST_SUBJECT: Final = 2_000
"""Characters of a `d`: a URL as an identifier (NIP-73) rarely has more, and relays refuse more."""


class Subject(NamedTuple):
    """The card and the field that answer a query."""

    kind: int
    name: str
    field: str


class CardField(msgspec.Struct, frozen=True, kw_only=True):
    """A number of a card: the tag that carries it, its unit, and what it counts, in a sentence.

    `personal`: it describes a person's life more than success, so it is published only on request.
    `zaps`: it comes from zap receipts, and only from those that the receiver's wallet signed.
    """

    name: str
    unit: str
    counts: str
    personal: bool = False
    zaps: bool = False


def _of_thing(
    noun: str, comments: str, repost: str, reaction: str, zap: str
) -> tuple[CardField, ...]:
    """Return the fields of an event or of an address; each text says which tags name one."""
    return (
        CardField(
            name="comment_cnt",
            unit="events",
            counts=f"Replies (kind 1, NIP-10) and comments (kind 1111, NIP-22): direct; for the "
            f"root of a thread, at any depth. Mentions do not count. {comments}",
        ),
        CardField(
            name="quote_cnt",
            unit="events",
            counts=f"Notes and comments (kinds 1, 1111) with a `q` tag for the {noun}.",
        ),
        CardField(
            name="repost_cnt",
            unit="people",
            counts=f"Authors of reposts (kinds 6 and 16, NIP-18). {repost}",
        ),
        CardField(
            name="reaction_cnt",
            unit="people",
            counts=f"Authors of reactions (kind 7, NIP-25), including dislikes. {reaction}",
        ),
        CardField(
            name="zap_cnt",
            unit="payments",
            counts=f"Zap receipts (kind 9735) for the {noun} that pay its author or a person "
            f"of its `zap` tags, each payment once.{zap}",
            zaps=True,
        ),
        CardField(name="zap_amount", unit="sats", counts="Sum of these payments.", zaps=True),
    )


_OF_EVENT: Final = _of_thing(
    "event",
    "Of `e` tags without markers, the first is the root and the last the parent; those between "
    "are mentions.",
    "A repost with several `e` tags counts for each of these events.",
    "A reaction is to the event of its last `e` tag.",
    "",
)
_OF_ADDRESS: Final = _of_thing(
    "address",
    "A reply or comment names the address in an `a` or `A` tag; if it names only the event id of "
    "a version, it does not count. An `a` tag without a marker is a root, also that of a "
    "community (kind 34550).",
    "A repost with several `a` tags counts for each of these addresses; one without an `a` tag "
    "counts for none.",
    "A reaction is to each address of its `a` tags; one with only the `e` tag of a version does "
    "not count.",
    " A zap with an `e` tag counts for that event, not for the address.",
)

FIELDS: Final[dict[int, tuple[CardField, ...]]] = {
    USER: (
        CardField(
            name="rank",
            unit="0 to 100",
            counts="Rank of the person in the web of trust of a key that the provider "
            "chooses, from public follow and mute lists.",
            personal=True,
        ),
        CardField(
            name="followers",
            unit="people",
            counts="Authors whose newest follow list (kind 3) contains the key.",
        ),
        CardField(
            name="first_created_at",
            unit="Unix seconds",
            counts="Time of the oldest note (kind 1) of the key.",
        ),
        CardField(name="post_cnt", unit="events", counts="Notes (kind 1) that reply to nothing."),
        CardField(
            name="reply_cnt",
            unit="events",
            counts="Notes (kind 1) that reply to something, and comments (kind 1111). A note "
            "with an `e` or `a` tag is a reply, unless each of these tags has the marker "
            "`mention`; so the `a` tag of a community (kind 34550) makes a reply.",
        ),
        CardField(
            name="reactions_cnt",
            unit="events",
            counts="Reactions (kind 7) whose last `p` tag is the key (NIP-25).",
        ),
        CardField(
            name="zap_amt_recd",
            unit="sats",
            counts="Sum of the zaps (kind 9735) to the key, each payment once.",
            zaps=True,
        ),
        CardField(
            name="zap_cnt_recd", unit="payments", counts="Number of these payments.", zaps=True
        ),
        CardField(
            name="zap_avg_amt_day_recd",
            unit="sats",
            counts="The amount received, divided by the days since the first of these payments.",
            zaps=True,
        ),
        CardField(
            name="zap_amt_sent",
            unit="sats",
            counts="Sum of the zaps whose zap request the key signed, each payment once.",
            personal=True,
            zaps=True,
        ),
        CardField(
            name="zap_cnt_sent",
            unit="payments",
            counts="Number of these payments.",
            personal=True,
            zaps=True,
        ),
        CardField(
            name="zap_avg_amt_day_sent",
            unit="sats",
            counts="The amount sent, divided by the days since the first of these payments.",
            personal=True,
            zaps=True,
        ),
        CardField(
            name="reports_cnt_recd",
            unit="people",
            counts="Authors of reports (kind 1984) of the key.",
            personal=True,
        ),
        CardField(
            name="reports_cnt_sent",
            unit="events",
            counts="Reports (kind 1984) by the key.",
            personal=True,
        ),
        CardField(
            name="t",
            unit="hashtags",
            counts="The five most frequent hashtags in the key's notes (kind 1); of equally "
            "frequent hashtags, the first by name.",
            personal=True,
        ),
        CardField(
            name="active_hours_start",
            unit="hour of the day, UTC",
            counts="Start of the shortest time of the day, in full hours, with four fifths "
            "of the key's notes; of equally short times, the one with the most notes, then the "
            "earliest by its start.",
            personal=True,
        ),
        CardField(
            name="active_hours_end",
            unit="hour of the day, UTC",
            counts="End of this time.",
            personal=True,
        ),
    ),
    EVENT: _OF_EVENT,
    ADDRESS: _OF_ADDRESS,
    IDENTIFIER: (
        CardField(
            name="comment_cnt",
            unit="events",
            counts="Comments (kind 1111, NIP-22) whose `I` or `i` tag is the identifier.",
        ),
        CardField(
            name="reaction_cnt",
            unit="people",
            counts="Authors of reactions (kind 17, NIP-25) whose `i` tag is the identifier.",
        ),
    ),
}
"""Every field that a card may have, by the card's kind, in the order of its tags."""

READERS: Final = {
    USER: frozenset({"followers", "post_cnt"}),
    EVENT: frozenset({"comment_cnt", "repost_cnt", "reaction_cnt", "zap_cnt", "zap_amount"}),
}
"""Fields that a client which shows these cards (Ditto) reads; it shows a missing one as 0."""


_NAMED: Final = {(kind, one.name): one for kind, fields in FIELDS.items() for one in fields}


def field_named(kind: int, name: str) -> CardField:
    """Return the field of a card's kind. Raises KeyError."""
    return _NAMED[kind, name]


def is_field(kind: int, name: str) -> bool:
    """Whether a card of this kind may have a field of this name."""
    return (kind, name) in _NAMED


def is_subject(kind: int, subject: str) -> bool:
    """Whether a card of this kind may have this `d`."""
    if len(subject) > LONGEST_SUBJECT:
        return False
    if kind in (USER, EVENT):
        return nip19.looks_hex(subject) and subject == subject.lower()
    if kind == ADDRESS:
        return nip19.is_address(subject)
    return kind == IDENTIFIER and bool(subject)


def author_of(kind: int, subject: str) -> str | None:
    """Return whose card it is, as a hex pubkey, if the subject names the key."""
    if kind == USER:
        return subject
    return subject.split(":", 2)[1] if kind == ADDRESS and nip19.is_address(subject) else None


def table() -> str:
    """Return the fields as a Markdown table, for the documents."""
    lines = ["| card | tag | unit | what it counts |", "|---|---|---|---|"]
    for kind, fields in FIELDS.items():
        for one in fields:
            name = f"`{one.name}`" + (" (personal)" if one.personal else "")
            lines.append(f"| {kind} {SUBJECTS[kind]} | {name} | {one.unit} | {one.counts} |")
    return "\n".join(lines) + "\n"


def subject_of(text: str) -> tuple[int, str]:
    """Return the card's kind and `d` for what people type. Raises InvalidIdentifier."""
    bare = text.strip()
    if bare.startswith("i:") and len(bare) > 2:
        return IDENTIFIER, bare[2:]
    if nip19.looks_hex(bare):
        raise InvalidIdentifier(
            "64 hex characters may be a key or an event id: write npub1… or note1…"
        )
    what = "a subject: expected npub, note, nevent, naddr, or i:IDENTIFIER"
    name, found = nip19.person_event_or_address(bare, what)
    return {"p": USER, "e": EVENT, "a": ADDRESS}[name], found
