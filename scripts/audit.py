"""Whether a pinned dependency has a known vulnerability: `make audit`.

pip-audit asks PyPI's advisories. Exit codes: 0 none known, 1 some are, 3 nobody could be asked: an
audit that did not happen is no good news.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

LOCK = Path(__file__).parents[1] / "requirements.lock"
COMMAND = ("uvx", "pip-audit", "-r", str(LOCK), "--disable-pip", "--no-deps", "-f", "json")


def verdict(dependencies: list[dict[str, Any]]) -> tuple[int, list[str]]:
    """The exit code, and what to say, of pip-audit's list of dependencies."""
    skipped = [one["name"] for one in dependencies if "skip_reason" in one]
    known = [
        f"{one['name']} {one['version']}: {vuln['id']}, fixed in {vuln['fix_versions'] or 'none'}"
        for one in dependencies
        for vuln in one.get("vulns", ())
    ]
    if known:
        return 1, known
    if skipped or not dependencies:
        names = " ".join(skipped[:5])
        return 3, [f"not audited: {len(skipped)} of {len(dependencies)}, as {names}"]
    return 0, [f"{len(dependencies)} dependencies, no known vulnerability"]


def main() -> int:
    done = subprocess.run(COMMAND, capture_output=True, text=True, timeout=600, check=False)
    try:
        found = json.loads(done.stdout)["dependencies"]
    except (ValueError, KeyError):
        sys.stderr.write(done.stderr[-500:])
        return 3
    code, lines = verdict(found)
    (sys.stderr if code else sys.stdout).write("\n".join(lines) + "\n")
    return code


if __name__ == "__main__":
    sys.exit(main())
