"""Every vector of `data/hll.json`: offsets, registers, merges, estimates, messages."""

from __future__ import annotations

import hashlib
import json
import math
from typing import Any

import pytest

from nostr_client import hll
from nostr_client.codecs import reasons
from nostr_client.codecs.messages import Closed, CountAnswer, Notice, parse_relay_message
from nostr_client.errors import ProtocolError
from tests.conftest import load_cases, missing_shared

FILE = load_cases("hll.json") or {}
# The file's words for what is odd about an answer, and a part of ours.
WARNINGS = {
    "bad length": "bad length",
    "hll/count mismatch": "it counts 0, but its registers are not empty",
}
SECTIONS = ("filters", "registers", "merges", "estimates", "wire")


def cases(section: str) -> list[Any]:
    return [pytest.param(case, id=case["name"]) for case in FILE.get(section, ())]


def test_the_file_is_here_and_has_no_section_without_a_runner() -> None:
    if not FILE:
        missing_shared("data/hll.json")
    assert {name for name, value in FILE.items() if isinstance(value, list)} <= set(SECTIONS)


@pytest.mark.parametrize("case", cases("filters"))
def test_filters(case: dict[str, Any]) -> None:
    query = json.loads(case["filter_json"])
    assert hll.offset(query) == case["offset"]
    assert (hll.offset(query) is not None) is case["eligible"]
    assert hll.eligible(query) is case["mergeable"]


def keys_of(case: dict[str, Any]) -> list[str]:
    generator = case.get("keys_generator")
    if generator is None:
        return list(case["keys"])
    tag, n = generator["tag"], generator["n"]
    keys = [hashlib.sha256(f"{tag}:{i}".encode()).hexdigest() for i in range(n)]
    digest = hashlib.sha256("".join(keys).encode()).hexdigest()
    assert digest == generator["sha256_of_concatenated_hex"]
    return keys


def check_estimate(registers: bytes, case: dict[str, Any]) -> None:
    expected = case["estimate_ertl"]
    estimate = hll.estimate(registers)
    # Written with six decimals.
    assert estimate == (
        math.inf if expected is None else pytest.approx(expected, rel=1e-9, abs=1e-6)
    )


@pytest.mark.parametrize("case", cases("registers"))
def test_registers(case: dict[str, Any]) -> None:
    keys, offset = keys_of(case), case["offset"]
    one_by_one = bytearray(hll.M)
    for key in keys:
        hll.add(one_by_one, key, offset)
    registers = hll.from_raw(bytes.fromhex("".join(keys)), offset)
    assert hll.to_hex(registers) == case["hll"]
    assert registers == one_by_one == hll.from_pubkeys(keys, offset)
    check_estimate(registers, case)


def sketch(text: str) -> bytes:
    registers, _ = hll.from_hex(text)
    assert registers is not None
    return registers


@pytest.mark.parametrize("case", cases("merges"))
def test_merges(case: dict[str, Any]) -> None:
    # An input may hold registers above 57; clamping commutes with the maximum.
    merged = hll.merge(*(sketch(text) for text in case["inputs"]))
    assert merged == sketch(case["hll"])
    check_estimate(merged, case)


@pytest.mark.parametrize("case", cases("estimates"))
def test_estimates(case: dict[str, Any]) -> None:
    registers = sketch(case["hll"])
    check_estimate(registers, case)
    check_estimate(bytes.fromhex(case["hll"]), case)


@pytest.mark.parametrize("case", cases("wire"))
def test_wire(case: dict[str, Any]) -> None:
    expect = case["expect"]
    if "error" in expect:
        with pytest.raises(ProtocolError):
            parse_relay_message(case["message"])
        return
    message = parse_relay_message(case["message"])
    if "closed" in expect:
        assert isinstance(message, Closed)
        assert (reasons.prefix(message.message) or "other") == expect["closed"]
    elif "notice" in expect:
        assert isinstance(message, Notice)
        unsupported = expect["notice"].startswith(("unsupported", "as above"))
        assert reasons.means_count_unsupported(message.message) is unsupported
    else:
        assert isinstance(message, CountAnswer)
        check_answer(message, expect)


def check_answer(answer: CountAnswer, expect: dict[str, Any]) -> None:
    assert answer.count == expect["count"]
    assert answer.approximate is expect.get("approximate")
    assert answer.limited is expect.get("limited")
    assert (hll.to_hex(answer.hll) if answer.hll else None) == expect.get("hll")
    warning = expect.get("warn")
    if warning is None:
        assert not answer.warnings
    else:
        assert any(WARNINGS.get(warning, "") in w for w in answer.warnings)
