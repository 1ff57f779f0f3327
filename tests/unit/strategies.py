"""Hypothesis strategies for the protocol's values, and a signer whose key is no secret."""

from __future__ import annotations

import random

from hypothesis import strategies as st

from nostr_client.codecs.event import MAX_TIME, Event, EventTemplate
from nostr_client.codecs.filters import Filter
from nostr_client.codecs.keys import KeySigner, VerifiedEvent

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)
HEX32 = st.binary(min_size=32, max_size=32).map(bytes.hex)
HEX64 = st.binary(min_size=64, max_size=64).map(bytes.hex)
TIMES = st.integers(0, MAX_TIME)
KINDS = st.integers(0, 65535)
TAGS = st.lists(st.lists(TEXT, min_size=1, max_size=4).map(tuple), max_size=5).map(tuple)
SUB_IDS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=64)

EVENTS = st.builds(
    Event,
    id=HEX32,
    pubkey=HEX32,
    created_at=TIMES,
    kind=KINDS,
    tags=TAGS,
    content=TEXT,
    sig=HEX64,
)

_LETTERS = st.sampled_from("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
_HEX_LISTS = st.lists(HEX32, max_size=3)
_TAG_FILTERS = st.dictionaries(
    _LETTERS.filter(lambda c: c not in "ep").map("#{}".format), st.lists(TEXT, max_size=3)
)
FILTERS = st.builds(
    Filter,
    ids=st.none() | _HEX_LISTS,
    authors=st.none() | _HEX_LISTS,
    kinds=st.none() | st.lists(KINDS, max_size=3),
    tags=_TAG_FILTERS
    | st.dictionaries(st.sampled_from(["#e", "#p"]), _HEX_LISTS, min_size=1, max_size=2),
    since=st.none() | TIMES,
    until=st.none() | TIMES,
    limit=st.none() | TIMES,
    search=st.none() | TEXT,
)


def signer(seed: int) -> KeySigner:
    """A signer whose key and signatures follow from the seed."""
    return KeySigner.generate(random.Random(seed).randbytes)


def signed(seed: int = 0, **fields: object) -> VerifiedEvent:
    """An event of kind 1 by `signer(seed)`; `fields` go into the template."""
    return signer(seed).sign_now(EventTemplate(**({"kind": 1, "created_at": 1} | fields)))
