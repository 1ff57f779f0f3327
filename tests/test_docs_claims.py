"""What the documents and `--help` say is what the code does: targets, defaults, codes, names."""

from __future__ import annotations

import ast
import itertools
import re
from pathlib import Path
from runpy import run_path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

import nostr_client
from agent.api.schema import Problem
from agent.cli import cli as agent_cli
from nostr_client import hll
from nostr_client.cli import entry
from nostr_client.cli.app import COMMANDS, cli
from nostr_client.cli.count.command import NAMES, said
from nostr_client.cli.count.command import count as count_command
from nostr_client.cli.watch.series import number
from nostr_client.count import CANONICAL
from nostr_client.count.merge import Claim, ClaimStatus, Figure, merge_claims
from nostr_client.count.wallets import WalletStatus
from nostr_client.options import ReadBudget, Timeouts
from nostr_client.watch import Point
from scripts import sdk_reference
from tui.cli import cli as tui_cli

if TYPE_CHECKING:
    import click

ROOT = Path(__file__).parents[1]
HOW_TO_COUNT = (ROOT / "docs/how-to/count.md").read_text("utf-8")
DOCUMENTS = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]


def shown(*args: str) -> str:
    done = CliRunner().invoke(cli, [*args, "--help"], prog_name="nostr-client")
    assert done.exit_code == 0, done.output
    return " ".join(done.output.split())


def first_column(title: str) -> set[str]:
    """The first cells of the table whose header line begins with `title`."""
    table = HOW_TO_COUNT.split(f"| {title} |", 1)[1].split("\n\n", 1)[0]
    return {cell.strip("` ") for cell in re.findall(r"^\| ([^|]+) \|", table, re.MULTILINE)} - {""}


def test_every_make_target_that_is_named_exists() -> None:
    made = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    assert made >= {"demo", "test", "test-long", "check", "bench", "docs", "lock"}
    named = {
        target
        for path in DOCUMENTS
        for target in re.findall(
            r"(?:`|^)make ([a-z][a-z-]*)", path.read_text("utf-8"), re.MULTILINE
        )
    }
    assert {"demo", "test"} <= named <= made


def test_every_test_and_bench_that_is_named_exists() -> None:
    named = {
        path
        for document in DOCUMENTS
        for path in re.findall(
            r"`((?:tests|bench)/[\w/]+\.py)(?:::\w+)?`", document.read_text("utf-8")
        )
    }
    assert len(named) > 10
    assert not [path for path in sorted(named) if not (ROOT / path).is_file()]


def threats() -> list[list[str]]:
    """The rows of the table of threats: where from, threat, defence, tests."""
    table = (ROOT / "docs/security.md").read_text("utf-8").split("| from |", 1)[1]
    lines = table.split("\n\n", 1)[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in lines]


def names_in(path: str) -> set[str]:
    """The names of the test functions of a file, without running it."""
    tree = ast.parse((ROOT / path).read_text("utf-8"))
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    return {node.name for node in tree.body if isinstance(node, functions)}


@pytest.mark.parametrize("row", threats(), ids=lambda row: row[1])
def test_every_threat_names_tests_that_exist(row: list[str]) -> None:
    _, threat, defence, named = row
    assert threat
    assert defence
    tests = re.findall(r"`([^`]+)`", named)
    assert tests
    assert named == ", ".join(f"`{one}`" for one in tests)
    for path, _, name in (one.partition("::") for one in tests):
        assert name.startswith("test_")
        assert name in names_in(path), f"{path} has no {name}"


def test_rows_of_one_origin_stand_together_and_each_threat_once() -> None:
    rows = threats()
    origins = [origin for origin, _ in itertools.groupby(row[0] for row in rows)]
    assert len(origins) == len(set(origins)) > 5
    assert len(rows) == len({(row[0], row[1]) for row in rows})


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_shows_its_help(name: str) -> None:
    assert f"Usage: nostr-client {name}" in shown(name)
    assert COMMANDS[name].help in shown()


@pytest.mark.parametrize("name", ["cli.md", "http.md", "metrics.md", "sdk.md", "sql.md", "tui.md"])
def test_the_reference_is_what_the_code_makes(name: str) -> None:
    made = run_path(str(ROOT / "scripts/reference.py"))["pages"]()[name]
    assert (ROOT / "docs/reference" / name).read_text("utf-8") == made, "run `make reference`"


def test_every_metric_that_is_named_exists() -> None:
    code = "".join(path.read_text("utf-8") for path in (ROOT / "agent").rglob("*.py"))
    named = {
        name
        for path in DOCUMENTS
        for name in re.findall(r"`nostr_agent_(\w+)", path.read_text("utf-8"))
    }
    assert named
    for name in named:
        if name.endswith("_"):  # a whole family
            assert name in code, name
            continue
        last = name.removeprefix("counter_link_")
        assert f'"{name}"' in code or f'"{last}"' in code or f'nostr_agent_{name}"' in code, name


OF_ENTRY = {
    str(getattr(entry, name))
    for name in ("OK", "FAILURE", "USAGE", "NO_RELAY", "TIMEOUT", "INTERRUPTED")
}
"""The exit codes of every command of `nostr-client` and `nostr-agent`."""


def test_exit_codes() -> None:
    assert first_column("code") - {"---"} == OF_ENTRY
    table = (ROOT / "docs/reference/cli.md").read_text("utf-8").split("| Exit code |", 1)[1]
    rows = set(re.findall(r"^\| (\d+) \|", table.split("\n\n", 1)[0], re.MULTILINE))
    assert rows == OF_ENTRY | {"143"}
    assert codes_in(cli) == codes_in(agent_cli) == OF_ENTRY
    assert codes_in(tui_cli) <= rows


def codes_in(program: click.Command) -> set[str]:
    """The exit codes that a program's help names."""
    _, named, codes = " ".join((program.help or "").split()).partition("Exit codes: ")
    assert named
    return set(re.findall(r"(?:^|, |\()(\d+) [a-z]", codes))
    assert all(re.search(rf"\b{code} ", shown()) for code in codes)
    return None


def test_every_form_of_the_line() -> None:
    figures = (
        Figure.exactly(1204),
        Figure(value=1204, low=1090, high=1330),
        Figure(value=1204, low=1204, high=1204),
        Figure.at_least(1204),
        Figure.at_least(1204, 0),
        Figure.at_least(1204, 1090),
    )
    as_said = (
        Figure.exactly(717, as_said=True),
        Figure(value=717, low=400, high=717, as_said=True),
        Figure(value=1204, low=0, high=None, as_said=True),
        Figure(value=1204, low=1, high=None, as_said=True),
        Figure(value=1204, low=1090, high=1330, as_said=True),
    )
    named = {*map(said, as_said)}
    assert first_column("the line says") - {"---"} == {*map(said, figures), *named, "not known"}
    for one in (*figures, *as_said):
        point = Point(
            at=0,
            value=one.value,
            low=one.low,
            high=one.high,
            exact=one.exact,
            as_said=one.as_said,
        )
        assert number(point) == said(one)


@pytest.mark.parametrize(
    ("count", "people", "authors", "events"),
    [
        (2, 2, "about 2 (1 to 3)", "2, as relays say, at least 1"),
        (0, 0, "0 (exact)", "0 (exact)"),
    ],
)
def test_what_one_relay_says_of_few(count: int, people: int, authors: str, events: str) -> None:
    """The examples of the page, of a relay that calls its count exact."""
    registers = hll.from_pubkeys([f"{n:02x}" * 32 for n in range(1, people + 1)], 8)
    claim = Claim(
        relay="wss://one.example/",
        status=ClaimStatus.OK,
        count=count,
        approximate=False,
        registers=registers,
    )
    merged = merge_claims([claim], one_per_author=False)
    assert merged.authors is not None
    assert merged.events is not None
    assert (said(merged.authors), said(merged.events)) == (authors, events)
    page = " ".join(HOW_TO_COUNT.split())
    assert f"`{authors}` people and" in page
    assert f"`{events}`" in page


def test_statuses() -> None:
    assert first_column("status") - {"---"} == {str(status) for status in ClaimStatus}
    assert first_column("wallet's status") - {"---"} == {str(status) for status in WalletStatus}


def test_names_of_queries() -> None:
    assert set(NAMES) == set(CANONICAL)
    assert all(name in shown("count") for name in NAMES)


def test_defaults() -> None:
    budget, wait = ReadBudget(), Timeouts().group
    defaults = {one.name: one.default for one in count_command.params}
    assert defaults["max_bytes"] == budget.bytes
    assert defaults["max_events"] == budget.events
    assert defaults["timeout"] == wait
    assert f"{budget.bytes:,} bytes) and {budget.events:,} events" in HOW_TO_COUNT
    assert f"`--timeout` ({wait:g} seconds by default)" in HOW_TO_COUNT


def test_the_form_of_refusals() -> None:
    page = (ROOT / "docs/reference/http.md").read_text("utf-8")
    names = " and a ".join(f"`{name}`" for name in Problem.__struct_fields__)
    assert f"the answer is an object with a {names}." in " ".join(page.split())


def test_the_reference_of_the_sdk_has_every_public_name() -> None:
    assert set(nostr_client.__all__) - {"__version__"} <= sdk_reference.listed()


def test_the_reference_of_the_sdk_shows_plain_types() -> None:
    page = sdk_reference.page("")
    bounds = re.findall(r"Annotated\[|Optional\[|\btyping\.|\b_[A-Z]\w+|Meta\(", page)
    assert not bounds, "types without bounds and modules"
    assert "PublishResult(status: PublishStatus," in page, "a whole name, also after its module"


def test_the_reference_of_the_sdk_shows_each_field_once() -> None:
    for part in sdk_reference.page("").split("\n### ")[1:]:
        fields = re.findall(r"^\| `(\w+)` \|", part, re.MULTILINE)
        assert len(fields) == len(set(fields)), part.splitlines()[0]


def test_the_reference_of_the_sdk_shows_the_description_of_a_field() -> None:
    page = sdk_reference.page("")
    assert "| `interval` | `str` | `'30m'` | Time between two requests to a relay," in page
