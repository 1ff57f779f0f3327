"""What MkDocs is to do with our pages before it renders them."""

from __future__ import annotations

import re
from typing import Any

_FRAGMENT = re.compile(r"^(```\w+) fragment$", re.MULTILINE)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Drop the word that keeps `tests/test_docs.py` from running a block: it is not for readers."""
    return _FRAGMENT.sub(r"\1", markdown)
