"""Units and property lists that service managers read."""

from __future__ import annotations

import json
import os
import plistlib
import subprocess
import sys
from pathlib import Path

import pytest

from agent.cli import run
from agent.commands import service_files
from agent.config.describe import template
from tests.conftest import require_tool

COMMAND = (sys.executable, "-m", "agent", "run", "--config", "/a path/100%/$x/agent.toml")


@pytest.mark.parametrize("user", [True, False], ids=["user", "system"])
def test_systemd_finds_no_fault_with_the_unit(tmp_path: Path, user: bool) -> None:
    tool = require_tool("systemd-analyze")
    file = tmp_path / "nostr-agent.service"
    file.write_text(service_files.systemd(COMMAND, user=user))
    (tmp_path / "run").mkdir(mode=0o700)
    env = os.environ | {"XDG_RUNTIME_DIR": str(tmp_path / "run")}
    mode = ["--user"] if user else []
    done = subprocess.run(
        [tool, "verify", *mode, str(file)],
        env=env,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "nostr-agent.service" not in done.stderr


def test_the_unit_is_hardened_and_watched() -> None:
    for user in (True, False):
        text = service_files.systemd(COMMAND, user=user)
        for line in (
            "Type=notify",
            "WatchdogSec=60",
            "ProtectSystem=strict",
            "NoNewPrivileges=yes",
            "StateDirectory=nostr-agent",
            "Restart=always",
        ):
            assert f"\n{line}\n" in text
    assert "DynamicUser=yes" in text


def test_words_that_systemd_would_change_stand_for_themselves() -> None:
    text = service_files.systemd(COMMAND, user=True)
    assert '"/a path/100%%/$$x/agent.toml"' in text


def test_launchd_gets_a_property_list() -> None:
    found = plistlib.loads(service_files.launchd(COMMAND, "/tmp/log").encode())
    assert found["ProgramArguments"] == list(COMMAND)
    assert found["KeepAlive"] is True


def test_install_service_writes_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert run(["install-service"]) == 0
    path = Path(capsys.readouterr().out.strip())
    assert path.is_relative_to(tmp_path)
    assert "agent" in path.read_text()
    assert run(["install-service"]) == 2
    assert run(["install-service", "--force", "--json"]) == 0
    capsys.readouterr()
    assert run(["install-service", "--print", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["file"], told["text"]) == (str(path), path.read_text())
    assert any("enable" in line or "load" in line for line in told["then"])
    assert run(["init", "--print", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"text": template()}


def test_the_unit_may_write_what_its_configuration_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    file = tmp_path / "agent.toml"
    file.write_text(f'[store]\npath = "{tmp_path}/100% $x/s.db"\n')
    assert run(["install-service", "--print"]) == 0
    assert "ReadWritePaths" not in capsys.readouterr().out
    monkeypatch.setenv("NOSTR_AGENT_CONFIG", str(file))
    assert run(["install-service", "--print"]) == 0
    text = capsys.readouterr().out
    assert f'\nReadWritePaths="-{tmp_path}/100%% $x"\n' in text
    assert f"--config {file}" in text
    file.write_text("[stor]\n")
    assert run(["install-service", "--print"]) == 2
