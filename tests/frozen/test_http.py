"""The OpenAPI document of the agent: paths, parameters, answers and the fields of every type."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agent.api.document import document

if TYPE_CHECKING:
    from collections.abc import Iterator

    from syrupy.assertion import SnapshotAssertion


def _type(of: dict[str, Any]) -> str:
    """A JSON schema in a word: `Watch`, `[str]`, `int | null`."""
    if "$ref" in of:
        return str(of["$ref"]).rpartition("/")[2]
    if "anyOf" in of:
        return " | ".join(map(_type, of["anyOf"]))
    if "enum" in of:
        return " | ".join(f"{one!r}" for one in of["enum"])
    if of.get("type") == "array":
        return f"[{_type(of.get('items') or {})}]"
    if isinstance(of.get("additionalProperties"), dict):
        return f"{{str: {_type(of['additionalProperties'])}}}"
    limits = [f"{key}={of[key]}" for key in sorted(of) if key[:3] in ("min", "max", "pat")]
    return " ".join([str(of.get("type", "any")), *limits])


def _content(body: dict[str, Any]) -> str:
    return " ".join(
        f"{kind} {_type(one.get('schema') or {})}" for kind, one in body.get("content", {}).items()
    )


def _scope(security: list[dict[str, list[str]]]) -> str:
    """The least scope of a token that may ask it."""
    return ", ".join(one for needs in security for one in needs["token"]) or "no token"


def _operation(path: str, method: str, of: dict[str, Any], default: Any) -> Iterator[str]:
    yield f"{method.upper()} {path} ({_scope(of.get('security', default))})"
    for one in of.get("parameters", ()):
        need = "" if one["required"] else " (optional)"
        yield f"  {one['in']} {one['name']}: {_type(one['schema'])}{need}"
    if "requestBody" in of:
        yield f"  body: {_content(of['requestBody'])}"
    for code, answer in of["responses"].items():
        yield f"  {code}: {_content(answer)}"


def _component(name: str, of: dict[str, Any]) -> Iterator[str]:
    if "properties" not in of:
        yield f"{name}: {_type(of)}"
        return
    yield name
    for key, one in of["properties"].items():
        yield f"  {key}: {_type(one)}{'' if key in of.get('required', ()) else ' (optional)'}"


def test_paths_and_types(snapshot: SnapshotAssertion) -> None:
    whole = document()
    lines = [
        line
        for path, methods in sorted(whole["paths"].items())
        for method, of in sorted(methods.items())
        for line in _operation(path, method, of, whole["security"])
    ]
    for name, of in sorted(whole["components"]["schemas"].items()):
        lines += _component(name, of)
    assert "\n".join(lines) == snapshot
