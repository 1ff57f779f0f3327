"""Setting up on machines that are not as one would wish."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

SCRIPT = Path(__file__).parents[1] / "scripts" / "setup-venv"


def test_a_python_of_another_age_is_one_clear_line(tmp_path: Path) -> None:
    bash = shutil.which("bash")
    assert bash is not None
    old = tmp_path / "python3"
    old.write_text(f"#!{bash}\nexit 1\n", "utf-8")
    old.chmod(0o755)
    done = subprocess.run(
        [bash, str(SCRIPT), str(tmp_path / "venv"), str(old)],
        env={"PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "no Python 3.11 to 3.15" in done.stderr
