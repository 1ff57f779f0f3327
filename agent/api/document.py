"""The OpenAPI 3.1 document, made of the table of routes and the types that validate."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from agent.api import schema
from agent.api.params import EventsQuery, Nothing
from agent.api.routes import ROUTES, Route
from nostr_client._version import __version__

_REF: Final = "#/components/schemas/{name}"

_SCOPES: Final = (
    "The token of a scope: `manage` may do everything, `read` what changes nothing, `source` reads"
    " the messages of streams. Each operation names the least one."
)

_REFUSALS: Final = {
    "400": "The request cannot be read or is not valid.",
    "401": "The token is missing or wrong.",
    "403": "The Host or Origin of the request is not allowed, or the token may not do this.",
    "404": "There is no such thing.",
    "409": "It contradicts what is there.",
    "408": "The body came too slowly.",
    "413": "The body is too large.",
    "503": "The agent cannot do it now.",
}


def document() -> dict[str, Any]:
    """The document as JSON values."""
    types = _types()
    schemas, components = msgspec.json.schema_components(types, ref_template=_REF)
    by_type = dict(zip(map(id, types), schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for route in ROUTES:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, by_type)
    paths |= _plain_paths(by_type)
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
    found: list[Any] = [schema.Problem, schema.Health, schema.Ready, schema.Message, EventsQuery]
    for route in ROUTES:
        found += [route.answer, route.params, route.query]
        if route.body is not None:
            found.append(route.body)
    return list({id(one): one for one in found}.values())


def _operation(route: Route, by_type: dict[int, Any]) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "summary": route.summary,
        "operationId": _operation_id(route),
        "parameters": [*_parameters(route.params, "path"), *_parameters(route.query, "query")],
        "responses": {
            str(route.status): _json("Done.", by_type[id(route.answer)]),
            **{code: _json(text, by_type[id(schema.Problem)]) for code, text in _REFUSALS.items()},
        },
        "security": [{"token": [route.needs.name.lower()]}],
    }
    if route.body is not None:
        body = {"application/json": {"schema": by_type[id(route.body)]}}
        operation["requestBody"] = {"required": True, "content": body}
    return operation


def _operation_id(route: Route) -> str:
    words = route.path.removeprefix("/v1").translate(str.maketrans("", "", "{}")).split("/")
    return "_".join([route.method.lower(), *filter(None, words)])


def _parameters(kind: type[msgspec.Struct], where: str) -> list[dict[str, Any]]:
    if kind is Nothing:
        return []
    whole = msgspec.json.schema(kind)
    table = whole["$defs"][kind.__name__]
    return [
        {
            "name": name,
            "in": where,
            "required": where == "path" or name in table.get("required", ()),
            "schema": one,
        }
        for name, one in table["properties"].items()
    ]


def _json(text: str, of: Any) -> dict[str, Any]:
    return {"description": text, "content": {"application/json": {"schema": of}}}


def _plain_paths(by_type: dict[int, Any]) -> dict[str, Any]:
    """What is not in the table: health, metrics, this document, and the stream."""
    problem = by_type[id(schema.Problem)]
    health, ready = by_type[id(schema.Health)], by_type[id(schema.Ready)]
    refused = {code: _json(_REFUSALS[code], problem) for code in ("401", "403")}
    return {
        "/healthz": _get("The event loop lives.", {"200": _json("Alive.", health)}, [], refused),
        "/readyz": _get(
            "Whether the agent does its work.",
            {"200": _json("Ready.", ready), "503": _json("Not ready.", ready)},
            [],
            refused,
        ),
        "/metrics": _get(
            "Numbers for Prometheus.",
            {"200": {"description": "Text.", "content": {"text/plain": {}}}, **refused},
        ),
        "/v1/openapi.json": _get(
            "This document.",
            {
                "200": {"description": "OpenAPI 3.1.", "content": {"application/json": {}}},
                **refused,
            },
        ),
        "/v1/events": _get(
            "Server-sent events: a snapshot, then numbered deltas; ends with a word.",
            {
                "200": {
                    "description": "Each `data` is one message as JSON.",
                    "content": {"text/event-stream": {"schema": by_type[id(schema.Message)]}},
                },
                "400": _json(_REFUSALS["400"], problem),
                **refused,
            },
            parameters=_parameters(EventsQuery, "query"),
        ),
    }


def _get(
    summary: str,
    responses: dict[str, Any],
    security: list[Any] | None = None,
    more: dict[str, Any] | None = None,
    parameters: list[Any] | None = None,
) -> dict[str, Any]:
    operation = {"summary": summary, "responses": responses | (more or {})}
    if security is not None:
        operation["security"] = security
    if parameters:
        operation["parameters"] = parameters
    return {"get": operation}
