"""Worlds of made-up relays, and the people whose events they hold.

The generator: `model` describes a world as a value, `drawing` draws one from a seed, `running`
takes it through the real client over an in-memory transport (`wire`) and a virtual clock
(`clock`), `truth` says in plain Python what is right, `oracles` compare, `shrinking` makes a
failing world small, and `planted` lists faults of the product that the generator must find.

`people` has signed events for other tests, re-exported here.
"""

from tests.worlds.people import (
    NOTE,
    START,
    TARGET,
    Sketches,
    follow,
    reaction,
    samples,
    signer,
    union,
)

__all__ = [
    "NOTE",
    "START",
    "TARGET",
    "Sketches",
    "follow",
    "reaction",
    "samples",
    "signer",
    "union",
]
