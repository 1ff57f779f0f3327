"""Builds a route from a decorated method of the contract: its HTTP request and answer.

`route` turns a method that has a signature and a docstring, and no body, into a `Route` and a
method that sends it. The server, the client and the document read the `Route`.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, NamedTuple, TypeVar, cast, get_type_hints
from urllib.parse import quote, unquote

import msgspec

from agent.api.schema import RequestBody, Scope

JSON: Final = "application/json"
TEXT: Final = "text/plain"
STREAM: Final = "text/event-stream"
SVG: Final = "image/svg+xml"

F = TypeVar("F", bound=Callable[..., Any])


class ApiRequest(NamedTuple):
    """What a client sends: a path, the query string and the body, None where there is none."""

    path: str
    query: dict[str, str]
    body: Any


class Route:
    """One request that an agent answers.

    Parameters named in `path` come from the path. Of the others, a parameter whose type is a struct
    is the body; those of a POST or PUT are fields of the body; those of a GET or DELETE are the
    query. Types are read when they are first needed, as a client needs few of them.
    """

    def __init__(
        self,
        method: str,
        path: str,
        function: Callable[..., Any],
        *,
        scope: Scope,
        status: int,
        media: str,
        answers: Any,
        also: tuple[int, ...],
        takes: float,
    ) -> None:
        self.name = function.__name__
        self.method = method
        self.path = path
        self.summary = inspect.cleandoc(function.__doc__ or "").partition("\n")[0]
        self.scope = scope
        """The least scope of a token that may ask this."""
        self.status = status
        self.media = media
        self.also = also
        """Further statuses that come with the answer."""
        self.takes = takes
        """Seconds that the work itself may take; a client adds them to its timeout."""
        self._function = function
        self._answers = answers

    @functools.cached_property
    def _pattern(self) -> re.Pattern[str]:
        return re.compile(re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>[^/]+)", re.escape(self.path)))

    @functools.cached_property
    def _signature(self) -> inspect.Signature:
        return inspect.signature(self._function)

    @functools.cached_property
    def _hints(self) -> dict[str, Any]:
        return get_type_hints(self._function, include_extras=True)

    @functools.cached_property
    def answer(self) -> Any:
        """The type of the answer."""
        return self._hints["return"] if self._answers is None else self._answers

    @functools.cached_property
    def decoder(self) -> msgspec.json.Decoder[Any]:
        """Reads an answer."""
        return msgspec.json.Decoder(self.answer)

    @functools.cached_property
    def params(self) -> type[msgspec.Struct]:
        """The parameters of the path."""
        return self._struct("Path", [one for one in self._signature.parameters if self._in(one)])

    @functools.cached_property
    def query(self) -> type[msgspec.Struct]:
        """The parameters of the query string."""
        return self._struct("Query", [] if self._has_body else self._others)

    @functools.cached_property
    def body(self) -> Any:
        """The type of the body, None where there is none."""
        if not (self._has_body and self._others):
            return None
        return self._hints[self._whole] if self._whole else self._struct("Body", self._others)

    @property
    def _has_body(self) -> bool:
        return self.method in ("POST", "PUT")

    @functools.cached_property
    def _others(self) -> list[str]:
        """Parameters that are not in the path."""
        names = list(self._signature.parameters)[1:]
        return [one for one in names if not self._in(one)]

    @functools.cached_property
    def _whole(self) -> str:
        """The parameter that is the whole body; "" where its fields are parameters."""
        if not self._has_body or len(self._others) != 1:
            return ""
        kind = self._hints[self._others[0]]
        is_struct = isinstance(kind, type) and issubclass(kind, msgspec.Struct)
        return self._others[0] if is_struct else ""

    def _in(self, name: str) -> bool:
        return f"{{{name}}}" in self.path

    def _struct(self, what: str, names: list[str]) -> type[msgspec.Struct]:
        """A type with these parameters as its fields; unknown fields are refused."""
        fields: list[Any] = []
        for name in names:
            default = self._signature.parameters[name].default
            given = () if default is inspect.Parameter.empty else (default,)
            fields.append((name, self._hints[name], *given))
        title = self.name.title().replace("_", "") + what
        return msgspec.defstruct(
            title, fields, bases=(RequestBody,), frozen=True, namespace={"__doc__": self.summary}
        )

    def match(self, raw_path: str) -> dict[str, str] | None:
        """The parameters of a percent-encoded path; None for the path of another route."""
        found = self._pattern.fullmatch(raw_path)
        if found is None:
            return None
        return {key: unquote(text) for key, text in found.groupdict().items()}

    def given(
        self, params: Mapping[str, str], query: Mapping[str, str], body: bytes
    ) -> dict[str, Any]:
        """The arguments in a request. Raises msgspec.ValidationError, msgspec.DecodeError."""
        found = msgspec.structs.asdict(msgspec.convert(params, self.params, strict=False))
        found |= msgspec.structs.asdict(msgspec.convert(query, self.query, strict=False))
        if self.body is None:
            return found
        read = msgspec.json.decode(body, type=self.body)
        return found | ({self._whole: read} if self._whole else msgspec.structs.asdict(read))

    def request(self, arguments: tuple[Any, ...], named: Mapping[str, Any]) -> ApiRequest:
        """The request that says these arguments; the first of them is `self`."""
        bound = self._signature.bind(*arguments, **named)
        bound.apply_defaults()
        given = bound.arguments
        path = self.path.format(
            **{one: quote(text, safe="") for one, text in given.items() if self._in(one)}
        )
        others = {one: given[one] for one in self._others}
        if not self._has_body:
            query = {one: _text(value) for one, value in others.items() if value is not None}
            return ApiRequest(path, query, None)
        return ApiRequest(path, {}, others[self._whole] if self._whole else others or None)


def _text(value: Any) -> str:
    """A value of a query string."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def route(
    method: str,
    path: str,
    *,
    scope: Scope | None = None,
    status: int = 200,
    media: str = JSON,
    answers: Any = None,
    also: tuple[int, ...] = (),
    takes: float = 0.0,
) -> Callable[[F], F]:
    """Make a method of the contract a route; its call sends the request by `self.send`.

    `scope`: by default READ for GET, else MANAGE. `answers`: what is answered, where that is
    another type than the method gives.
    """
    least = scope if scope is not None else Scope.READ if method == "GET" else Scope.MANAGE

    def made(function: F) -> F:
        found = Route(
            method,
            path,
            function,
            scope=least,
            status=status,
            media=media,
            answers=answers,
            also=also,
            takes=takes,
        )

        @functools.wraps(function)
        def send(*arguments: Any, **named: Any) -> Awaitable[Any]:
            sent: Awaitable[Any] = arguments[0].send(found, found.request(arguments, named))
            return sent

        vars(send)["route"] = found
        return cast("F", send)

    return made


def routes_of(contract: type) -> tuple[Route, ...]:
    """The routes of a contract, in the order of their declaration."""
    return tuple(one.route for one in vars(contract).values() if hasattr(one, "route"))
