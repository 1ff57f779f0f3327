"""Public names of the SDK, with every signature."""

from __future__ import annotations

import enum
import inspect
import re
from typing import TYPE_CHECKING, Any

import nostr_client

if TYPE_CHECKING:
    from collections.abc import Iterator

    from syrupy.assertion import SnapshotAssertion


def _signature(value: Any) -> str:
    """A signature, in which types have no module: where they live is free."""
    try:
        return re.sub(r"\bnostr_client\.[\w.]*\.| at 0x\w+", "", str(inspect.signature(value)))
    except ValueError:
        return ""


def _members(one: type) -> Iterator[str]:
    """What a class of ours has in public, with what it inherits from others of ours."""
    found: dict[str, Any] = {}
    for base in reversed(one.__mro__):
        if base.__module__.split(".")[0] == "nostr_client":
            found |= base.__dict__
    for name, value in sorted(found.items()):
        if name.startswith("_"):
            continue
        plain = value.__func__ if isinstance(value, (classmethod, staticmethod)) else value
        coroutine = "async " if inspect.iscoroutinefunction(plain) else ""
        yield f"  {coroutine}{name}{_signature(plain) if inspect.isfunction(plain) else ''}"


def _described(name: str) -> Iterator[str]:
    value = getattr(nostr_client, name)
    if not isinstance(value, type):
        yield f"{name}{_signature(value) if callable(value) else ''}"
        return
    plain = issubclass(value, (Exception, enum.Enum))
    bases = ", ".join(base.__name__ for base in value.__bases__ if base is not object)
    yield f"class {name}({bases}){'' if plain else _signature(value)}"
    yield from _members(value)


def test_public_names_and_signatures(snapshot: SnapshotAssertion) -> None:
    lines = [line for name in sorted(nostr_client.__all__) for line in _described(name)]
    assert "\n".join(lines) == snapshot
