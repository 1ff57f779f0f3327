"""What is said where an optional package is not installed: which extra brings it."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from nostr_client.errors import NostrTallyError, clip

if TYPE_CHECKING:
    from collections.abc import Iterator

EXTRAS: Final = {
    "aiohttp_socks": "proxy",
    "matplotlib": "plot",
    "nats": "nats",
    "nkeys": "nats",
    "nostr_sdk": "fleet",
    "pandas": "spark",
    "prometheus_client": "agent",
    "pyarrow": "parquet",
    "pyspark": "spark",
    "python_socks": "proxy",
    "textual": "tui",
    "textual_plotext": "tui",
    "textual_serve": "tui",
}
"""The extra that brings a package, by what is imported of it."""


class MissingExtra(NostrTallyError):
    """Something that is installed by an extra alone is not here."""


def missing(what: str, package: str, extra: str | None = None) -> MissingExtra:
    """The error for something that lacks a package; `extra` brings it, else what EXTRAS say."""
    extra = extra or EXTRAS[package]
    return MissingExtra(f"{what} needs {package}: pip install 'nostr-tally[{extra}]'")


@contextmanager
def optional(what: str) -> Iterator[None]:
    """Around the imports of what `what` needs. Raises MissingExtra where a package is not here.

    A package that is here and cannot be loaded raises MissingExtra too, with why. What no extra
    brings passes: that is a bug.
    """
    try:
        yield
    except ImportError as error:
        package = _package(error)
        if package not in EXTRAS:
            raise
        found = missing(what, package)
        if not isinstance(error, ModuleNotFoundError):
            found = MissingExtra(f"{found} (it is here, but {clip(str(error))})")
        raise found from error


def wanted_extra(error: ModuleNotFoundError) -> str:
    """What to install for what was not found; raises the error where no extra brings it."""
    package = _package(error)
    extra = EXTRAS.get(package)
    if extra is None:
        raise error
    return f"{package} is not installed: pip install 'nostr-tally[{extra}]'"


def _package(error: ImportError) -> str:
    return (error.name or "").partition(".")[0]
