"""nip11: relay information documents, read with tolerance."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

from nostr_client.errors import ProtocolError
from tests.unit.cases import Case, checks


def comparable(value: object) -> object:
    return list(value) if isinstance(value, tuple) else value


@checks("nip11")
def check_a_document(case: Case) -> None:
    """Each field that the case names is as it says; fields that we do not keep are passed over."""
    parse = importlib.import_module("nostr_client.codecs.nip11").parse_relay_info
    if case.expected.get("valid") is False:
        with pytest.raises(ProtocolError):
            parse(case.frame)
        return
    info = parse(case.frame)
    wanted: dict[str, Any] = dict(case.expected)
    wanted |= wanted.pop("limitation", None) or {}
    for holder in (info, info.limitation):
        for name in wanted.keys() & set(holder.__struct_fields__) - {"limitation"}:
            assert comparable(getattr(holder, name)) == wanted[name], name
