"""The package's one public door: what it lists is what it gives."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import nostr_client

INIT = Path(nostr_client.__file__)


def test_every_listed_name_loads_and_comes_from_where_the_table_says() -> None:
    for name, module in nostr_client._EXPORTS.items():
        assert getattr(nostr_client, name).__module__.startswith(module)


def test_all_table_and_type_checker_block_agree() -> None:
    tree = ast.parse(INIT.read_text("utf-8"))
    block = next(n for n in tree.body if isinstance(n, ast.If))
    typed = {
        a.asname or a.name for n in block.body if isinstance(n, ast.ImportFrom) for a in n.names
    }
    assert typed == set(nostr_client._EXPORTS)
    assert typed | {"__version__"} == set(nostr_client.__all__) == set(dir(nostr_client))


def test_star_import_gives_exactly_all() -> None:
    code = (
        "import nostr_client; ns = {}; exec('from nostr_client import *', ns); "
        "ns.pop('__builtins__'); assert set(ns) == set(nostr_client.__all__), ns"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=30)
