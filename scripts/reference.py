"""Write the pages of docs/reference/ that are generated from the code: `make reference`.

A test compares what is written with what is made.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import re
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec
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
    from collections.abc import Iterator, Sequence

FOLDER = Path(__file__).parents[1] / "docs" / "reference"
MADE = "<!-- Made by `make reference`; a test compares. -->"
WIDTH = 100
PRIVATE = "\n".join(f"- {kind}: {name}" for kind, name in sorted(PRIVATE_KINDS.items()))
LIST_KINDS = ", ".join(map(str, sorted(LISTS)))

CLI_HEAD = f"""# The command line

{MADE}

This page shows the help of every command. A command writes its data to stdout and its messages
to stderr. If a command has data, `--json` writes the data as JSON. `nostr-client completion` prints
the completion script of a shell.

| Exit code | Meaning |
|---|---|
| 0 | The command succeeded. |
| 1 | The command failed, or the program that reads its output ended first, as `head` does. In the \
second case the command prints no reason. |
| 2 | The usage or the input is wrong. |
| 3 | No relay answered, or no agent is running. |
| 124 | The command timed out. |
| 130 | Ctrl-C interrupted the command; with `demo`, `reindex` and `archive` also SIGTERM. |
| 143 | SIGTERM ended the command. |

If you stop a service with Ctrl-C or SIGTERM, the exit code is 0. These commands are services:
`nostr-agent run`, `nostr-agent relay` and `nostr-tui --serve`.
"""

HTTP_HEAD = f"""# The HTTP API of the agent

{MADE}

The agent serves this API on loopback. Send the token as `Authorization: Bearer TOKEN`.
[How to run the agent](../how-to/service.md#tokens) says where the tokens are. Each token
has a scope:

- `source` allows a program to read the messages of streams.
- `read` allows a program to read everything and to change nothing.
- `manage` allows everything.

The table names the smallest scope that each route needs. If the scope of a token is too small, the
answer is 403 with the code `limited_token`. If the agent refuses a request, the answer is an object
with a `code` and a `message`.

Times are Unix seconds unless a text says otherwise. `GET /v1/openapi.json` returns the same API as
an OpenAPI 3.1 document. In Python, use `agent.api.client.AgentClient`.
"""


TUI_HEAD = f"""# The terminal application

{MADE}

This page lists the keys of `nostr-tui`. Each action with a key is also a command after `:`. The
footer, the help (`?`) and the palette show the same actions. Keys have the names that Textual uses.
"""


METRICS_HEAD = f"""# Metrics

{MADE}

`GET /metrics` of the agent returns these metrics for Prometheus. The request needs the `read` token
unless `api.open_metrics` is set. The value of a metric whose name ends in `_total` only grows. The
gauges of watches have the label `watch`. Only the first 1,000 watches, in the order of their names,
have gauges. The agent also has the metrics `process_…` and `python_info` of prometheus-client.
[Operations](../operations.md) says which metrics are useful for alerts.
"""

SQL_HEAD = f"""# The views of the store

{MADE}

`nostr-client store sql` queries these views. An exported SQLite file has them as tables.
[Ask the store in SQL](../how-to/sql.md) shows examples. Some rules hold for all views:

- Ids and keys are lower-case hex.
- Times are ISO 8601 in UTC. A column whose name ends in `_ts` has the same time in Unix seconds.
  For a time after the year 9999, only the Unix seconds exist.
- No view has expired events.
- A view has events of private kinds only if a command names these kinds.

These kinds are private:

{PRIVATE}

Further private events are encrypted jobs (NIP-90), lists (NIP-51) with encrypted items, and reposts
of private events. Such lists have the kinds {LIST_KINDS}.
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
        head = f"## {view.name}\n\n{view.about} The view has one row for each {_listed(view.key)}."
        parts.append("\n".join([head, "", "| Column | Type | |", "|---|---|---|", *rows]) + "\n")
    return "\n".join(parts)


def _listed(names: Sequence[str]) -> str:
    """Names as code, with "and" before the last."""
    first, last = names[:-1], f"`{names[-1]}`"
    return ", ".join(f"`{name}`" for name in first) + f" and {last}" if first else last


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
    labels = _listed(("link", "direction", "via"))
    lines.append(
        f"\nThe metrics `nostr_agent_counter_link_…` have the labels {labels}."
        " `nostr_agent_counter_link_state` also has the label `state`."
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
    text, of_fields = _explained(inspect.cleandoc(schema.get("description", "")))
    if unknown := of_fields.keys() - schema["properties"].keys():
        raise ValueError(f"{name} lists names that are not its fields: {', '.join(unknown)}")
    below = {one.name: one.text for one in _declared(name)}
    rows = [
        _row(
            f"`{field}`",
            _of(one),
            "" if field in needed else _default(one),
            of_fields.get(field) or below.get(field) or _sentence(one.get("description", "")),
        )
        for field, one in schema["properties"].items()
    ]
    head = f"### {name}\n\n{text}\n" if text else f"### {name}\n"
    return "\n".join([head, "| Field | Type | Default | |", "|---|---|---|---|", *rows, ""])


def _explained(docstring: str) -> tuple[str, dict[str, str]]:
    """A docstring without its list of fields, and the sentences of the list by their field."""
    text = re.sub(r"\n +", " ", docstring)
    listed = dict(re.findall(r"^- `(\w+)`: (.+)$", text, re.MULTILINE))
    rest = re.sub(r"^- `\w+`: .+\n?", "", text, flags=re.MULTILINE).strip()
    rest = re.sub(r"(^|\n\n|(?<=\.)\s)[^.\n]*:$", "", rest)  # what introduced the list
    return rest, {field: _sentence(one) for field, one in listed.items()}


def _declared(name: str) -> Iterator[sdk_reference.Field]:
    """Yield the fields of the class that a type of the document is made from."""
    every = [msgspec.Struct]
    for one in every:
        every += one.__subclasses__()
    for one in every:
        if one.__name__ == name and getattr(sys.modules[one.__module__], name, None) is one:
            yield from sdk_reference.fields(one)
            return


def _sentence(text: str) -> str:
    """A text with a capital letter and a full stop."""
    return f"{text[0].upper()}{text[1:]}" + "." * (text[-1] not in ".!?") if text else ""


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
