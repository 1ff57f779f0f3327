"""What was given on the command line, as the values that the API takes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from agent.config.check import convert
from agent.config.load import dotted
from nostr_client.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Iterable

    from agent.config.check import Path

S = TypeVar("S", bound=msgspec.Struct)


def json_of(texts: Iterable[str]) -> list[Any]:
    """Options that are JSON, read. Raises InvalidInput."""
    try:
        return [json.loads(text) for text in texts]
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"no JSON: {error}") from error


def spec_of(kind: type[S], given: dict[str, Any]) -> S:
    """Options as a spec. Raises InvalidInput with everything that is wrong."""
    mistakes: list[str] = []

    def complain(path: Path, why: str) -> None:
        mistakes.append(f"{dotted(path)}: {why}")

    found = convert({key: v for key, v in given.items() if v is not None}, kind, complain)
    if found is None:
        raise InvalidInput("; ".join(mistakes))
    return found
