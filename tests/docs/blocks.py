"""The code blocks of the README and the documents, and what a page says of them.

A block that no test can run has `<!-- not run: reason -->` on the line before it, and one that goes
on until it is interrupted `<!-- stays -->`; readers of the page see neither.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
FENCE = re.compile(
    r"^(?:<!-- (not run|stays)(?:: ([^\n]+))? -->\n)?```(\w+)([^\n]*)\n(.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
INLINE = re.compile(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)", re.DOTALL)
ANY_FENCE = re.compile(r"^[ \t]*```[^\n`]*$", re.MULTILINE)
SHELL = ("console", "sh")


class Block(NamedTuple):
    """`mark` is "", "not run" or "stays"; `rest` what stands behind the language."""

    page: str
    line: int
    language: str
    rest: str
    text: str
    mark: str
    reason: str

    @property
    def where(self) -> str:
        return f"{self.page}:{self.line}"


def documents() -> list[Path]:
    """Every Markdown page that a reader is sent to."""
    return [*sorted(ROOT.glob("*.md")), *sorted(ROOT.glob("docs/**/*.md"))]


def blocks(*languages: str) -> list[Block]:
    """All blocks in these languages, page by page."""
    return [one for path in documents() for one in _blocks(path) if one.language in languages]


def _blocks(path: Path) -> Iterator[Block]:
    text = path.read_text("utf-8")
    for match in FENCE.finditer(text):
        mark, reason, language, rest, body = match.groups(default="")
        line = text.count("\n", 0, match.start(3)) + 1
        page = str(path.relative_to(ROOT))
        yield Block(page, line, language, rest.strip(), body, mark, reason)


def inline(path: Path) -> list[str]:
    """The code within a page's sentences, each on one line."""
    text = FENCE.sub("", path.read_text("utf-8"))
    return [" ".join(match[2].split()) for match in INLINE.finditer(text)]


class Line(NamedTuple):
    """A command of a block, with the output that the page shows for it."""

    where: str
    command: str
    shown: tuple[str, ...]


def lines(block: Block) -> list[Line]:
    """The commands of a shell block; where one has a prompt, lines without one are output.

    Root's prompt is `# `.
    """
    prompt = block.text[:2] if block.text[:2] in ("$ ", "# ") else ""
    found: list[Line] = []
    number = block.line
    for text in block.text.replace("\\\n", "\\\0").splitlines():
        number += 1
        command = text.replace("\\\0", "\\\n")
        if not text.startswith(prompt):
            last = found.pop()
            found.append(last._replace(shown=(*last.shown, text)))
        elif text.strip():
            found.append(Line(f"{block.page}:{number}", command.removeprefix(prompt), ()))
        number += text.count("\0")
    return found
