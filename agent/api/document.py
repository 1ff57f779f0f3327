"""Builds the OpenAPI 3.1 document from the contract's routes and the types that validate."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, Final

import msgspec

from agent.api import schema
from agent.api.contract import ROUTES
from agent.api.routes import JSON, STREAM
from nostr_client import __version__

if TYPE_CHECKING:
    from agent.api.routes import Route

_REF: Final = "#/components/schemas/{name}"

_SCOPES: Final = (
    "The token of a scope. `manage` allows everything. `read` allows every request that changes"
    " nothing. `source` allows only to read the messages of streams. Each operation names the least"
    " scope."
)

_ANSWERED: Final = {STREAM: "Each `data` is one message as JSON."}
"""Descriptions of answers that are more than "done"."""

_REFUSALS: Final = {
    400: "The request is not readable or not valid.",
    401: "The token is missing or wrong.",
    403: "The agent does not allow the Host or Origin, or the scope of the token is too small.",
    404: "The object does not exist.",
    409: "The request contradicts the current state.",
    408: "The client sent the body too slowly.",
    413: "The body is too large.",
    503: "The agent cannot answer the request now.",
}


def document() -> dict[str, Any]:
    """The document as JSON values."""
    types = _types()
    schemas, components = msgspec.json.schema_components(types, ref_template=_REF)
    for one in components.values():
        one["description"] = inspect.cleandoc(one.get("description", ""))
    by_type = dict(zip(map(id, types), schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for route in ROUTES:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, by_type)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "nostr-agent",
            "version": __version__,
            "description": "Watches, counts, syncs, relays and counters of a running agent.",
        },
        "security": [{"token": ["read"]}],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer", "description": _SCOPES}
            },
        },
    }


def _types() -> list[Any]:
    found: list[Any] = [schema.Problem]
    for route in ROUTES:
        found += [route.answer, *([] if route.body is None else [route.body])]
    return list({id(one): one for one in found}.values())


def _operation(route: Route, by_type: dict[int, Any]) -> dict[str, Any]:
    answer, problem = by_type[id(route.answer)], by_type[id(schema.Problem)]
    answers = {route.status: _ANSWERED.get(route.media, "Done.")}
    answers |= {code: _REFUSALS[code] for code in route.also}
    responses = {code: _content(text, answer, route.media) for code, text in answers.items()}
    refused = {code: _content(text, problem) for code, text in _REFUSALS.items()}
    operation: dict[str, Any] = {
        "summary": route.summary,
        "operationId": route.name,
        "parameters": [*_parameters(route.params, "path"), *_parameters(route.query, "query")],
        "responses": {str(code): one for code, one in (responses | (refused | responses)).items()},
        "security": [{"token": [route.scope.name.lower()]}] if route.scope else [],
    }
    if route.body is not None:
        body = {JSON: {"schema": by_type[id(route.body)]}}
        operation["requestBody"] = {"required": True, "content": body}
    return operation


def _parameters(kind: type[msgspec.Struct], where: str) -> list[dict[str, Any]]:
    table = msgspec.json.schema(kind)["$defs"][kind.__name__]
    return [
        {
            "name": name,
            "in": where,
            "required": where == "path" or name in table.get("required", ()),
            "schema": one,
        }
        for name, one in table["properties"].items()
    ]


def _content(text: str, of: Any, media: str = JSON) -> dict[str, Any]:
    return {"description": text, "content": {media: {"schema": of}}}
