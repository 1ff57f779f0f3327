"""What was given on the command line, as the values that the API takes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from nostr_client.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Iterable

S = TypeVar("S", bound=msgspec.Struct)


def json_of(texts: Iterable[str]) -> list[Any]:
    """Options that are JSON, read. Raises InvalidInput."""
    try:
        return [json.loads(text) for text in texts]
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"no JSON: {error}") from error


def spec_of(kind: type[S], given: dict[str, Any]) -> S:
    """Options as a spec. Raises InvalidInput."""
    try:
        return msgspec.convert(given, kind)
    except msgspec.ValidationError as error:
        raise InvalidInput(str(error)) from error
