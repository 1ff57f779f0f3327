"""Refuse words that only this project understands, in names and prose: `python scripts/words.py`.

A word of `WORDS` is refused in identifiers, docstrings, comments, messages and documents. Code
within documents is not read. `ALLOWED` has the places where a word is the field's own, each with
the reason. `NOT_YET` has the places that still have such words: they are counted, not refused.
"""

from __future__ import annotations

import io
import re
import sys
import tokenize
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT: Final = Path(__file__).parents[1]
SOURCES: Final = ("nostr_client", "agent", "tui", "examples", "scripts")

WORDS: Final = {
    "anew": "again",
    "borne": "confirmed, tolerated",
    "deeds?": "handlers, actions",
    "desk": "queue",
    "doorstep": "early_health",
    "ferry": "transfer",
    "hearing": "ingest, receive",
    "hearsay": "claim",
    "heard": "received",
    "journal": "log",
    "mend(s|ed|ing)?": "repair, fix",
    "salvage": "malformed, repair",
    "stretch(es)?": "range, span, window",
    "tell(s|ing|ings)?": "report, return, distinguish",
    "told": "reported, received",
    "troubled": "failing",
    "watch_?book": "repository",
    "whoever": "a person who, a program that",
}
"""A pattern for one word of a name or a text, and what to write."""

PHRASES: Final = {
    "in the place of": "instead of",
    "in vain": "without effect",
    "it is because": "because",
    "let go": "closed, released",
    "looked at": "checked, read",
    "passed over": "skipped",
    "that there (is|are)": "name the thing",
    "what is no": "anything that is not",
}
"""The same for several words of a text."""

ALLOWED: Final[dict[str, tuple[str, str]]] = {
    "CONTRIBUTING.md": ("tell", "the rule that refuses the word"),
    "agent/maintenance/backup.py": ("journal", "the name of SQLite's file"),
    "agent/reindex/publish.py": ("journal", "the name of SQLite's file"),
    "agent/reindex/run.py": ("journal", "the name of SQLite's file"),
    "nostr_client/cli/watch/commands.py": ("heard", "the option --keep-heard"),
    "nostr_client/store/sql/copy.py": ("journal", "the ending of SQLite's rollback journal"),
    "nostr_client/sync/files/arrow_files.py": ("tell", "the method of a file"),
    "nostr_client/sync/files/event_files.py": ("tell", "the method of a file"),
    "scripts/words.py": (".*", "the list itself"),
}
"""Path, pattern of the words that are allowed there, and why."""

NOT_YET: Final[frozenset[str]] = frozenset()
"""Folders (with a final slash) and files that are not clean yet."""

_PART: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_WORD: Final = re.compile(rf"(?:{'|'.join(WORDS)})", re.IGNORECASE)
_BOOK: Final = re.compile(r"watch_?book", re.IGNORECASE)
_TEXT: Final = re.compile(
    "|".join(rf"\b(?:{one})\b" for one in (*WORDS, *(p.replace(" ", r"\s+") for p in PHRASES))),
    re.IGNORECASE,
)
_CODE: Final = re.compile(r"^```.*?^```$|`[^`\n]*`|\]\([^)]*\)", re.MULTILINE | re.DOTALL)
_TEXTS: Final = frozenset(
    getattr(tokenize, name)
    for name in ("COMMENT", "STRING", "FSTRING_MIDDLE")
    if hasattr(tokenize, name)
)


class Finding(NamedTuple):
    """A refused word, and where it stands."""

    path: str
    line: int
    word: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.word!r}: write {_instead(self.word)}"


def _instead(word: str) -> str:
    plain = " ".join(word.split())
    for pattern, better in {**WORDS, **PHRASES}.items():
        if re.fullmatch(pattern, plain, re.IGNORECASE):
            return better
    return "the field's word"


def in_python(path: str, text: str) -> Iterator[Finding]:
    """Yield the refused words of a module's names, comments and texts."""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        line = token.start[0]
        if token.type == tokenize.NAME:
            yield from (Finding(path, line, word) for word in _in_name(token.string))
        elif token.type in _TEXTS:
            for found in _TEXT.finditer(token.string):
                at = line + token.string.count("\n", 0, found.start())
                yield Finding(path, at, found[0])


def _in_name(name: str) -> list[str]:
    words = [part for part in _PART.findall(name) if _WORD.fullmatch(part)]
    return words + [found[0] for found in _BOOK.finditer(name)]


def in_document(path: str, text: str) -> Iterator[Finding]:
    """Yield the refused words of a page's sentences."""
    prose = _CODE.sub(lambda code: re.sub(r"[^\n]", " ", code[0]), text)
    for found in _TEXT.finditer(prose):
        yield Finding(path, prose.count("\n", 0, found.start()) + 1, found[0])


def findings(root: Path = ROOT) -> Iterator[Finding]:
    """Yield every refused word of sources and documents that is not allowed where it stands."""
    for folder in SOURCES:
        for path in sorted((root / folder).rglob("*.py")):
            name = path.relative_to(root).as_posix()
            yield from _refused(name, in_python(name, path.read_text("utf-8")))
    for path in [*sorted(root.glob("*.md")), *sorted(root.glob("docs/**/*.md"))]:
        name = path.relative_to(root).as_posix()
        yield from _refused(name, in_document(name, path.read_text("utf-8")))


def _refused(name: str, found: Iterator[Finding]) -> Iterator[Finding]:
    allowed = ALLOWED.get(name, ("", ""))[0]
    return (one for one in found if not re.fullmatch(allowed, one.word, re.IGNORECASE))


def is_not_yet(path: str) -> bool:
    """Whether a path, or a folder above it, is on the list of places that are not clean yet."""
    return path in NOT_YET or any(path.startswith(one) for one in NOT_YET if one.endswith("/"))


def main() -> int:
    """Write every refused word, and how many places are left; return the exit code."""
    found = list(findings())
    waiting = {one.path for one in found if is_not_yet(one.path)}
    refused = [one for one in found if one.path not in waiting]
    lines = [str(one) for one in refused]
    if waiting:
        lines.append(f"words: {len(waiting)} files are not clean yet (NOT_YET in scripts/words.py)")
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    return 1 if refused else 0


if __name__ == "__main__":
    sys.exit(main())
