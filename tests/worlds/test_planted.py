"""The generator finds every fault that is planted again, within a thousand worlds.

A fault that it does not find is a fault that can come back. A few are looked for in the normal
set, all of them with `-m long`.
"""

from __future__ import annotations

import inspect
import pkgutil
from typing import TYPE_CHECKING

import pytest

from tests.worlds.drawing import drawn
from tests.worlds.planted import Fault, faults, found
from tests.worlds.running import ran
from tests.worlds.shrinking import shrunk

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from _pytest.mark import ParameterSet

WITHIN = 1_000
FAULTS = faults()
QUICK = (
    "every EOSE is the end",
    "the next page leaves out the second that was cut",
    "relays are added up",
    "an error is zero",
    "nothing is ever exact",
)


def each_alone(faults: Iterable[Fault]) -> list[ParameterSet]:
    """Each fault as a parameter, in a process of its own where there are several."""
    return [
        pytest.param(one, id=one.name, marks=pytest.mark.xdist_group(f"fault {one.name}"))
        for one in faults
    ]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_fault_replaces_what_there_is(fault: Fault) -> None:
    """A renamed function would leave its fault without effect; one with other arguments raises."""
    for path, new in fault.changes.items():
        old = pkgutil.resolve_name(path)
        if inspect.isroutine(old) and callable(new):
            by_place, by_name = _arguments(old)
            inspect.signature(new).bind(*by_place, **dict.fromkeys(by_name))
    with fault.planted():
        pass


def _arguments(function: Callable[..., object]) -> tuple[list[str], list[str]]:
    """The arguments that a call may give by place, and those that it must give by name."""
    given = inspect.signature(function).parameters.values()
    by_place = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return (
        [one.name for one in given if one.kind in by_place],
        [one.name for one in given if one.kind is inspect.Parameter.KEYWORD_ONLY],
    )


@pytest.mark.timeout(600)
@pytest.mark.parametrize("fault", each_alone(one for one in FAULTS if one.name in QUICK))
def test_a_planted_fault_is_found(fault: Fault) -> None:
    assert found(fault, range(100)) is not None


@pytest.mark.long
@pytest.mark.timeout(7_200)
@pytest.mark.parametrize("fault", each_alone(one for one in FAULTS if one.name not in QUICK))
def test_every_planted_fault_is_found(fault: Fault) -> None:
    assert found(fault, range(WITHIN)) is not None


def test_a_found_fault_shrinks_to_a_small_world() -> None:
    fault = next(one for one in FAULTS if one.name == "relays are added up")
    seed = found(fault, range(100))
    assert seed is not None
    world = drawn(seed)
    kinds = ran(world, [fault.planted()]).kinds - ran(world).kinds
    small = shrunk(world, lambda one: bool(kinds & ran(one, [fault.planted()]).kinds), runs=200)
    assert len(small.relays) <= 3
    assert len(small.steps) == 1
    assert sum(len(relay.items) for relay in small.relays) <= 4
