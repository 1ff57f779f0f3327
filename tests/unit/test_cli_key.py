"""Keys at the command line: made, shown, and never leaked."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING

import click
import pytest

from agent.config.model import IdentitySection
from agent.service.process.secrets import make_signer, signer_of_file
from nostr_client.cli.key import KEY_VARIABLE, load_signer
from nostr_client.codecs.event import EventTemplate
from nostr_client.codecs.keys import KeySigner
from nostr_client.errors import InvalidInput
from tests.unit.test_cli import run_cli

if TYPE_CHECKING:
    from pathlib import Path

SECRET = bytes(range(1, 33))


def test_gen_prints_a_secret_on_stdout_alone() -> None:
    done = run_cli("key", "gen")
    assert done.returncode == 0
    signer = KeySigner.from_nsec(done.stdout.strip())
    assert "nsec" not in done.stderr
    assert signer.pubkey != KeySigner.from_nsec(run_cli("key", "gen").stdout.strip()).pubkey


def test_gen_to_a_file_that_only_the_owner_can_read(tmp_path: Path) -> None:
    path = tmp_path / "key"
    done = run_cli("key", "gen", "--output", str(path), "--json")
    assert done.returncode == 0
    assert path.stat().st_mode & 0o777 == 0o600
    signer = KeySigner.from_nsec(path.read_text("ascii"))
    assert json.loads(done.stdout)["pubkey"] == signer.pubkey
    assert "nsec" not in done.stdout + done.stderr

    again = run_cli("key", "gen", "--output", str(path))
    assert again.returncode == 2
    assert again.stderr.count("\n") == 1
    assert KeySigner.from_nsec(path.read_text("ascii")).pubkey == signer.pubkey


@pytest.mark.parametrize("source", ["file", "stdin", "environment"])
@pytest.mark.parametrize("form", ["nsec", "hex"])
def test_show_takes_the_secret_from(
    source: str, form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    signer = KeySigner(SECRET)
    text = signer.nsec() if form == "nsec" else SECRET.hex()
    path = tmp_path / "key"
    path.write_text(text + "\n", "ascii")
    path.chmod(0o600)
    args = {"file": ["--key-file", str(path)], "stdin": ["--key-file", "-"], "environment": []}
    if source == "environment":
        monkeypatch.setenv("NOSTR_TALLY_KEY", text)
    done = run_cli("key", "show", *args[source], "--json", stdin=text)
    assert json.loads(done.stdout)["pubkey"] == signer.pubkey
    assert text not in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("args", "stdin", "code"),
    [
        (["key", "show"], "", 2),
        (["key", "show", "--key-file", "-"], "nsec1nonsense", 2),
        (["key", "show", "--key-file", "-"], "00" * 32, 2),
        (["key", "show", "--key-file", "/nowhere/at/all"], "", 2),
    ],
)
def test_bad_keys_get_one_line_without_the_key(args: list[str], stdin: str, code: int) -> None:
    done = run_cli(*args, stdin=stdin)
    assert done.returncode == code
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert not stdin or stdin not in done.stderr


def test_a_secret_given_as_an_argument_is_refused_and_not_repeated() -> None:
    nsec = KeySigner(SECRET).nsec()
    done = run_cli("key", "show", nsec)
    assert done.returncode == 2
    assert nsec not in done.stderr


NSEC = KeySigner(SECRET).nsec()


@pytest.mark.parametrize("text", [NSEC, NSEC.upper(), f"nostr:{NSEC}", f"it is {NSEC}", NSEC[:-9]])
@pytest.mark.parametrize(
    "args",
    [
        ("publish", "--content", "{}"),
        ("publish", "--content", "x", "--tag", "t={}"),
        ("req", "--filter", '{{"#t":["{}"]}}'),
        ("watch", "add", "{}", "followers", "00" * 32),
        ("relay", "show", "wss://{}"),
        ("counter", "add", "a.{}", "1"),
    ],
    ids=" ".join,
)
def test_no_command_takes_a_secret_among_what_it_sends_or_stores(
    args: tuple[str, ...], text: str
) -> None:
    done = run_cli(*(one.format(text) for one in args))
    assert done.returncode == 2
    assert "a secret key (nsec) cannot be an argument" in done.stderr
    assert "nsec1" not in (done.stdout + done.stderr).lower()
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("many", [False, True])
def test_an_event_that_holds_a_secret_is_not_published(many: bool, tmp_path: Path) -> None:
    made = [EventTemplate(kind=1, content=text, created_at=1) for text in ("x", f"I am {NSEC}")]
    lines = [KeySigner(SECRET).sign_now(one).event.to_json() for one in made]
    file = tmp_path / "events.jsonl"
    file.write_text("\n".join(lines if many else lines[1:]), "utf-8")
    done = run_cli("publish", str(file), "--relay", "ws://127.0.0.1:9")
    assert done.returncode == 2
    assert ("line 2: " in done.stderr) is many
    assert "holds a secret key" in done.stderr
    assert NSEC not in done.stdout + done.stderr


@pytest.mark.parametrize("content", ["No Key of Mine", "npub1xyz", "00" * 32, ""])
@pytest.mark.parametrize("how", ["file", "stdin", "environment"])
def test_a_wrong_key_is_told_by_where_it_is_and_never_shown(
    content: str, how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if how == "environment" and not content:
        return
    path = tmp_path / "wrong"
    path.write_text(content, "ascii")
    path.chmod(0o600)
    where = {"file": str(path), "stdin": "-", "environment": None}[how]
    if how == "environment":
        monkeypatch.setenv(KEY_VARIABLE, content)
    monkeypatch.setattr("sys.stdin", io.StringIO(content))
    with pytest.raises((InvalidInput, click.UsageError)) as failed:
        load_signer(where)
    told = str(failed.value)
    assert {"file": str(path), "stdin": "stdin", "environment": KEY_VARIABLE}[how] in told
    assert not content or content not in told


async def test_the_agent_says_where_a_wrong_key_is(tmp_path: Path) -> None:
    path = tmp_path / "wrong"
    path.write_text("No Key of Mine", "ascii")
    path.chmod(0o600)
    with pytest.raises(InvalidInput, match=r"identity\.key_file: .*/wrong holds no secret key"):
        await make_signer(IdentitySection(key_file=str(path)))
    with pytest.raises(InvalidInput, match=r"identity\.key_command printed holds no secret key"):
        await make_signer(IdentitySection(key_command=("cat", str(path))))


def test_a_key_file_that_others_can_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_text("00" * 31 + "01", "ascii")
    path.chmod(0o640)
    for load in (load_signer, lambda name: signer_of_file(IdentitySection(key_file=name))):
        with pytest.raises(InvalidInput, match="can be read by others"):
            load(str(path))
    path.chmod(0o600)
    assert load_signer(str(path)).pubkey
