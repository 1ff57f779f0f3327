"""Parse NATS subjects: tokens, the wildcards `*` and `>`, overlaps and transforms."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from nostr_client.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Sequence

MAX_SUBJECT = 2_048
"""Most characters of a subject. A nats-server refuses a control line above 4,096 bytes."""

_FORBIDDEN = re.compile(r"[\x00-\x20\x7f\ud800-\udfff]")  # a lone surrogate has no UTF-8
_FUNCTION = re.compile(r"\{\{\s*(\w+)\s*\(([^)]*)\)\s*\}\}|\$([0-9]+)")
_PLAIN = re.compile(r"[A-Za-z0-9-]")


def is_subject(text: object) -> bool:
    """Return whether `text` is one subject: no wildcard, no empty token, no white space."""
    return isinstance(text, str) and is_pattern(text) and not has_wildcard(text)


def check_subject(subject: str) -> str:
    """Return the subject. Raises InvalidInput if it is not a subject or has a wildcard."""
    if not is_subject(subject):
        shown = "is a pattern, name one counter" if is_pattern(subject) else "is not a subject"
        raise InvalidInput(f"{subject!r} {shown}")
    return subject


def is_pattern(text: object) -> bool:
    """Return whether `text` is a subject that may have `*` as a token and `>` as its last token."""
    if not isinstance(text, str) or not text or len(text) > MAX_SUBJECT or _FORBIDDEN.search(text):
        return False
    tokens = text.split(".")
    return all(tokens) and ">" not in tokens[:-1]


def check_patterns(patterns: Sequence[str]) -> tuple[str, ...]:
    """Return the patterns, or ">" for none. Raises InvalidInput."""
    for pattern in patterns:
        if not is_pattern(pattern):
            raise InvalidInput(f"not a subject or pattern: {pattern!r}")
    return tuple(patterns) or (">",)


class SubjectPatterns(NamedTuple):
    """Patterns in two lists: literal subjects that match no wildcard, and the wildcards."""

    literals: list[str]
    wildcards: list[str]

    @classmethod
    def of(cls, patterns: Sequence[str]) -> SubjectPatterns:
        """Return each pattern once. Without patterns, return ">". Raises InvalidInput."""
        every = dict.fromkeys(check_patterns(patterns))
        wild = [pattern for pattern in every if has_wildcard(pattern)]
        covered = (p for p in every if not has_wildcard(p) and not _any(wild, p))
        return cls(list(covered), wild)

    def given_before(self, wildcard: int, subject: str) -> bool:
        """Return whether a wildcard before this one (by its index) also matches a subject."""
        return _any(self.wildcards[:wildcard], subject)


def _any(patterns: Sequence[str], subject: str) -> bool:
    return any(matches(pattern, subject) for pattern in patterns)


def has_wildcard(pattern: str) -> bool:
    """Return whether a token of `pattern` is `*` or `>`.

    Inside a longer token they are ordinary.
    """
    tokens = pattern.split(".")
    return "*" in tokens or tokens[-1] == ">"


def matches(pattern: str, subject: str) -> bool:
    """Return whether `pattern` matches the literal `subject`."""
    if pattern == subject:
        return True
    compiled = _compile(pattern)
    return compiled is not None and compiled.fullmatch(subject) is not None


@lru_cache(maxsize=4_096)
def _compile(pattern: str) -> re.Pattern[str] | None:
    """Return a pattern as a regular expression, or None for a literal pattern.

    It runs in linear time, because tokens have no dots.
    """
    if not has_wildcard(pattern):
        return None
    tokens = pattern.split(".")
    tail = tokens[-1] == ">"
    parts = [r"[^.]+" if token == "*" else re.escape(token) for token in tokens]
    if tail:
        parts[-1] = ".+"
    return re.compile(r"\.".join(parts), re.DOTALL)


def overlaps(one: str, other: str) -> bool:
    """Return whether some subject matches both patterns."""
    left, right = one.split("."), other.split(".")
    for a, b in zip(left, right, strict=False):
        if a == ">" or b == ">":
            return True
        if a != b and a != "*" and b != "*":
            return False
    return len(left) == len(right)


def covers(wide: str, narrow: str) -> bool:
    """Return whether every subject that matches `narrow` also matches `wide`."""
    left, right = wide.split("."), narrow.split(".")
    for i, token in enumerate(left):
        if token == ">":
            return len(right) > i
        if i >= len(right) or right[i] == ">" or (token != right[i] and token != "*"):
            return False
        if right[i] == "*" and token != "*":
            return False
    return len(left) == len(right)


def literal_prefix(pattern: str) -> str:
    """Return the characters with which every matching subject begins.

    They end at the first wildcard token.
    """
    kept: list[str] = []
    for token in pattern.split("."):
        if token in ("*", ">"):
            return ".".join([*kept, ""]) if kept else ""
        kept.append(token)
    return pattern


def subject_token(text: str) -> str:
    """Encode a text, such as a host, as one token.

    Dots become `_`, and other special characters become %-escapes. The encoding is reversible,
    because `_` and `%` are escaped too.
    """
    if not text:
        raise InvalidInput("a token of a subject is never empty")
    return "".join(_token_char(c) for c in text)


def _token_char(char: str) -> str:
    if char == ".":
        return "_"
    if _PLAIN.match(char):
        return char
    return "".join(f"%{byte:02X}" for byte in char.encode("utf-8", "replace"))


@dataclass(frozen=True, slots=True)
class Transform:
    """Subject transform from `src` to `dest` (ADR-30).

    A token `{{wildcard(n)}}` or `$n` stands for the n-th `*`. A `>` at the end of both stands for
    all further tokens.

    Raises InvalidInput for any other function. Only the server supports partition(), split() and
    similar functions. Only the server accepts `{{wildcard(1)}}x` as ordinary text.
    """

    src: str
    dest: str

    def __post_init__(self) -> None:
        if not is_pattern(self.src):
            raise InvalidInput(f"not a subject to transform from: {self.src!r}")
        stars = self.src.split(".").count("*")
        tokens = self.dest.split(".")
        for token in tokens:
            used = self._index(token)
            if used is not None and not 1 <= used <= stars:
                raise InvalidInput(f"{self.dest!r} uses wildcard {used} of {self.src!r}")
        plain = ".".join("x" if self._index(token) else token for token in tokens)
        if not is_pattern(plain) or "*" in tokens:
            raise InvalidInput(f"not a subject to transform to: {self.dest!r}")
        if (tokens[-1] == ">") != (self.src.split(".")[-1] == ">"):
            raise InvalidInput(f"only one of {self.src!r} and {self.dest!r} has a tail")

    def _index(self, token: str) -> int | None:
        """Return the number of the wildcard that a token stands for, or None if it is text."""
        match = _FUNCTION.fullmatch(token)
        if match is None and "{{" in token:
            raise InvalidInput(f"a function is a whole token: {self.dest!r}")
        if match is None:
            return None
        name, argument, short = match.groups()
        number = short or argument.strip()
        if (name and name.lower() != "wildcard") or not number.isdecimal() or len(number) > 4:
            raise InvalidInput(f"this transform is not supported here: {self.dest!r}")
        return int(number)

    @property
    def target(self) -> str:
        """Pattern that all resulting subjects match."""
        tokens = self.dest.split(".")
        return ".".join("*" if self._index(token) else token for token in tokens)

    def apply(self, subject: str) -> str | None:
        """Return the transformed subject, or None if `src` does not match."""
        if not matches(self.src, subject):
            return None
        tokens, wanted = subject.split("."), self.src.split(".")
        caught = [token for token, want in zip(tokens, wanted, strict=False) if want == "*"]
        found: list[str] = []
        for token in self.dest.split("."):
            index = self._index(token)
            if token == ">":
                found += tokens[len(wanted) - 1 :]
            else:
                found.append(token if index is None else caught[index - 1])
        return ".".join(found)
