"""HyperLogLog of NIP-45: from pubkeys to registers, from registers to an honest number.

Pubkeys enter; registers and estimates with intervals leave. A sketch is 256 raw bytes
("registers") and nothing else. The filter decides what it means: its `offset` says which bytes of
a pubkey are used, and only sketches of one offset may be merged. Start with `registers`, then
`estimate`. Pure functions; only `from_raw` and large batches load numpy.
"""

from __future__ import annotations

from nostr_client.hll.estimate import estimate, interval, sigma
from nostr_client.hll.overlap import Overlap, overlap
from nostr_client.hll.registers import (
    EMPTY,
    MAX_RANK,
    M,
    add,
    eligible,
    from_hex,
    from_pubkeys,
    from_raw,
    merge,
    mergeable,
    offset,
    to_hex,
)

__all__ = [
    "EMPTY",
    "MAX_RANK",
    "M",
    "Overlap",
    "add",
    "eligible",
    "estimate",
    "from_hex",
    "from_pubkeys",
    "from_raw",
    "interval",
    "merge",
    "mergeable",
    "offset",
    "overlap",
    "sigma",
    "to_hex",
]
