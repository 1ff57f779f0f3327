"""The contract of the API: what a client sends by a route is what the backend is called with."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nostr_client
from agent.api import schema
from agent.api.contract import ROUTES, AgentApi, find
from agent.service.backend import AgentBackend
from nostr_client.watch.definition import Watch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agent.api.routes import ApiRequest, Route

BY_SERVER = {"health", "document", "events", "access"}
"""Routes that the server answers for every backend."""


class Recorder(AgentApi):
    """A client that keeps the route and the request in the place of sending it."""

    async def send(self, route: Route, request: ApiRequest) -> Any:
        return route, request


async def received(asked: Any) -> tuple[str, dict[str, Any]]:
    """The method that a request leads to, and its arguments, as the server finds them."""
    sent, request = await asked
    route, params, allowed = find(sent.method, request.path)
    assert route is sent, allowed
    body = b"" if request.body is None else msgspec.json.encode(request.body)
    return route.name, route.given(params, request.query, body)


def parameters(function: Any) -> list[tuple[str, Any]]:
    return [(one.name, one.default) for one in inspect.signature(function).parameters.values()]


@pytest.mark.parametrize("route", ROUTES, ids=lambda one: one.name)
def test_the_agent_answers_every_route_with_its_parameters(route: Route) -> None:
    assert route.summary
    answers = getattr(AgentBackend, route.name)
    if route.name in BY_SERVER:
        assert answers is getattr(AgentApi, route.name)
        return
    assert answers is not getattr(AgentApi, route.name), "nobody answers it"
    assert parameters(answers) == parameters(getattr(AgentApi, route.name))


def test_no_two_routes_are_asked_alike() -> None:
    asked = [(one.method, one.path) for one in ROUTES]
    assert len(set(asked)) == len(asked)


texts = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=60)


@given(
    name=texts, subject=texts, after=st.integers(0, 2**53), number=st.integers(-(10**30), 10**30)
)
async def test_arguments_arrive_as_they_were_given(
    name: str, subject: str, after: int, number: int
) -> None:
    """In the path with any character, in the query, and as fields of a body."""
    api = Recorder()
    assert await received(api.counter_history(name, subject, after=after)) == (
        "counter_history",
        {"stream": name, "subject": subject, "after": after, "limit": 1000},
    )
    assert await received(api.add(name, subject, str(number), "once")) == (
        "add",
        {"stream": name, "subject": subject, "add": str(number), "id": "once"},
    )
    assert await received(api.run_link(name)) == ("run_link", {"name": name})


async def test_a_whole_body_a_flag_and_what_is_not_given() -> None:
    api = Recorder()
    spec = Watch(name="w", filters=({"kinds": [3]},))
    assert await received(api.change_watch("w", spec)) == (
        "change_watch",
        {"name": "w", "spec": spec},
    )
    _, asked = await received(api.messages("app", newest=True))
    assert asked == {"stream": "app", "after": 0, "limit": 1000, "newest": True}
    _, asked = await received(api.hot(kind=3))
    assert asked == {"name": None, "kind": 3, "limit": 50}


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_head_asks_what_get_asks(method: str) -> None:
    route, params, _ = find(method, "/v1/watches/a%2Fb")
    assert route is not None
    assert (route.name, params) == ("watch", {"name": "a/b"})


def test_another_method_is_told_which_there_are() -> None:
    assert find("PATCH", "/v1/watches") == (None, {}, ("GET", "POST"))
    assert find("GET", "/v1/nothing") == (None, {}, ())


@pytest.mark.parametrize(
    ("name", "params", "query", "body"),
    [
        ("counters", {"stream": "app"}, {"limit": "0"}, b""),
        ("counters", {"stream": "app"}, {"what": "1"}, b""),
        ("watch", {"name": "a b"}, {}, b""),
        ("add", {"stream": "app"}, {}, b'{"subject":"a"}'),
        ("add", {"stream": "app"}, {}, b'{"subject":"a","add":"1","more":1}'),
        ("add", {"stream": "app"}, {"id": "1"}, b'{"subject":"a","add":"1"}'),
        ("status", {}, {"what": "1"}, b""),
    ],
)
def test_what_the_contract_does_not_allow_is_refused(
    name: str, params: dict[str, str], query: dict[str, str], body: bytes
) -> None:
    (route,) = [one for one in ROUTES if one.name == name]
    with pytest.raises(msgspec.ValidationError):
        route.given(params, query, body)


PROJECTIONS = {"Point"}
"""Types of the API that leave out what the SDK's have: here the extremes of a thinned step."""


def structs(above: type) -> Iterator[Any]:
    for one in above.__subclasses__():
        yield one
        yield from structs(one)


def test_no_type_of_the_api_copies_a_value_of_the_sdk() -> None:
    """Where all fields of an answer are fields of an SDK value, that value is the answer."""
    for found in pkgutil.walk_packages(nostr_client.__path__, "nostr_client."):
        if not found.name.endswith("__main__"):
            importlib.import_module(found.name)
    values: list[Any] = [*structs(msgspec.Struct), *structs(tuple)]
    sdk = [
        one
        for one in values
        if one.__module__.startswith("nostr_client.") and hasattr(one, "__match_args__")
    ]
    fields = {one: set(getattr(one, "_fields", ()) or one.__struct_fields__) for one in sdk}
    for answer in structs(schema.ResponseBody):
        names = set(answer.__struct_fields__)
        twins = [one for one in sdk if names <= fields[one] and not issubclass(answer, one)]
        assert len(names) < 3 or not twins or answer.__name__ in PROJECTIONS, (answer, twins)
