"""A failing world made small: parts are taken away for as long as it fails in the same way."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from typing import TYPE_CHECKING, Final

from tests.worlds.behaviours import Away, Behaviour, Cap, Silent
from tests.worlds.items import Item
from tests.worlds.model import Change, RelaySpec, Step, World
from tests.worlds.running import Report, ran

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

MOST_RUNS: Final = 600
"""Runs of one shrinking: a small world takes tens of milliseconds."""

LEAST_CAP: Final = 13
"""The smallest cap that worlds have: below ten events, a second is not called dense."""


def shrunk(world: World, fails: Callable[[World], bool], *, runs: int = MOST_RUNS) -> World:
    """The smallest world found that still `fails`; each accepted change makes it smaller."""
    left = runs
    smaller = True
    while smaller and left > 0:
        smaller = False
        for candidate in _smaller(world):
            left -= 1
            if left < 0:
                break
            if candidate.size < world.size and fails(candidate):
                world, smaller = candidate, True
                break
    return world


def _smaller(world: World) -> Iterator[World]:
    """Worlds with less in them, the largest cuts first."""
    yield from _without_relays(world)
    yield from _without_steps(world)
    yield from _with_fewer_items(world)
    yield from _plainer(world)


def _without_relays(world: World) -> Iterator[World]:
    if len(world.relays) == 1:
        return
    for r in range(len(world.relays)):
        relays = world.relays[:r] + world.relays[r + 1 :]
        steps = tuple(
            replace(step, changes=_renumbered(step.changes, r), live=_renumbered(step.live, r))
            for step in world.steps
        )
        yield replace(world, relays=relays, steps=steps)


def _renumbered(changes: tuple[Change, ...], gone: int) -> tuple[Change, ...]:
    return tuple(
        replace(one, relay=one.relay - (one.relay > gone)) for one in changes if one.relay != gone
    )


def _without_steps(world: World) -> Iterator[World]:
    """Fewer steps; what behaviours say about a step moves with it."""
    if len(world.steps) == 1:
        return
    for i in reversed(range(len(world.steps))):
        relays = tuple(
            RelaySpec(tuple(_moved(one, i) for one in spec.behaviours), spec.items)
            for spec in world.relays
        )
        yield replace(world, relays=relays, steps=world.steps[:i] + world.steps[i + 1 :])


def _moved(behaviour: Behaviour, gone: int) -> Behaviour:
    if isinstance(behaviour, Silent | Away) and behaviour.step > gone:
        return replace(behaviour, step=behaviour.step - 1)
    return behaviour


def _with_fewer_items(world: World) -> Iterator[World]:
    """Without some of all items, everywhere: halves, then quarters, at last one by one."""
    items = sorted(
        {item for spec in world.relays for item in spec.items}
        | set(world.local)
        | {item for step in world.steps for one in step.changes + step.live for item in one.adds},
        key=repr,
    )
    size = len(items) // 2
    while size:
        for start in range(0, len(items), size):
            yield _without(world, frozenset(items[start : start + size]))
        size //= 2
    for r, spec in enumerate(world.relays):
        for part in (spec.items[len(spec.items) // 2 :], spec.items[: len(spec.items) // 2]):
            yield _with_relay(world, r, replace(spec, items=part))


def _without(world: World, gone: frozenset[object]) -> World:
    def cut(changes: tuple[Change, ...]) -> tuple[Change, ...]:
        left = (
            Change(
                one.relay,
                tuple(item for item in one.adds if item not in gone),
                tuple(item for item in one.loses if item not in gone),
            )
            for one in changes
        )
        return tuple(one for one in left if one.adds or one.loses)

    return replace(
        world,
        relays=tuple(
            replace(spec, items=tuple(item for item in spec.items if item not in gone))
            for spec in world.relays
        ),
        local=tuple(item for item in world.local if item not in gone),
        steps=tuple(
            replace(step, changes=cut(step.changes), live=cut(step.live)) for step in world.steps
        ),
    )


def _plainer(world: World) -> Iterator[World]:
    """Without one behaviour, one change, one restart, the local events or the store."""
    for r, spec in enumerate(world.relays):
        for b in range(len(spec.behaviours)):
            fewer = spec.behaviours[:b] + spec.behaviours[b + 1 :]
            yield _with_relay(world, r, replace(spec, behaviours=fewer))
            if isinstance(spec.behaviours[b], Cap):
                small = (*spec.behaviours[:b], Cap(LEAST_CAP), *spec.behaviours[b + 1 :])
                yield _with_relay(world, r, replace(spec, behaviours=small))
    for i, step in enumerate(world.steps):
        for c in range(len(step.changes)):
            fewer_changes = step.changes[:c] + step.changes[c + 1 :]
            yield _with_step(world, i, replace(step, changes=fewer_changes))
        yield _with_step(world, i, replace(step, live=()))
        yield _with_step(world, i, replace(step, restart=False))
        if step.action == "watch":
            yield _with_step(world, i, replace(step, action="count", live=()))
    yield replace(world, local=())


def _with_relay(world: World, r: int, spec: RelaySpec) -> World:
    return replace(world, relays=(*world.relays[:r], spec, *world.relays[r + 1 :]))


def _with_step(world: World, i: int, step: Step) -> World:
    return replace(world, steps=(*world.steps[:i], step, *world.steps[i + 1 :]))


def smaller(world: World, kind: str) -> Report:
    """The smallest world found with a violation of this kind, run."""
    return ran(shrunk(world, lambda candidate: kind in ran(candidate).kinds))


def described(world: World) -> str:
    """A world as the Python that makes it again, a line for each part, defaults left out."""
    parts = [repr(world.seed), repr(world.question)]
    lines = [f"World({', '.join(parts)},", "  ("]
    lines += [f"    {_text(spec)}," for spec in world.relays]
    lines += ["  ),", "  ("]
    lines += [f"    {_text(step)}," for step in world.steps]
    rest = "" if world.private else ", private=False"
    lines += ["  ),", f"  kept={world.kept}, local={_text(world.local)}{rest})"]
    return "\n".join(lines)


def _text(value: object) -> str:
    if isinstance(value, Item):
        return _call("Item", value._asdict(), value._field_defaults)
    if is_dataclass(value):
        named = {one.name: getattr(value, one.name) for one in fields(value)}
        return _call(type(value).__name__, named, {one.name: one.default for one in fields(value)})
    if isinstance(value, tuple):
        inner = ", ".join(map(_text, value))
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    return repr(value)


def _call(name: str, given: Mapping[str, object], defaults: Mapping[str, object]) -> str:
    odd = {k: v for k, v in given.items() if k not in defaults or v != defaults[k]}
    return f"{name}({', '.join(f'{k}={_text(v)}' for k, v in odd.items())})"
