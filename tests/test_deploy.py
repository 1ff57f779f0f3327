"""What is in `deploy/` and the Dockerfile is checked by the programs that read it."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
import urllib.parse
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

import aiohttp
import pytest
import yaml

from agent.alerts.conditions import (
    Condition,
    parse_condition,
    parse_digest_time,
    parse_shortfall,
)
from agent.cli import run as run_agent
from agent.config import load
from tests.agent.service.kit import an_agent
from tests.commands import named_in
from tests.conftest import missing, require_tool
from tests.faulty_relay import FaultyRelay
from tests.nats_cluster import free_ports
from tests.worlds import TARGET, follow

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

ROOT = Path(__file__).parents[1]
DEPLOY = ROOT / "deploy"
BOARD = json.loads((DEPLOY / "grafana/nostr-tally.json").read_text("utf-8"))
ALERTS = yaml.safe_load((DEPLOY / "alerts.yml").read_text("utf-8"))
RULES = [rule for group in ALERTS["groups"] for rule in group["rules"]]
OPERATIONS = (ROOT / "docs/operations.md").read_text("utf-8")
METRICS = (ROOT / "docs/reference/metrics.md").read_text("utf-8")
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text("utf-8"))


def expressions() -> list[str]:
    """Every PromQL text of the board and the alerts, with the board's variable filled in."""
    of_board = [
        target["expr"].replace("$watch", ".*")
        for panel in BOARD["panels"]
        for target in panel.get("targets", ())
    ]
    of_alerts = [rule["expr"] for rule in RULES]
    assert of_board
    assert of_alerts
    return of_board + of_alerts


def told_by(*command: str | Path, cwd: Path = ROOT, given: str | None = None) -> str:
    done = subprocess.run(
        command, cwd=cwd, input=given, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_promtool_finds_nothing_wrong_and_alerts_fire_where_they_should() -> None:
    promtool = require_tool("promtool")
    told_by(promtool, "check", "config", "prometheus.yml", cwd=DEPLOY)
    told_by(promtool, "check", "rules", "alerts.yml", cwd=DEPLOY)
    told_by(promtool, "test", "rules", "alerts.test.yml", cwd=DEPLOY)


def numbers_in(expression: str) -> set[str]:
    return set(re.findall(r"\b(?:nostr_agent_\w+|up)\b", expression))


def test_operations_has_every_rule_with_its_numbers() -> None:
    rows = re.findall(r"^\| `(Nostr\w+)` \| ([^|]+) \|", OPERATIONS, re.MULTILINE)
    written = {rule: set(re.findall(r"`(\w+)`", numbers)) for rule, numbers in rows}
    assert len(rows) == len(written)
    assert written == {rule["alert"]: numbers_in(rule["expr"]) for rule in RULES}


def test_every_rule_fires_in_its_test() -> None:
    """`alerts.test.yml` has, beside the case in which a rule fires, one in which it does not."""
    (group,) = yaml.safe_load((DEPLOY / "alerts.test.yml").read_text("utf-8"))["tests"]
    fires = {one["alertname"] for one in group["alert_rule_test"] if one["exp_alerts"]}
    assert fires == {rule["alert"] for rule in RULES}
    series: dict[str, int] = {}
    for one in group["input_series"]:
        (name,) = numbers_in(one["series"])
        series[name] = series.get(name, 0) + 1
    assert {name for name, number in series.items() if number > 1} == set(series)
    assert set(series) == {name for rule in RULES for name in numbers_in(rule["expr"])}


FAULTS = re.compile(
    r"fail|g[ai]ves? up|dropped|lack|refuse|error|slow|left out|missed|ignored|not compare|_last_"
)
"""Words of a metric that counts what should not be."""

NO_ALERTS = {
    "nostr_agent_relay_faults_total": "relays of others; `nostr-client relay list` shows each",
    "nostr_agent_streams_cut_total": "the client connects again and gets what it missed",
    "nostr_agent_log_lines_left_out_total": "the log is bounded on purpose",
    "nostr_agent_counter_link_left_out": "the source sends what it must not",
    "nostr_agent_coverage_relays_not_compared": "alerts of the coverage itself",
}
"""Such metrics without a rule, and why."""


def test_each_metric_of_a_fault_has_a_rule_or_a_reason() -> None:
    rows = re.findall(r"^\| `(nostr_agent_\w+)` \| \w+ \| (.+) \|$", METRICS, re.MULTILINE)
    faults = {name for name, text in rows if FAULTS.search(f"{name} {text}".lower())}
    ruled = {name for rule in RULES for name in numbers_in(rule["expr"])}
    assert ruled - {"up"} <= {name for name, _ in rows}
    assert faults - ruled == set(NO_ALERTS)


def test_operations_has_each_condition_of_the_agents_own_alerts() -> None:
    _, _, own = OPERATIONS.partition("The agent itself sends three kinds of alerts")
    watch, coverage, digest = (
        re.findall("`([^`]+)`", line) for line in re.findall(r"^- (.+)$", own, re.MULTILINE)[:3]
    )
    kinds = {parse_condition(text).kind for text in watch}
    assert kinds == set(get_args(get_type_hints(Condition)["kind"]))
    assert [parse_shortfall(text).relays for text in coverage] == [3]
    assert [parse_digest_time(text).every for text in digest] == [86_400, 43_200]


def test_hadolint_finds_nothing_wrong() -> None:
    hadolint = Path(sys.executable).with_name("hadolint")
    if not hadolint.exists():
        missing("hadolint")
    told_by(hadolint, "Dockerfile")


def test_the_board_is_one_that_grafana_takes() -> None:
    panels = BOARD["panels"]
    numbers = [panel["id"] for panel in panels]
    assert len(numbers) == len(set(numbers))
    assert {p["type"] for p in panels} <= {"row", "timeseries", "stat"}
    sources = {t["datasource"]["uid"] for p in panels for t in p.get("targets", ())}
    (source,) = yaml.safe_load(
        (DEPLOY / "grafana/provisioning/datasources/prometheus.yaml").read_text("utf-8")
    )["datasources"]
    assert sources == {source["uid"]}
    places = [p["gridPos"] for p in panels]
    cells = [(x, y) for p in places for x in range(p["x"], p["x"] + p["w"])
             for y in range(p["y"], p["y"] + p["h"])]  # fmt: skip
    assert len(cells) == len(set(cells)), "panels lie on each other"
    assert max(x for x, _ in cells) < 24


def test_compose_listens_on_loopback_alone_and_mounts_what_is_there() -> None:
    for name, service in COMPOSE["services"].items():
        assert service["network_mode"] == "host", name
        assert "ports" not in service
        for volume in service["volumes"]:
            source = volume.partition(":")[0]
            assert (DEPLOY / source).exists() if source[0] == "." else source in COMPOSE["volumes"]
    agent = COMPOSE["services"]["agent"]["environment"]
    config = load(None, environ=agent)
    assert config.relay.enabled
    assert config.api.open_metrics
    addresses = [config.relay.listen, config.api.listen]
    addresses.append(COMPOSE["services"]["grafana"]["environment"]["GF_SERVER_HTTP_ADDR"])
    prometheus = COMPOSE["services"]["prometheus"]["command"]
    addresses += [one.partition("=")[2] for one in prometheus if "listen-address" in one]
    assert len(addresses) == 4
    assert all(address.startswith("127.0.0.1") for address in addresses)
    (scraped,) = yaml.safe_load((DEPLOY / "prometheus.yml").read_text("utf-8"))["scrape_configs"]
    assert scraped["static_configs"] == [{"targets": [config.api.listen]}]


@pytest.mark.parametrize(
    ("kind", "program", "options"),
    [
        ("system", "/usr/local/bin/nostr-agent", ["--system"]),
        ("user", "%h/.local/bin/nostr-agent", []),
    ],
)
def test_a_unit_is_what_install_service_prints(
    kind: str, program: str, options: list[str],
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path,
) -> None:  # fmt: skip
    """With the program at another place; systemd finds no fault with it, run from here."""
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("NOSTR_AGENT_CONFIG", raising=False)
    assert run_agent(["install-service", "--print", *options]) == 0
    printed = capsys.readouterr().out
    text = (DEPLOY / "systemd" / kind / "nostr-agent.service").read_text("utf-8")
    start = re.compile(r"^ExecStart=.*$", re.MULTILINE)
    assert start.findall(text) == [f"ExecStart={program} run"]
    assert start.sub("", text) == start.sub("", printed)
    file = tmp_path / "nostr-agent.service"
    file.write_text(text.replace(program, "/bin/true"))
    (tmp_path / "run").mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "run"))
    mode = ["--user"] if kind == "user" else []
    told_by(require_tool("systemd-analyze"), "verify", *mode, file)


OURS = [
    path
    for place, ends in (
        (".github", ("yml",)),
        ("deploy", ("md", "yml", "yaml", "service")),
        ("nostr_client", ("py",)),
        ("agent", ("py",)),
        ("tui", ("py",)),
    )
    for end in ends
    for path in sorted((ROOT / place).rglob(f"*.{end}"))
]
"""Files that may write a command of ours in a sentence; `tests/docs` reads the documents."""


VERBS = ("", "takes")
"""Words after a program's name in a sentence about the program."""


def test_every_command_that_is_written_exists() -> None:
    assert named_in("as nostr-client relay info URL says") == {"nostr-client relay info": "info"}
    named = {
        (str(path), *one) for path in OURS for one in named_in(path.read_text("utf-8")).items()
    }
    assert any(".github" in path and "relay show" in command for path, command, _ in named)
    assert not [one for one in named if one[2] not in VERBS]


@asynccontextmanager
async def prometheus(folder: Path, target: str) -> AsyncIterator[str]:
    """The URL of a real Prometheus that scrapes an agent with our configuration, each second."""
    program = require_tool("prometheus")
    config = yaml.safe_load((DEPLOY / "prometheus.yml").read_text("utf-8"))
    config["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    config["rule_files"] = [str(DEPLOY / "alerts.yml")]
    config["scrape_configs"][0]["static_configs"] = [{"targets": [target]}]
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config), "utf-8")
    (port,) = free_ports(1)
    process = await asyncio.create_subprocess_exec(
        program, f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data",
        f"--web.listen-address=127.0.0.1:{port}",
        stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        await process.wait()


async def asked(session: aiohttp.ClientSession, url: str, expression: str) -> list[Any]:
    """The series of an expression; none while Prometheus is not there yet."""
    query = urllib.parse.urlencode({"query": expression})
    try:
        async with session.get(f"{url}/api/v1/query?{query}") as answer:
            found = await answer.json(content_type=None)
    except (aiohttp.ClientError, json.JSONDecodeError):
        await asyncio.sleep(0.1)
        return []
    if answer.status == 503:
        await asyncio.sleep(0.1)
        return []
    assert found["status"] == "success", f"{expression}: {found}"
    series: list[Any] = found["data"]["result"]
    return series


async def test_a_real_prometheus_scrapes_and_answers_every_question_of_the_board(
    tmp_path: Path,
) -> None:
    require_tool("prometheus")
    config = f'[[watches]]\nname = "w"\nquery = "followers"\ntarget = "{TARGET}"\n'
    async with (
        FaultyRelay(events=[follow(n) for n in range(3)]) as relay,
        an_agent(tmp_path, [relay.url], config, sections={"api": "open_metrics = true"}) as agent,
        prometheus(tmp_path, agent.service.api.url.removeprefix("http://")) as url,
        aiohttp.ClientSession() as session,
    ):
        while not (found := await asked(session, url, 'nostr_agent_watch_value{watch="w"}')):
            continue
        assert found[0]["value"][1] == "3"
        for expression in expressions():
            await asked(session, url, expression)
        said = await agent.client.metrics()
    told_by(require_tool("promtool"), "check", "metrics", given=said)
    known = set(re.findall(r"^# HELP (\w+) ", said, re.MULTILINE)) | {"up"}
    for expression in expressions():
        for name in re.findall(r"\b((?:nostr_agent|process)_\w+)", expression):
            plain = re.sub(r"_(bucket|count|sum)$", "", name)
            assert {name, plain} & known or plain.endswith("store_left_bytes"), name
