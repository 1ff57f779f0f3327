"""Identifiers as found and as pasted: the subject is used, a bad hint is dropped with a warning."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from nostr_client.codecs import nip19
from nostr_client.codecs.nip19 import Address, EventPointer, Note, Profile, PublicKey
from nostr_client.count import canonical
from nostr_client.errors import InvalidIdentifier
from tests.field import field_case
from tui.dialogs.paste import read as pasted

if TYPE_CHECKING:
    from pathlib import Path


@field_case("nip19-odd")
def check(given: Any, tmp_path: Path) -> None:
    for form, text in given["forms"].items():
        if text.startswith("nrelay"):
            with pytest.raises(InvalidIdentifier, match="nrelay"):
                nip19.read(text)
            continue
        found, warnings = nip19.read(text)
        assert bool(warnings) == damaged(form), form
        match found:
            case PublicKey(subject) | Profile(subject):
                assert nip19.decode_pubkey(text) == canonical("followers", text).target == subject
            case Note(subject) | EventPointer(subject):
                assert canonical("reactions", text).target == subject
            case Address():
                assert canonical("reactions", text).target == found.coordinate
        assert {nip19.read(one.target).target for one in pasted(text).questions} == {found}


def damaged(form: str) -> bool:
    """Whether a hint of this form is not sound."""
    ours = ("ASCII hex", "empty relay", "2-byte kind", "70000", "trailing byte", "truncated")
    return any(word in form for word in ours)
