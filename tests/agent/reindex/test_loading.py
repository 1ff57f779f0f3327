"""A few targets of a rebuild's tables in a file of their own: exact, dated, and no live index."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from agent.cli import cli
from agent.reindex import loading, reference, rows
from agent.reindex.inputs import Settings
from agent.reindex.tables import COLUMNS
from nostr_client.errors import InvalidInput, StoreCorrupt, StoreError
from nostr_client.nip19 import Note, PublicKey
from nostr_client.store.index_read import check_built
from tests.agent.reindex.nasty import HOT, NOTE, NOW, URLS, fill, nasty, opened
from tests.worlds import TARGET, follow

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from nostr_client.event import Event

SETTINGS = Settings(now=NOW, urls=URLS, hot=HOT)
ADDRESS = f"30023:{'0a' * 32}:d"


class Rows:
    """Events, to be read as often as an engine likes."""

    def __init__(self, events: Sequence[Event]) -> None:
        self._events = events

    def __call__(self) -> Any:
        return map(rows.row_of, self._events)


@pytest.fixture
def counted() -> reference.Accumulator:
    return reference.from_archive(Rows(nasty()), SETTINGS)


def write(folder: Path, counted: reference.Accumulator, **changed: Any) -> Path:
    """The tables as a cluster leaves them, some of them with other rows."""
    found = {
        name: [dict(zip(COLUMNS[name], row, strict=True)) for row in counted.rows(name)]
        for name in loading.LOADED
    }
    found["about"] = [{"as_of": NOW, "hot": HOT}]
    for name, values in (found | changed).items():
        place = folder / "tables" / name
        place.mkdir(parents=True)
        schema = pa.Table.from_pylist(found[name]).schema
        for part, half in enumerate((values[::2], values[1::2])):
            pq.write_table(pa.Table.from_pylist(half, schema), place / f"part-{part}.parquet")
        (place / "_SUCCESS").touch()
    return folder


def hot_values(counted: reference.Accumulator) -> list[str]:
    return sorted({row[2] for row in counted.rows("hot")})


@pytest.mark.parametrize("url", ["{}", "{}/", "file:{}", "file://{}/"])
def test_targets_are_loaded_with_all_that_is_known_of_them(
    tmp_path: Path, counted: reference.Accumulator, url: str
) -> None:
    """Also by the URLs that Hadoop takes, in which %20 is no blank."""
    folder, values = write(tmp_path / "out %20", counted), hot_values(counted)
    chosen = [NOTE, values[0], "no such target"]
    done = loading.load(url.format(folder), chosen, tmp_path / "some.db")
    whole = {row[1:4]: row for row in counted.rows("hot") if row[2] in chosen}
    assert done["hot"] == len(whole) > 1
    about, found = loading.ask(tmp_path / "some.db")
    assert about == (NOW, HOT)
    people = list(counted.rows("hot_author"))
    for one in found:
        t, *_, events, authors, registers = whole[tuple(one.target)]
        assert (one.events, one.authors, one.registers) == (events, authors, registers)
        named = [(key.hex(), n) for of, key, n in people if of == t]
        assert sorted(loading.authors(tmp_path / "some.db", one.target)) == sorted(named)
    zaps = {row[:2]: row[2:] for row in counted.rows("zap")}
    assert {(o.receipts, o.msats) for o in found if o.target.value == NOTE} == {
        zaps.get((o.target.name, NOTE), (0, 0)) for o in found if o.target.value == NOTE
    }
    assert [one.target.value for one in loading.ask(tmp_path / "some.db", [NOTE])[1]] == [
        one.target.value for one in found if one.target.value == NOTE
    ]


def test_a_loaded_file_is_never_taken_for_the_index_of_a_store(
    tmp_path: Path, counted: reference.Accumulator
) -> None:
    loading.load(str(write(tmp_path / "out", counted)), [NOTE], tmp_path / "some.db")
    with pytest.raises(StoreError, match="other numbers"):
        check_built(tmp_path / "some.db")


@pytest.mark.parametrize("table", [*loading.LOADED, "about"])
def test_tables_that_are_not_whole_are_refused(
    tmp_path: Path, counted: reference.Accumulator, table: str
) -> None:
    folder = write(tmp_path / "out", counted)
    (folder / "tables" / table / "_SUCCESS").unlink()
    with pytest.raises(InvalidInput, match=f"no finished table {table}"):
        loading.load(str(folder), [NOTE], tmp_path / "some.db")
    shutil.rmtree(folder / "tables" / table)
    with pytest.raises(InvalidInput, match=f"no finished table {table}"):
        loading.load(str(folder), [NOTE], tmp_path / "some.db")
    assert not list(tmp_path.glob("some*"))


def test_tables_that_do_not_fit_each_other_are_refused(
    tmp_path: Path, counted: reference.Accumulator
) -> None:
    authors = [dict(zip(COLUMNS["hot_author"], r, strict=True)) for r in counted.rows("hot_author")]
    hot = [dict(zip(COLUMNS["hot"], row, strict=True)) for row in counted.rows("hot")]
    less = [{**row, "registers": bytes(256)} for row in hot]
    mixed: dict[str, dict[str, Any]] = {
        "fewer": {"hot_author": [row for at, row in enumerate(authors) if at % 3]},
        "registers": {"hot": less},
        "rewritten": {"about": []},
    }
    for name, changed in mixed.items():
        folder = write(tmp_path / name, counted, **changed)
        with pytest.raises(StoreCorrupt):
            loading.load(str(folder), hot_values(counted), tmp_path / "some.db")
    assert not list(tmp_path.glob("some*"))


@pytest.fixture
async def following(tmp_path: Path) -> Event:
    """The list of follows in a store, of somebody who follows TARGET."""
    async with await opened(tmp_path / "store.db") as held:
        await fill(held, [follow(3)])
    return follow(3)


def test_the_command_loads_whom_somebody_follows(tmp_path: Path, following: Event) -> None:
    all_of_it = Rows([*nasty(), *map(follow, range(6))])
    counted = reference.from_archive(all_of_it, SETTINGS)
    folder, store = write(tmp_path / "out", counted), tmp_path / "store.db"
    file = tmp_path / "some.db"
    command = ["tables", "load", str(folder), str(file), "--target", Note(NOTE).encode()]
    follows = ["--follows-of", PublicKey(following.pubkey).encode(), "--store", str(store)]
    done = CliRunner().invoke(cli, [*command, *follows, "--json"])
    assert done.exit_code == 0, done.output
    shown = CliRunner().invoke(cli, ["tables", "show", str(file), "--json"])
    told = json.loads(shown.stdout)
    assert {one["value"] for one in told["targets"]} == {NOTE, TARGET}
    assert json.loads(done.stdout)["rows"]["hot"] == len(told["targets"])
    assert told["as_of"] == NOW
    keys = CliRunner().invoke(cli, ["tables", "show", str(file), NOTE, "--authors"])
    assert len(keys.stdout.splitlines()) == sum(
        one["authors"] for one in told["targets"] if one["value"] == NOTE
    )
    assert f"fewer than {HOT} events" in keys.stderr


def test_what_cannot_be_loaded_or_asked_is_said(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no tables", "utf-8")
    with closing(sqlite3.connect(tmp_path / "other.db")) as conn, conn:
        conn.execute("CREATE TABLE about (key, value)")
    there = str(tmp_path / "text")
    for arguments, told in (
        (["load", str(tmp_path), str(tmp_path / "a.db")], "--target"),
        (["load", str(tmp_path / "no"), str(tmp_path / "a.db"), "--target", NOTE], "no finished"),
        (["load", "odd://x/y", str(tmp_path / "a.db"), "--target", NOTE], "odd"),
        (["load", str(tmp_path), there, "--target", NOTE], "is there"),
        (["load", str(tmp_path), str(tmp_path / "no/a.db"), "--target", NOTE], "is no folder"),
        (["load", str(tmp_path), str(tmp_path / "a.db"), "--target", "nonsense"], "bech32"),
        (["show", str(tmp_path / "no.db")], "not there"),
        (["show", there], "not a store"),
        (["show", str(tmp_path / "other.db")], "no tables of archives"),
    ):
        done = CliRunner().invoke(cli, ["tables", *arguments])
        assert done.exit_code, arguments
        assert told in f"{done.output}{done.exception}", (arguments, done.output, done.exception)
