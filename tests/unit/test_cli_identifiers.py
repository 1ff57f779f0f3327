"""`encode` and `decode` go there and back; `hll` by hand equals the module; times in filters."""

from __future__ import annotations

import gzip
import json
import re
import time
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from nostr_client import hll
from nostr_client.cli.app import cli, run
from nostr_client.codecs.keys import KeySigner
from nostr_client.errors import InvalidInput
from nostr_client.hll.overlap import OverlapIntervals
from nostr_client.sync.files.event_files import form_of, writer
from tests.unit.strategies import signed

if TYPE_CHECKING:
    from pathlib import Path

KEY, ID = "ab" * 32, "cd" * 32
RELAY = "wss://one.example"


def out(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> str:
    assert run(words) == code
    return capsys.readouterr().out.strip()


@pytest.mark.parametrize(
    ("words", "fields"),
    [
        (("npub", KEY), {"type": "npub", "pubkey": KEY}),
        (("note", ID), {"type": "note", "id": ID}),
        (("nprofile", KEY, "--hint", RELAY),
         {"type": "nprofile", "pubkey": KEY, "relays": [RELAY]}),
        (("nevent", ID, "--hint-author", KEY, "--hint-kind", "7", "--hint", RELAY),
         {"type": "nevent", "id": ID, "relays": [RELAY], "author": KEY, "kind": 7}),
        (("nevent", ID), {"type": "nevent", "id": ID, "relays": [], "author": None, "kind": None}),
        (("naddr", f"30023:{KEY}:a:b", "--hint", RELAY),
         {"type": "naddr", "kind": 30023, "pubkey": KEY, "identifier": "a:b", "relays": [RELAY],
          "address": f"30023:{KEY}:a:b"}),
    ],
)  # fmt: skip
def test_there_and_back(
    words: tuple[str, ...], fields: dict[str, object], capsys: pytest.CaptureFixture[str]
) -> None:
    text = out(capsys, "encode", *words)
    assert text.startswith(f"{words[0]}1")
    assert json.loads(out(capsys, "decode", text)) == fields
    assert json.loads(out(capsys, "decode", f"nostr:{text}")) == fields
    assert json.loads(out(capsys, "decode", f"https://njump.me/{text}")) == fields


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("nprofile", KEY, "--hint", "http://x.example"), "http://x.example"),
        (("nevent", ID, "--hint", "x"), "x"),
        (("naddr", f"30023:{KEY}:a", "--hint", "https://x.example"), "https://x.example"),
        (("naddr", f"1:{KEY}:"), "kind 1 have no address"),
        (("naddr", f"20001:{KEY}:a"), "kind 20001 have no address"),
    ],
)
def test_what_no_client_could_follow_is_refused(
    words: tuple[str, ...], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(("encode", *words)) == 2
    said = capsys.readouterr()
    assert not said.out
    assert why in said.err


def test_forms_are_turned_into_each_other(capsys: pytest.CaptureFixture[str]) -> None:
    npub = out(capsys, "encode", "npub", KEY)
    assert out(capsys, "encode", "npub", out(capsys, "encode", "nprofile", npub)) == npub
    assert json.loads(out(capsys, "decode", KEY)) == {"type": "hex", "value": KEY}


def test_a_secret_key_is_never_printed(capsys: pytest.CaptureFixture[str]) -> None:
    secret = KeySigner(bytes([7]) * 32).nsec()
    for words in (["decode", secret], ["encode", "npub", secret], ["encode", "note", secret]):
        assert run(words) == 2
        said = capsys.readouterr()
        assert not said.out
        assert secret[5:] not in said.err
        assert "07" * 32 not in said.err


def test_hll_by_hand(capsys: pytest.CaptureFixture[str], tmp_path_factory: object) -> None:
    filter = json.dumps({"kinds": [3], "#p": [KEY]})
    offset = out(capsys, "hll", "offset", filter)
    assert int(offset) == hll.offset({"#p": [KEY]})
    events = [signed(seed).event for seed in range(40)]
    lines = "\n".join(event.to_json() for event in events)
    wanted = [
        hll.from_pubkeys([event.pubkey for event in part], int(offset))
        for part in (events[:30], events[10:])
    ]
    texts = []
    for part in (events[:30], events[10:]):
        lines = "\n".join(event.to_json() for event in part)
        done = CliRunner().invoke(cli, ["hll", "from-events", offset], input=lines + "\n\n")
        assert done.exit_code == 0
        texts.append(done.output.strip())
    assert texts == [hll.to_hex(one) for one in wanted]
    union = hll.merge(*wanted)
    assert out(capsys, "hll", "merge", *texts) == hll.to_hex(union)
    piped = CliRunner().invoke(cli, ["hll", "merge"], input="\n".join(texts))
    assert piped.output.strip() == hll.to_hex(union)
    found = json.loads(out(capsys, "hll", "estimate", hll.to_hex(union), "--json"))
    low, high = hll.interval(hll.estimate(union))
    assert found == {"estimate": hll.estimate(union), "low": low, "high": high}
    shared = json.loads(out(capsys, "hll", "overlap", *texts, "--json"))
    intervals = shared.pop("intervals")
    assert shared == hll.overlap(*wanted)._asdict()
    assert shared["union"] == found["estimate"]
    assert intervals["union"] == {"low": low, "high": high}
    assert list(intervals) == list(OverlapIntervals._fields)
    shown = out(capsys, "hll", "overlap", *texts)
    assert f"union: {out(capsys, 'hll', 'estimate', hll.to_hex(union)).strip()}\n" in shown
    assert all(re.search(r"\([\d.,]+ to [\d.,]+\)$", line) for line in shown.splitlines())


def test_hll_from_events_reads_what_an_import_reads(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    events = [signed(seed).event for seed in range(40)]
    wanted = hll.to_hex(hll.from_pubkeys([event.pubkey for event in events], 8))
    for name in ("a.jsonl", "a.jsonl.gz", "a.jsonl.zst", "a.parquet"):
        with writer(tmp_path / name, form_of(name, None)) as write:
            for event in events:
                write(event)
        assert out(capsys, "hll", "from-events", "8", str(tmp_path / name)).strip() == wanted
    array = tmp_path / "array.json"
    array.write_text(f"[{','.join(event.to_json() for event in events)}]")
    assert out(capsys, "hll", "from-events", "8", str(array)).strip() == wanted


def test_hll_refuses_what_are_no_registers(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["hll", "estimate", "ab"]) == 2
    assert run(["hll", "offset", '{"kinds":[1]}']) == 2
    full = "39" * 256
    assert json.loads(out(capsys, "hll", "estimate", full, "--json"))["estimate"] is None
    assert "at least" in out(capsys, "hll", "estimate", full)
    broken = CliRunner().invoke(cli, ["hll", "from-events", "8"], input="no event\n")
    assert broken.exit_code == 1


def test_hll_from_a_damaged_file_keeps_nothing(tmp_path: Path) -> None:
    packed = tmp_path / "e.gz"
    packed.write_bytes(gzip.compress(signed(1).event.to_json().encode())[:-8])
    done = CliRunner().invoke(cli, ["hll", "from-events", "8", str(packed)])
    assert isinstance(done.exception, InvalidInput)
    assert "damaged" in str(done.exception)
    assert "kept" not in str(done.exception)


@pytest.mark.parametrize("registers", ["ab", "zz" * 256, "ff" * 256])
def test_hll_names_itself_once(registers: str) -> None:
    assert "hll: hll:" not in CliRunner().invoke(cli, ["hll", "estimate", registers]).output


def test_hll_overlap_with_a_saturated_sketch_has_no_infinite_number() -> None:
    few = hll.to_hex(hll.from_pubkeys([bytes([n]) * 32 for n in range(9)], 8))
    one = CliRunner().invoke(cli, ["hll", "overlap", "39" * 256, few])
    assert "is unknown: one sketch is saturated" in one.output
    assert re.search(r"^intersection: 0 \(0 to \d+\)$", one.output, re.MULTILINE)
    assert re.search(r"^only a: more than registers can count, at least", one.output, re.MULTILINE)
    both = CliRunner().invoke(cli, ["hll", "overlap", "39" * 256, "39" * 256])
    assert "intersection: any number\n" in both.output
    assert not re.search(r"\b(inf|nan)\b", one.output + both.output)


def test_a_time_in_a_filter(tmp_path_factory: pytest.TempPathFactory) -> None:
    from nostr_client.cli.store.commands import store

    context = store.get_command(None, "query").make_context(
        "query", ["--since", "2 weeks ago", "--until", "2026-01-31"]
    )
    assert abs(context.params["since"] - (time.time() - 14 * 86_400)) < 600
    assert context.params["until"] == 1_769_817_600
    assert run(["store", "query", "--since", "soon"]) == 2
