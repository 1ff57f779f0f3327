"""Write the pages of docs/reference/ that are generated from the code: `make reference`.

A test compares what is written with what is made.
"""

from __future__ import annotations

import asyncio
import json
import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.testing import CliRunner

from agent.api.document import document
from agent.cli import cli as agent_cli
from agent.config import parse
from agent.service.run import running
from nostr_client.cli.app import cli as client_cli
from nostr_client.codecs.private_kinds import LISTS, PRIVATE_KINDS
from nostr_client.store.sql.views import VIEWS
from scripts import sdk_reference
from tui.actions import ACTIONS
from tui.cli import cli as tui_cli

if TYPE_CHECKING:
    from collections.abc import Iterator

FOLDER = Path(__file__).parents[1] / "docs" / "reference"
MADE = "<!-- Made by `make reference`; a test compares. -->"
WIDTH = 100
PRIVATE = "\n".join(f"- {kind}: {name}" for kind, name in sorted(PRIVATE_KINDS.items()))
LIST_KINDS = ", ".join(map(str, sorted(LISTS)))

CLI_HEAD = f"""# The command line

{MADE}

Data goes to stdout, talk to stderr; `--json` where there is data. Exit codes: 0 ok, 1 failure,
2 wrong usage, 3 no relay answered (or no agent is running), 124 time-out. `nostr-client completion`
prints what completes commands and options in a shell.
"""

HTTP_HEAD = f"""# The HTTP API of the agent

{MADE}

On loopback, with `Authorization: Bearer TOKEN`. Each route names the least scope of a token that
may ask it: `source` reads the messages of streams, `read` reads everything and changes nothing,
`manage` does everything ([where the tokens are](../how-to/service.md#tokens)). What a token may not
do gets 403, `limited_token`; refusals are an object with a `code` and a `message`. The same as an
OpenAPI 3.1 document: `GET /v1/openapi.json`. In Python: `agent.api.client.AgentClient`.
"""


TUI_HEAD = f"""# The terminal application

{MADE}

One table feeds keys, footer, `?` and the palette: what has a key here is also a command after `:`.
Keys are Textual's names.
"""


METRICS_HEAD = f"""# Metrics

{MADE}

`GET /metrics` of the agent, for Prometheus, with the `read` token unless `api.open_metrics` is set.
Names that end in `_total` only grow. The gauges of watches have the label `watch`, for the first
1,000 watches by name; more are in the HTTP API. Beside these, `process_` and `python_info` are as
prometheus-client has them. Which numbers are worth an alert: [operations](../operations.md).
"""

SQL_HEAD = f"""# The views of the store

{MADE}

What `nostr-client store sql` asks, and what an exported SQLite file has as tables
([how](../how-to/sql.md)). Ids and keys are lower-case hex. Times are ISO 8601 in UTC, and Unix
seconds beside them where a column ends in `_ts`; a time after the year 9999 has seconds alone.
Expired events are in no view. Events of private kinds are in none unless their kinds are named:

{PRIVATE}

and, of NIP-51 lists ({LIST_KINDS}), those that have encrypted items, encrypted jobs
(NIP-90), and reposts of any of these.
"""

QUIET = """
[store]
path = "{0}/store.db"
[api]
listen = "127.0.0.1:0"
token_file = "{0}/token"
[relay]
enabled = false
[relays]
default = []
indexers = []
[service]
log = "error"
"""


def pages() -> dict[str, str]:
    """The text of every page by its file name."""
    return {
        "cli.md": _cli(),
        "http.md": _http(),
        "metrics.md": _metrics(),
        "sdk.md": sdk_reference.page(MADE),
        "sql.md": _sql(),
        "tui.md": _tui(),
    }


def _sql() -> str:
    parts = [SQL_HEAD]
    for view in VIEWS:
        rows = [_row(f"`{name}`", type_, about) for name, type_, about in view.columns]
        key = ", ".join(f"`{name}`" for name in view.key)
        head = f"## {view.name}\n\n{view.about} One row for each {key}."
        parts.append("\n".join([head, "", "| Column | Type | |", "|---|---|---|", *rows]) + "\n")
    return "\n".join(parts)


def _cli() -> str:
    parts = [CLI_HEAD]
    for name, group in (("nostr-client", client_cli), ("nostr-agent", agent_cli)):
        parts.append(f"## {name}\n\n{_shown(group, name, [])}")
        parts += [
            f"### {' '.join([name, *path])}\n\n{_shown(group, name, path)}"
            for path in _paths(group, [])
        ]
    return "\n".join(parts)


def _paths(group: click.Group, above: list[str]) -> Iterator[list[str]]:
    context = click.Context(group)
    for name in sorted(group.list_commands(context)):
        command = group.get_command(context, name)
        yield [*above, name]
        if isinstance(command, click.Group):
            yield from _paths(command, [*above, name])


def _shown(group: click.Group, program: str, path: list[str]) -> str:
    done = CliRunner().invoke(group, [*path, "--help"], prog_name=program, terminal_width=WIDTH)
    return f"```text\n{done.output.rstrip()}\n```\n"


def _tui() -> str:
    lines = [TUI_HEAD, _shown_alone(tui_cli, "nostr-tui"), "## Actions\n"]
    lines.append("| Keys | Where | Command | |\n|---|---|---|---|")
    for one in ACTIONS:
        keys = " ".join(f"`{key}`" for key in one.keys.split(","))
        command = f"`:{one.name} {one.usage}".strip() + "`"
        lines.append(
            f"| {keys} | {', '.join(one.pages) or 'everywhere'} | {command} | {one.help} |"
        )
    return "\n".join(lines) + "\n"


def _shown_alone(command: click.Command, program: str) -> str:
    done = CliRunner().invoke(command, ["--help"], prog_name=program, terminal_width=WIDTH)
    return f"```text\n{done.output.rstrip()}\n```\n"


def _metrics() -> str:
    text = asyncio.run(_metrics_of_an_agent())
    kinds = dict(re.findall(r"^# TYPE (\w+) (\w+)$", text, re.MULTILINE))
    lines = [METRICS_HEAD, "| Name | Kind | |", "|---|---|---|"]
    for name, help_ in re.findall(r"^# HELP (\w+) (.+)$", text, re.MULTILINE):
        if name.startswith("nostr_agent_") and not name.endswith("_created"):
            lines.append(_row(f"`{name}`", kinds[name], help_))
    labels = "`link`, `direction`, `via`"
    lines.append(
        f"\nThose of `nostr_agent_counter_link_` have the labels {labels}; `_state` also `state`."
    )
    return "\n".join(lines) + "\n"


async def _metrics_of_an_agent() -> str:
    with tempfile.TemporaryDirectory() as folder:
        async with running(parse(QUIET.format(Path(folder).as_posix())), publish=False) as service:
            return await service.backend.metrics()


def _http() -> str:
    made = document()
    lines = [
        HTTP_HEAD,
        "## Routes\n",
        "| Method | Path | Scope | | Body | Answer |",
        "|---|---|---|---|---|---|",
    ]
    for path, operations in made["paths"].items():
        for method, one in operations.items():
            lines.append(
                _row(
                    method.upper(),
                    f"`{_with_query(path, one)}`",
                    _scope(one, made["security"]),
                    one["summary"],
                    _type(one.get("requestBody", {})),
                    _type(_answer(one["responses"])),
                )
            )
    lines.append("\n## Types\n")
    for name, one in sorted(made["components"]["schemas"].items()):
        if "properties" in one:
            lines.append(_object(name, one))
    return "\n".join(lines)


def _with_query(path: str, operation: dict[str, Any]) -> str:
    named = [one["name"] for one in operation.get("parameters", []) if one["in"] == "query"]
    return path + (f"?{'&'.join(named)}" if named else "")


def _scope(operation: dict[str, Any], default: list[dict[str, list[str]]]) -> str:
    """The least scope of a token that an operation needs; "" where it needs no token."""
    return ", ".join(one for needs in operation.get("security", default) for one in needs["token"])


def _answer(responses: dict[str, Any]) -> dict[str, Any]:
    return next((one for code, one in responses.items() if code.startswith("2")), {})


def _type(holder: dict[str, Any]) -> str:
    for content in holder.get("content", {}).values():
        return _of(content.get("schema", {}))
    return ""


def _object(name: str, schema: dict[str, Any]) -> str:
    needed = schema.get("required", [])
    rows = [
        _row(f"`{field}`", _of(one), "" if field in needed else _default(one))
        for field, one in schema["properties"].items()
    ]
    text = schema.get("description", "").split("\n\n")[0].replace("\n", " ")
    head = f"### {name}\n\n{text}\n" if text else f"### {name}\n"
    return "\n".join([head, "| Field | Type | Default |", "|---|---|---|", *rows, ""])


def _of(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        name = schema["$ref"].rsplit("/", 1)[-1]
        return f"[{name}](#{name.lower()})" if _has_fields(name) else name
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(_of(one) for one in schema["anyOf"]))
    if schema.get("type") == "array":
        return f"array of {_of(schema.get('items') or {})}"
    return str(schema.get("type", "any"))


def _has_fields(name: str) -> bool:
    return "properties" in document()["components"]["schemas"][name]


def _default(schema: dict[str, Any]) -> str:
    return f"`{json.dumps(schema['default'])}`" if "default" in schema else ""


def _row(*cells: str) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


if __name__ == "__main__":
    for file, text in pages().items():
        (FOLDER / file).write_text(text, "utf-8")
