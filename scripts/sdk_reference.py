"""`page()` makes docs/reference/sdk.md from signatures and docstrings of the public interface."""

from __future__ import annotations

import ast
import enum
import inspect
import re
import textwrap
from dataclasses import is_dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

import nostr_client
from nostr_client import counters, errors, hll, options
from nostr_client.codecs import nip19
from nostr_client.counters.base import CounterStore
from nostr_client.store.base import EventStore

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import ModuleType

HEAD: Final = """# The SDK

{made}

This page is for programmers who use the package `nostr_client`. The sections before "Store", and
"Store" itself, describe names that you import from `nostr_client`. We remove such a name only in a
major version.
`import nostr_client` also makes the modules of the later sections available, such as
`nostr_client.counters`.

Times are in Unix seconds and sizes in bytes, unless a text says otherwise. "Safe to cancel" means
that a cancelled call leaves no work half done. "A relay that a stranger names" is a relay that the
user did not name. Only other people's events name it, for example a target's relay list. "Our own
budget" is the client's limit for requests to one relay.
"""

SECTIONS: Final[dict[str, tuple[str, ...]]] = {
    "One object for many relays": ("NostrClient", "FetchResult", "PublishResult", "PublishStatus"),
    "Questions": (
        "followers",
        "reactions",
        "reposts",
        "quotes",
        "replies",
        "comments",
        "replies_and_comments",
        "zaps",
        "query",
        "Query",
    ),
    "Answers": ("CountResult", "Figure", "Claim", "ClaimStatus", "TrustPolicy"),
    "Watches": ("Watch",),
    "Sync": ("SyncReport", "SyncStatus", "Direction"),
    "Events, filters, keys": (
        "Event",
        "EventTemplate",
        "VerifiedEvent",
        "Filter",
        "KeySigner",
        "Signer",
        "parse_event",
        "verify",
        "verify_many",
    ),
    "Relays": ("Relay", "RelayPool", "RelayChoice", "RelayInfo", "Subscription"),
    "Store": ("SqliteStore", "EventStore", "StoreOptions"),
}
"""The public names by subject; errors and options follow from their modules."""

MODULES: Final[tuple[tuple[str, ModuleType, tuple[str, ...]], ...]] = (
    ("Options: `nostr_client.options`", options, ()),
    ("Errors: `nostr_client.errors`", errors, ()),
    (
        "Identifiers: `nostr_client.nip19`",
        nip19,
        (
            "decode",
            "parse",
            "read",
            "PublicKey",
            "Note",
            "Profile",
            "EventPointer",
            "Address",
            "SecretKey",
        ),
    ),
    ("HyperLogLog: `nostr_client.hll`", hll, tuple(n for n in hll.__all__ if n != n.upper())),
    ("Counters: `nostr_client.counters`", counters, tuple(counters.__all__)),
)


class Field(NamedTuple):
    """One attribute of a class, as its source declares it."""

    name: str
    type: str
    default: str
    text: str


def page(made: str) -> str:
    """Return the text of the page; `made` is the note that it is generated."""
    parts = [HEAD.format(made=made)]
    for title, found in sections():
        parts.append(f"## {title}\n")
        if errors.NostrTallyError in found.values():
            parts.append(_errors(found.values()))
        else:
            parts += [_entry(name, value) for name, value in found.items()]
    return "\n".join(parts)


def sections() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each section's title, and the names and objects that the section describes."""
    for title, names in SECTIONS.items():
        yield title, {name: getattr(nostr_client, name) for name in names}
    for title, module, names in MODULES:
        yield title, {name: getattr(module, name) for name in names or _classes(module)}


def texts() -> Iterator[tuple[str, str]]:
    """Yield each name, method and property on the page, with its docstring."""
    for _, found in sections():
        for name, value in found.items():
            yield name, _text(value)
            for member, one in _public(value) if isinstance(value, type) else ():
                yield f"{name}.{member}", _text(one)


def listed() -> set[str]:
    """Return the public names that the page has."""
    named = {name for names in SECTIONS.values() for name in names}
    return named | set(_classes(options)) | set(_classes(errors)) | {"count", "nip19"}


def _classes(module: ModuleType) -> list[str]:
    found = (one for one in vars(module).values() if isinstance(one, type))
    return [one.__name__ for one in found if one.__module__ == module.__name__]


def _entry(name: str, value: Any) -> str:
    if not isinstance(value, type):
        return f"### {name}\n\n{_block(name, value)}\n{_text(value)}\n"
    head = "" if issubclass(value, enum.Enum) or value.__name__ in _WITHOUT else _block(name, value)
    parts = [f"### {name}\n", head, f"{_text(value)}\n"]
    found = list(_members(value) if issubclass(value, enum.Enum) else fields(value))
    if found:
        parts.append(_table(found))
    parts += [_method(member, found) for member, found in _public(value)]
    return "\n".join(part for part in parts if part)


_WITHOUT: Final = frozenset(
    {
        "CounterStore",
        "EventStore",
        "JetStreamCounterStore",
        "Relay",
        "RelayPool",
        "Signer",
        "SqliteCounterStore",
        "SqliteStore",
        "Subscription",
    }
)
"""Classes that are made by others, or whose constructor is not what a reader calls."""

_PROTOCOLS: Final = (EventStore, CounterStore)
"""Classes whose methods the page describes once, and not again for each implementation."""


def _block(name: str, value: Any) -> str:
    return f"```text\n{name}{_signature(value)}\n```\n"


def _signature(value: Any) -> str:
    text = _bare(_raw(value))
    text = re.sub(r"<(?:built-in )?function (\w+)(?: at 0x\w+)?>", r"\1", text)
    text = re.sub(r"<(\w+\.\w+): [^>]*>", r"\1", text).removesuffix(" -> None")
    text = text.replace("(self, ", "(").replace("(self)", "()").replace("(cls, ", "(")
    if len(text) <= 90:
        return text
    inside, _, back = text.rpartition(")") if " -> " not in text else _before_answer(text)
    pieces = _split(inside.removeprefix("("))
    return "(\n" + "".join(f"    {piece},\n" for piece in pieces) + f"){back}"


def _bare(text: str) -> str:
    """Types without their modules and without the bounds of `Annotated`."""
    text = re.sub(r"\b(?:nostr_client|pathlib|collections\.abc|typing)\.(?:\w+\.)*", "", text)
    while found := re.search(r"\b(Annotated|Optional)\[", text):
        inside, rest = _bracketed(text[found.end() :])
        ending = " | None" if found[1] == "Optional" else ""
        text = f"{text[: found.start()]}{_split(inside)[0]}{ending}{rest}"
    return text


def _bracketed(text: str) -> tuple[str, str]:
    """Return what an open bracket encloses, and the text after the closing bracket."""
    depth = 1
    for at, sign in enumerate(text):
        depth += (sign == "[") - (sign == "]")
        if depth == 0:
            return text[:at], text[at + 1 :]
    return text, ""


def _before_answer(text: str) -> tuple[str, str, str]:
    inside, _, back = text.rpartition(") -> ")
    return inside, ")", f" -> {back}"


class _Verbatim:
    """A text that stands in a signature as it is."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


def _raw(value: Any) -> str:
    """The signature, with annotations as the source has them and short defaults."""
    found = inspect.signature(value)
    parameters = [
        one.replace(annotation=_plain(one.annotation), default=_short(one.default))
        for one in found.parameters.values()
    ]
    answer = _plain(found.return_annotation)
    return str(found.replace(parameters=parameters, return_annotation=answer))


def _plain(annotation: Any) -> Any:
    """An annotation without the quotes around its text."""
    text = getattr(annotation, "__forward_arg__", annotation)
    return _Verbatim(text) if isinstance(text, str) else annotation


def _short(default: Any) -> Any:
    """A default; `Name()` for an object whose fields all have their defaults."""
    return _Verbatim(f"{type(default).__name__}()") if _has_defaults(default) else default


def _has_defaults(value: Any) -> bool:
    has_fields = is_dataclass(value) or isinstance(value, msgspec.Struct)
    return has_fields and not isinstance(value, type) and value == type(value)()


def _split(text: str) -> list[str]:
    """Split arguments at commas that stand in no bracket and no quotes."""
    pieces, depth, start, quoted = [], 0, 0, False
    for at, sign in enumerate(text):
        quoted ^= sign == "'"
        depth += (sign in "([{") - (sign in ")]}")
        if sign == "," and depth == 0 and not quoted:
            pieces.append(text[start:at].strip())
            start = at + 1
    return [*pieces, text[start:].strip()]


def _text(value: Any) -> str:
    return inspect.getdoc(value) or ""


def _ours(value: type) -> list[type]:
    packages = ("nostr_client", "agent")
    return [one for one in reversed(value.__mro__) if one.__module__.startswith(packages)]


def fields(value: type) -> Iterator[Field]:
    """Yield the fields of a class that has them, each once, with the text below or within each."""
    if not hasattr(value, "__struct_fields__") and not hasattr(value, "__dataclass_fields__"):
        return
    parameters = inspect.signature(value).parameters
    found: dict[str, Field] = {}
    for one in _ours(value):
        body = _class_body(one)
        for node, after in zip(body, [*body[1:], None], strict=True):
            if isinstance(node, ast.AnnAssign) and not ast.unparse(node.target).startswith("_"):
                name = ast.unparse(node.target)
                made = _field(node, _below(after), parameters[name])
                known = found.get(name, made).text
                found[name] = made._replace(text=made.text or known)
    yield from found.values()


def _field(node: ast.AnnAssign, text: str, parameter: inspect.Parameter) -> Field:
    type_, default = parameter.annotation, "" if node.value is None else ast.unparse(node.value)
    if isinstance(node.value, ast.Name | ast.Call) and isinstance(
        parameter.default, str | int | float
    ):
        default = repr(parameter.default)
    return Field(
        ast.unparse(node.target),
        ast.unparse(node.annotation) if isinstance(type_, str) else _type(type_),
        "" if default.startswith("field(") else default,
        text or _description(type_),
    )


def _type(annotation: Any) -> str:
    return _bare(inspect.formatannotation(annotation))


def _description(annotation: Any) -> str:
    """The description of a field in its `Meta`, as a sentence."""
    texts = [one.description for one in getattr(annotation, "__metadata__", ())]
    found = next((one for one in reversed(texts) if one), "")
    return f"{found[:1].upper()}{found[1:]}." if found else ""


def _members(value: type) -> Iterator[Field]:
    """Yield the values of an enumeration, with the text beside or below each."""
    source = textwrap.dedent(inspect.getsource(value)).splitlines()
    body = _class_body(value)
    for node, after in zip(body, [*body[1:], None], strict=True):
        if isinstance(node, ast.Assign):
            beside = source[node.lineno - 1].partition("  # ")[2]
            text = beside or _below(after)
            yield Field(ast.unparse(node.targets[0]), "", ast.unparse(node.value), text)


def _class_body(value: type) -> list[ast.stmt]:
    tree = ast.parse(textwrap.dedent(inspect.getsource(value)))
    (node,) = tree.body
    assert isinstance(node, ast.ClassDef)
    return node.body


def _below(node: ast.stmt | None) -> str:
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return " ".join(str(node.value.value).split())
    return ""


def _table(fields: Iterable[Field]) -> str:
    rows = [_row(f"`{one.name}`", _code(one.type), _code(one.default), one.text) for one in fields]
    return "\n".join(["| field | type | default | |", "|---|---|---|---|", *rows, ""])


def _code(text: str) -> str:
    return f"`{text}`" if text else ""


def _row(*cells: str) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _public(value: type) -> Iterator[tuple[str, Any]]:
    """Yield public methods and properties: first what makes an object, then inherited ones."""
    if issubclass(value, enum.Enum):
        return
    seen: dict[str, Any] = {}
    for one in _ours(value):
        for name, found in vars(one).items():
            plain = getattr(found, "__func__", found)
            if not name.startswith("_") and (
                isinstance(found, property | cached_property) or inspect.isfunction(plain)
            ):
                seen[name] = found
    for name in sorted(seen, key=lambda one: not isinstance(seen[one], classmethod)):
        found = getattr(value, name)
        if not _described_before(value, name):
            yield name, found


def _described_before(value: type, name: str) -> bool:
    """Whether a protocol on the page describes this method of its implementation."""
    text = _text(getattr(value, name))
    bases = [one for one in _PROTOCOLS if one is not value and one in value.__mro__]
    return any(_text(getattr(one, name, None)) == text for one in bases)


def _method(name: str, found: Any) -> str:
    if isinstance(found, property | cached_property):
        get = found.fget if isinstance(found, property) else found.func
        kind = str(_plain(inspect.signature(get).return_annotation)) if get else ""
        return f"**`{name}`** (`{kind}`): {_text(found)}\n"
    start = "async " if inspect.iscoroutinefunction(found) else ""
    signature = _signature(found)
    if "\n" in signature:
        return f"**`{name}`**\n\n```text\n{start}{name}{signature}\n```\n\n{_text(found)}\n"
    return f"**`{start}{name}{signature}`**\n\n{_text(found)}\n"


def _errors(found: Iterable[type]) -> str:
    rows = [
        _row(f"`{one.__name__}`", f"`{one.__bases__[0].__name__}`", " ".join(_text(one).split()))
        for one in found
        if issubclass(one, Exception)
    ]
    return "\n".join(["| error | is a kind of | raised when |", "|---|---|---|", *rows, ""])
