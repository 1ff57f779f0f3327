"""The package's public interface: what it lists is what it gives, and each name is explained."""

from __future__ import annotations

import ast
import importlib
import inspect
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

import nostr_client
from scripts import sdk_reference

if TYPE_CHECKING:
    from collections.abc import Iterator

INIT = Path(nostr_client.__file__)
MOST_NAMES = 60
STORES = ("EventStore.", "SqliteStore.")
"""Their class says what every method raises, and what a cancellation leaves."""


def test_every_listed_name_loads_and_comes_from_where_the_table_says() -> None:
    for name, module in nostr_client._EXPORTS.items():
        assert getattr(nostr_client, name) is getattr(importlib.import_module(module), name)
    for name, module in nostr_client._MODULES.items():
        assert getattr(nostr_client, name).__name__ == module


def test_all_table_and_type_checker_block_agree() -> None:
    tree = ast.parse(INIT.read_text("utf-8"))
    block = next(n for n in tree.body if isinstance(n, ast.If))
    typed = {
        a.asname or a.name for n in block.body if isinstance(n, ast.ImportFrom) for a in n.names
    }
    names = {*nostr_client._EXPORTS, *nostr_client._MODULES}
    assert typed == names
    assert names | {"__version__"} == set(dir(nostr_client))
    assert (
        {*nostr_client._EXPORTS, "__version__"}
        <= set(nostr_client.__all__)
        <= names | {"__version__"}
    )


def test_the_public_names_are_few() -> None:
    number = len(nostr_client.__all__)
    assert number <= MOST_NAMES, "leave a further name in its package: `nostr_client.count.x`"


def test_star_import_gives_exactly_all() -> None:
    code = (
        "import nostr_client; ns = {}; exec('from nostr_client import *', ns); "
        "ns.pop('__builtins__'); assert set(ns) == set(nostr_client.__all__), ns"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=30)


@pytest.mark.parametrize(
    "expression",
    [
        "nostr_client.count.followers('11' * 32) == nostr_client.followers('11' * 32)",
        "nostr_client.hll.offset",
        "nostr_client.nip19.decode(nostr_client.KeySigner.generate().npub)",
        "issubclass(nostr_client.NoRelays, nostr_client.errors.NostrTallyError)",
        "nostr_client.counters.SqliteCounterStore",
    ],
)
def test_one_import_reaches_every_module(expression: str) -> None:
    code = f"import nostr_client; assert {expression}"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=30)


def documented() -> Iterator[tuple[str, Any]]:
    """Each public name with its object, and each public member of our classes, inherited too."""
    for name in nostr_client.__all__:
        value = getattr(nostr_client, name)
        if isinstance(value, str | ModuleType):
            continue
        yield name, value
        if isinstance(value, type):
            yield from members(name, value)


def members(name: str, value: type) -> Iterator[tuple[str, Any]]:
    for base in value.__mro__:
        if not base.__module__.startswith("nostr_client"):
            continue
        for member, found in vars(base).items():
            plain = getattr(found, "__func__", found)
            if not member.startswith("_") and (
                isinstance(found, property) or inspect.isfunction(plain)
            ):
                yield f"{name}.{member}", getattr(value, member)


@pytest.mark.parametrize(("name", "value"), [pytest.param(*one, id=one[0]) for one in documented()])
def test_every_public_name_has_a_complete_docstring(name: str, value: Any) -> None:
    """A first sentence; a coroutine that may wait says what is raised or what a cancel leaves."""
    text = inspect.getdoc(value)
    assert text, f"{name} has no docstring"
    first = text.split("\n\n")[0]
    assert first[0].isupper() or first[0] == "`", first
    assert first.endswith("."), first
    if inspect.iscoroutinefunction(value) and not name.startswith(STORES):
        assert any(word in text.lower() for word in ("raise", "cancel", "never", "running")), name


@pytest.mark.parametrize(
    ("name", "text"), [pytest.param(*one, id=one[0]) for one in sdk_reference.texts()]
)
def test_every_name_on_the_reference_page_has_a_docstring(name: str, text: str) -> None:
    first = text.split("\n\n")[0]
    assert first, f"{name} has no docstring"
    assert first[0].isupper() or first[0] == "`", first
    assert first.endswith((".", ":")), first
