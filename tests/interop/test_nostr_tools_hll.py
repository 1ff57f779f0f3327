"""The sketches of npm nostr-tools are ours, byte for byte, but for one known deviation."""

from __future__ import annotations

import hashlib
import random
from typing import Any

import pytest

from nostr_client import hll
from tests.peers.node import run_js

pytestmark = [pytest.mark.interop, pytest.mark.timeout(400)]

SEED = 2045
SKETCHES = """
import * as nip45 from "nostr-tools/nip45";
function main(cases) {
  return cases.map(({ filter, keys, others }) => {
    const value = nip45.getFilterFirstTagValue(filter);
    const offset = nip45.computeOffset(value);
    const fill = (pubkeys) =>
      pubkeys.reduce((hll, pubkey) => nip45.feedPubkey(hll, pubkey, offset), nip45.newHll());
    const own = fill(keys), other = fill(others);
    return {
      offset,
      own: nip45.hllEncode(own),
      other: nip45.hllEncode(other),
      merged: nip45.hllEncode(nip45.mergeHll(own.slice(), other)),
      read: nip45.hllEncode(nip45.hllDecode(nip45.hllEncode(own))),
    };
  });
}
"""
OFFSETS = """
import { computeOffset } from "nostr-tools/nip45";
function main(values) { return values.map((value) => computeOffset(value)); }
"""


def hex32(rand: random.Random) -> str:
    return rand.randbytes(32).hex()


def random_value(rand: random.Random) -> str:
    """A tag value: id, pubkey, address whose d has no colon, or any other text."""
    match rand.randrange(4):
        case 0 | 1:
            return hex32(rand)
        case 2:
            d = "".join(
                rand.choice("ab /\n\u00fc\u65e5\U0001f600") for _ in range(rand.randrange(6))
            )
            return f"{rand.choice([0, 3, 30023, 39999])}:{hex32(rand)}:{d}"
        case _:
            return rand.choice(["nostr", "", "https://e.com/?a=b", "é", hex32(rand)[:-1], "x:y:z"])


def keys_with_zeros(rand: random.Random, n: int, offset: int) -> list[str]:
    """Keys of which many have long runs of zero bits where this offset looks."""
    keys = []
    for _ in range(n):
        window = rand.getrandbits(56) >> rand.choice([0, 0, 0, 8, 20, 47, 55, 56])
        raw = bytearray(rand.randbytes(32))
        raw[offset + 1 : offset + 8] = window.to_bytes(7, "big")
        keys.append(raw.hex())
    return keys


def random_case(rand: random.Random) -> dict[str, Any]:
    letter = rand.choice("epqaAEt")
    query: dict[str, Any] = {"kinds": [rand.choice([1, 3, 7])], f"#{letter}": [random_value(rand)]}
    if rand.random() < 0.3:
        query["#z"] = [random_value(rand)]
    offset = hll.offset(query)
    assert offset is not None
    first, second = (keys_with_zeros(rand, rand.randrange(1, 120), offset) for _ in range(2))
    return {"filter": query, "keys": first, "others": second}


@pytest.mark.parametrize("seed", [SEED])
def test_registers_and_merges_are_equal(seed: int) -> None:
    rand = random.Random(seed)
    cases = [random_case(rand) for _ in range(300)]
    for case, theirs in zip(cases, run_js(SKETCHES, cases), strict=True):
        offset = hll.offset(case["filter"])
        assert offset is not None
        own, other = (hll.from_pubkeys(case[name], offset) for name in ("keys", "others"))
        assert theirs == {
            "offset": offset,
            "own": hll.to_hex(own),
            "other": hll.to_hex(other),
            "merged": hll.to_hex(hll.merge(own, other)),
            "read": hll.to_hex(own),
        }


def test_an_address_whose_identifier_holds_a_colon_is_hashed_by_them() -> None:
    """NIP-45 says the pubkey; they split at every colon. If this fails they have mended it."""
    rand = random.Random(SEED)
    addresses = [f"30023:{hex32(rand)}:{d}" for d in ("a:b", ":", "x::y", "30023:" + "0" * 64)]
    by_text = [int(address.split(":")[1][32], 16) + 8 for address in addresses]
    hashed = [int(hashlib.sha256(a.encode()).hexdigest()[32], 16) + 8 for a in addresses]
    assert [hll.offset({"#a": [address]}) for address in addresses] == by_text
    assert run_js(OFFSETS, addresses) == hashed
    assert by_text != hashed
