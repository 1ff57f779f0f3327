"""Which command installs an extra, where this process runs: a checkout, an environment, a tool.

`pip install nostr-tally[tui]` does nothing for a program that pipx or uv keeps in an environment of
its own, and an environment made by uv has no pip. So the command names the place and the source
that this installation has.
"""

from __future__ import annotations

import json
import shlex
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit
from urllib.request import url2pathname

NAME: Final = "nostr-tally"

NEWEST_PYTHON: Final = {"spark": (3, 14)}
"""Extras that newer versions of Python lack the wheels for (`pyproject.toml`)."""


def install_command(extra: str) -> str:
    """A command that adds `extra` to this installation, for a shell.

    Extras that uv or pipx has written down are named again, as their `install` starts again.
    """
    newest = NEWEST_PYTHON.get(extra)
    if newest is not None and sys.version_info[:2] > newest:
        return f"a Python up to {newest[0]}.{newest[1]}, as this one has no wheels for it"
    prefix = Path(sys.prefix)
    if (prefix / "uv-receipt.toml").is_file():
        return f"uv tool install --force {_quoted(extra, *_uv_extras(prefix))}"
    if (prefix / "pipx_metadata.json").is_file():
        return f"pipx install --force {_quoted(extra, *_pipx_extras(prefix))}"
    editable = "-e " if _origin().get("dir_info", {}).get("editable") else ""
    return f"{_installer()} {editable}{_quoted(extra)}"


def _installer() -> str:
    """What installs into this environment: its own pip, or uv where it has none."""
    python = shlex.quote(sys.executable)
    return f"{python} -m pip install" if find_spec("pip") else f"uv pip install -p {python}"


def _quoted(*extras: str) -> str:
    return shlex.quote(_requirement(f"[{','.join(sorted(set(extras)))}]"))


def _requirement(extras: str) -> str:
    """The source of this installation with extras: a folder, a file or URL, or the name."""
    url = _origin().get("url", "")
    if not url:
        return NAME + extras
    if "dir_info" in _origin():
        return url2pathname(urlsplit(url).path) + extras
    return f"{NAME}{extras} @ {url}"


def _origin() -> dict[str, Any]:
    """Where pip, uv or pipx took this installation from (PEP 610); empty for an index."""
    try:
        text = distribution(NAME).read_text("direct_url.json")
    except PackageNotFoundError:
        return {}
    found = _json(text or "{}")
    return found if isinstance(found, dict) else {}


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return {}


def _uv_extras(prefix: Path) -> list[str]:
    """The extras of an installation by `uv tool`, as its receipt says."""
    try:
        receipt = tomllib.loads((prefix / "uv-receipt.toml").read_text("utf-8"))
        requirements = receipt["tool"]["requirements"]
        own = [one for one in requirements if one["name"] == NAME]
        return [str(extra) for one in own for extra in one.get("extras", [])]
    except (OSError, ValueError, KeyError, TypeError):
        return []


def _pipx_extras(prefix: Path) -> list[str]:
    """The extras of an installation by pipx, as the source in its metadata says."""
    try:
        main = _json((prefix / "pipx_metadata.json").read_text("utf-8"))["main_package"]
        _, bracket, rest = str(main["package_or_url"]).partition("[")
    except (OSError, KeyError, TypeError):
        return []
    names = rest.partition("]")[0] if bracket else ""
    return [name.strip() for name in names.split(",") if name.strip()]
