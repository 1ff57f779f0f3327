"""Which test modules a system can run: the source shows what only POSIX, or only Linux, has.

NOSTR_TALLY_TEST_SYSTEM=win32 or darwin shows on any system what the other one skips.
"""

from __future__ import annotations

import ast
import functools
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[1]
SYSTEM: Final = os.environ.get("NOSTR_TALLY_TEST_SYSTEM", sys.platform)

MODULES: Final = {"fcntl", "pty", "pwd", "resource", "termios"}
NAMES: Final = {
    *("os.fork", "os.geteuid", "os.getuid", "os.kill", "os.killpg", "os.mkfifo", "os.pread"),
    *("os.pwrite", "os.seteuid", "os.umask", "signal.SIGHUP", "signal.SIGKILL", "signal.SIGSTOP"),
    *("socket.AF_UNIX", "stat.S_IMODE"),
}
METHODS: Final = {"chmod", "add_signal_handler"}
"""Methods that Windows has not, or has without an effect."""

ARGUMENTS: Final = {"preexec_fn", "start_new_session"}
FOLDERS: Final = ("/bin/", "/dev/", "/proc/")
LINUX: Final = {"/proc/"}
"""What macOS has not either."""


def lacking(path: Path, system: str = SYSTEM) -> tuple[str, ...]:
    """Return what a module of tests, or a helper that it imports, uses and a system lacks."""
    if system == "linux":
        return ()
    found = {name for one in _with_helpers(path) for name in used(one.read_text("utf-8"))}
    return tuple(sorted(found if system == "win32" else found & LINUX))


def used(source: str) -> set[str]:
    """Return what a module uses outside the tests that have the mark `posix`."""
    return {name for node in _unmarked(ast.parse(source)) if (name := _name(node))}


def _name(node: ast.AST) -> str:
    """Return the name by which a node is POSIX's, or nothing."""
    match node:
        case ast.Import(names=names) if found := MODULES & {one.name for one in names}:
            return min(found)
        case ast.ImportFrom(module=str(name)) if name in MODULES:
            return name
        case ast.Attribute() if (name := ast.unparse(node)) in NAMES:
            return name
        case ast.Attribute(attr=name) if name in METHODS:
            return name
        case ast.keyword(arg=str(name)) if name in ARGUMENTS:
            return name
        case ast.Constant(value=str(text)) if text.startswith(FOLDERS):
            return next(one for one in FOLDERS if text.startswith(one))
    return ""


def _unmarked(node: ast.AST) -> Iterator[ast.AST]:
    yield node
    for child in ast.iter_child_nodes(node):
        decorators = getattr(child, "decorator_list", ())
        if not any("posix" in ast.unparse(one) for one in decorators):
            yield from _unmarked(child)


@functools.cache
def _with_helpers(path: Path) -> frozenset[Path]:
    """Return a module and the helpers in `tests` that it imports, and theirs."""
    seen: set[Path] = set()
    waiting = [path]
    while waiting:
        one = waiting.pop()
        if one not in seen:
            seen.add(one)
            waiting += _imported(one)
    return frozenset(seen)


def _imported(path: Path) -> list[Path]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{one.name}" for one in node.names)}
        elif isinstance(node, ast.Import):
            names |= {one.name for one in node.names}
    files = (ROOT / f"{name.replace('.', '/')}.py" for name in names if name.startswith("tests."))
    return [file for file in files if file.is_file() and file.name != "conftest.py"]
