"""The configuration: mistakes with their place, what overrides what, template and reference."""

from __future__ import annotations

import contextlib
import json
import stat
from pathlib import Path

import nkeys
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.cli import run
from agent.config import Config, InvalidConfig, load, parse
from agent.config.check import fields
from agent.config.describe import explain, reference, template
from nostr_client.codecs.keys import KeySigner

ROOT = Path(__file__).parents[2]
KEY = "ab" * 32


def mistakes(text: str) -> list[str]:
    with pytest.raises(InvalidConfig) as caught:
        parse(text, "f.toml")
    return [str(one) for one in caught.value.mistakes]


def test_an_empty_file_is_the_defaults() -> None:
    assert parse("") == Config()


def test_the_template_runs_as_it_stands() -> None:
    assert parse(template()) == Config()


def test_every_default_of_the_template_is_what_it_says() -> None:
    lines = template().split("# A watch")[0].splitlines()
    shown = [line[2:] for line in lines if line.startswith("# ") and "    # " in line]
    sections = "\n".join(
        line[2:] if line in {f"# {one}" for one in shown} else line for line in lines
    )
    assert len(shown) > 30
    assert parse(sections) == Config()


def test_the_examples_of_the_template_are_valid() -> None:
    text = template()[template().index("# A watch") :]
    code = "\n".join(line[2:] for line in text.splitlines() if line.startswith(("# [", "# ")))
    kept = [line for line in code.splitlines() if "=" in line or line.startswith("[")]
    filled = "\n".join(kept).replace("npub1…", KEY).replace("…64 hex characters…", KEY)
    config = parse(filled)
    assert [one.name for one in config.watches] == ["my-followers"]
    assert config.syncs[0].direction == "both"
    assert config.coverage[0].alerts[0].when == "< 95 % on 3 relays"
    assert config.retention.rules[0].kinds == (7, 9735)


def test_every_section_and_every_watch_is_looked_at() -> None:
    found = mistakes(
        f"""
[store]
pth = "x"

[api]
connections = "many"

[[watches]]
name = "a b"
query = "followers"
target = "{KEY}"

[[watches]]
name = "long"
query = "followers"
target = "{KEY}"
interval = "10 minutes"

[[watches]]
name = "c"
query = "fame"

[[watches]]
query = "zaps"
"""
    )
    assert found == [
        "f.toml: store.pth: unknown key; did you mean path?",
        "f.toml: api.connections: expected `int`, got `str`",
        "f.toml: watches[0].name: is not letters, digits, dot, dash, underscore",
        'f.toml: watches[1].interval: is not a number and a unit, as in "90s", "10m", "1.5h", "7d"',
        "f.toml: watches[2].query: invalid enum value 'fame'; known are followers, reactions, "
        "reposts, quotes, replies, comments, replies+comments, zaps",
        "f.toml: watches[3].name: is missing",
    ]


def test_too_many_watches_are_a_mistake() -> None:
    one = '[[watches]]\nname = "w%d"\nfilters = [{}]\n'
    (found,) = mistakes("".join(one % n for n in range(10_001)))
    assert found.startswith("f.toml: watches: expected `array` of length <= 10000")


def test_a_text_that_is_no_toml_names_its_line() -> None:
    (found,) = mistakes("[store]\npath =\n")
    assert found.startswith("f.toml: no TOML: ")
    assert "line 2" in found


def test_a_section_that_only_overrides_name_has_their_place() -> None:
    with pytest.raises(InvalidConfig) as caught:
        load(None, environ={"NOSTR_AGENT_STOR__X": "1"}, settings=["relai.y=2"])
    assert [str(one) for one in caught.value.mistakes] == [
        "environment NOSTR_AGENT_STOR__X: stor: unknown key; did you mean store?",
        "--set relai.y: relai: unknown key; did you mean relay?",
    ]


def test_mistakes_of_types_and_of_meaning_are_told_together() -> None:
    found = mistakes(
        """
[store]
pth = "x"

[relays]
default = ["wss://a", "ftp://b"]
proxi = "socks"

[identity]
key_file = 3

[[counters.publish]]
stream = "none"

[[watches]]
name = "a"
query = "zaps"

[[watches]]
name = "b"
every = "1h"
filters = [{ kinds = "x" }]

[[watches]]
name = "a"
filters = [{}]

[[syncs]]
name = "s"
filters = [{ kinds = "y" }]
"""
    )
    assert [one.split(": ")[1] for one in found] == [
        "store.pth",
        "relays.proxi",
        "identity.key_file",
        "watches[1].every",
        "watches[2].name",
        "watches[0].target",
        "syncs[0].filters",
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a = [", "no TOML"),
        ("[[store]]", "f.toml: store: expected `object`, got `array`"),
        ("store = 3", "f.toml: store: expected `object`, got `int`"),
        ("[watches]\nname='x'", "f.toml: watches: expected `array`, got `object`"),
        ('[relays]\ndefault = [\n "wss://a",\n "ftp://b",\n]', "f.toml: relays.default[1]"),
        ('[api]\nlisten = "localhost:70000"', "f.toml: api.listen: there is no port 70000"),
        ('[identity]\nkey_file="a"\nkey_command=["b"]', "f.toml: identity.key_command"),
        ('[relay]\ntls_cert = "x"', "f.toml: relay.tls_cert"),
        ('[relay]\nwrite_keys = ["nsec1"]', "f.toml: relay.write_keys[0]"),
        ('[relays]\nmonitors = ["npub1"]', "f.toml: relays.monitors[0]"),
        ('[network]\nproxy = "socks4://h"', "f.toml: network.proxy"),
        ('[relay]\nurls = ["foo"]', "f.toml: relay.urls[0]: 'foo' is not a ws://"),
        ('[relay]\norigins = ["*", "foo"]', "f.toml: relay.origins[1]: 'foo' is not a web"),
        ('[api]\ncors_origins = ["*"]', "f.toml: api.cors_origins[0]: '*' is not a web"),
        ('[[watches]]\nname="a"', "f.toml: watches[0].filters: give a query"),
        ('[[watches]]\nname="a"\nquery="zaps"', "f.toml: watches[0].target: zaps needs a target"),
        ('[[watches]]\nname="a"\nfilters=[{kinds="x"}]', "f.toml: watches[0].filters"),
        (f'[[watches]]\nname="a"\ntarget="{KEY}"\nfilters=[{{}}]', "f.toml: watches[0].filters"),
        (
            '[[syncs]]\nname="a"\nfilters=[{}]\n[[syncs]]\nname="a"\nfilters=[{}]',
            "f.toml: syncs[1].name: there are two called a",
        ),
        (
            '[[watches]]\nname="a"\nfilters=[{}]\nalerts=[\n{when="> 1"},\n]',
            "f.toml: watches[0].alerts[0]: needs a webhook or a command",
        ),
        (
            '[[watches]]\nname="a"\nfilters=[{}]\n[[watches.alerts]]\nwhen="soon"\ncommand=["x"]',
            "f.toml: watches[0].alerts[0].when",
        ),
        ('[[coverage]]\nname="a"\nauthor="x"', "f.toml: coverage[0].author"),
        (f'[[coverage]]\nname="a"\nauthor="{KEY}"\ninterval="1s"', "f.toml: coverage[0].interval"),
        (
            f'[[coverage]]\nname="a"\nauthor="{KEY}"\nalerts=[{{when="> 5", command=["x"]}}]',
            "f.toml: coverage[0].alerts[0].when",
        ),
        (
            f'[relays]\nindexers=[]\n[[coverage]]\nname="a"\nauthor="{KEY}"\nwritten=true',
            "f.toml: coverage[0].written",
        ),
        (
            f'[[coverage]]\nname="a"\nauthor="{KEY}"\n[[coverage]]\nname="a"\nauthor="{KEY}"',
            "f.toml: coverage[1].name",
        ),
        (f'[[coverage]]\nname="a"\nauthor="{KEY}"\nkind=[1]', "f.toml: coverage[0].kind"),
    ],
)
def test_what_cannot_be_used_is_told(text: str, expected: str) -> None:
    assert any(one.startswith((expected, f"f.toml: {expected}")) for one in mistakes(text))


def test_what_is_wrong_in_one_section_hides_nothing_of_another() -> None:
    found = mistakes(
        """
[relays]
most = -4

[relay]
listen = "127.0.0.1:99999"

[[watches]]
name = "a b"
query = "zaps"

[[watches]]
name = "c"
filters = [{}]
relays = ["ftp://x"]
alerts = [{ when = "soon", command = ["x"] }]

[[syncs]]
name = 3

[[syncs]]
name = "s"
filters = [{}]
relays = ["wss://", "ws://good"]
"""
    )
    assert [one.split(": ")[1] for one in found] == [
        "relays.most",
        "watches[0].name",
        "syncs[0].name",
        "watches[1].relays[0]",
        "watches[1].alerts[0].when",
        "syncs[1].relays[0]",
        "relay.listen",
    ]


OPEN = "can be read by others"
SOURCE = """
[[counters.sources]]
name = "other"
stream = "app"
agent = "http://127.0.0.1:1"
"""
PUSH = """
[[counters.push]]
name = "hub"
stream = "app"
servers = ["nats://127.0.0.1:1"]
agent = "mine"
"""


def nats_credentials(folder: Path) -> Path:
    """A .creds file of a made-up user."""
    seed = nkeys.encode_seed(bytes(32), nkeys.PREFIX_BYTE_USER).decode()
    path = folder / "user.creds"
    path.write_text(
        "-----BEGIN NATS USER JWT-----\na.b.c\n------END NATS USER JWT------\n"
        f"-----BEGIN USER NKEY SEED-----\n{seed}\n------END USER NKEY SEED------\n"
    )
    return path


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("ftp://h/s3cr3t", "is not an http:// or https:// URL"),
        ("hooks.example/s3cr3t", "is not an http:// or https:// URL"),
        ("https://", "no host follows the //"),
        ("https:///s3cr3t", "no host follows the //"),
        ("https://h:99999/s3cr3t", "its port is not a number from 1 to 65535"),
        ("https://h:0/s3cr3t", "its port is not a number from 1 to 65535"),
        ("https://h:x/s3cr3t", "its port is not a number from 1 to 65535"),
        ("https://h/s3cr3t s3cr3t", "it has a space, a backslash or a control character in it"),
        (r"https://h\\\\@s3cr3t/", "it has a space, a backslash or a control character in it"),
        ("https://[::1/s3cr3t", "its host cannot be read"),
    ],
)
def test_what_is_no_webhook_is_refused_with_what_is_wrong_and_without_its_secrets(
    url: str, why: str
) -> None:
    alerts = f'alerts = [{{ when = "> 1", webhook = "{url}" }}]'
    watch = f'[[watches]]\nname = "w"\nfilters = [{{}}]\n{alerts}\n'
    (found,) = mistakes(watch)
    assert found.startswith("f.toml: watches[0].alerts[0].webhook: ")
    assert found.endswith(why)
    assert "s3cr3t" not in found


@pytest.mark.parametrize(
    ("text", "key", "why"),
    [
        ('[identity]\nkey_file = "{0}/none"', "identity.key_file", "No such file"),
        ('[identity]\nkey_file = "{0}"', "identity.key_file", "directory"),
        ('[identity]\nkey_file = "{0}/agent.toml"', "identity.key_file", "agent.toml"),
        ('[store]\npath = "{0}"', "store.path", "it is no file"),
        ('[store]\npath = "{0}/agent.toml/x.db"', "store.path", "is no folder"),
        ('[relay]\ntoken_file = "{0}/none"', "relay.token_file", "No such file"),
        ('[relay]\ntls_cert = "{0}/a"\ntls_key = "{0}/b"', "relay.tls_cert", "TLS files"),
        ('[relay]\nlisten = "0.0.0.0:4869"', "relay.listen", "not loopback"),
        ('[api]\ntoken_file = "{0}/agent.toml"', "api.token_file", OPEN),
        (f'{SOURCE}token_file = "{{0}}/none"', "counters.sources[0].token_file", "No such file"),
        (f'{SOURCE}token_file = "{{0}}/agent.toml"', "counters.sources[0].token_file", OPEN),
        (f'{PUSH}credentials = "{{0}}/none"', "counters.push[0].credentials", "cannot be read"),
        (f'{PUSH}credentials = "{{0}}/user.creds"', "counters.push[0].credentials", OPEN),
        ('[identity]\nkey_file = "{0}/none"\n[api]\nlisten = "x:99999"', "api.listen", "port"),
        ('[identity]\nkey_file = "{0}/none"\n[relays]\nmost = -4', "relays.most", "1"),
    ],
)
def test_check_looks_at_what_the_file_names(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, key: str, why: str
) -> None:
    file = tmp_path / "agent.toml"
    file.write_text(text.format(tmp_path))
    file.chmod(0o644)
    nats_credentials(tmp_path).chmod(0o644)
    assert run(["check", "--config", str(file), "--json"]) == 2
    told = json.loads(capsys.readouterr().out)["mistakes"]
    assert key in [one["key"] for one in told]
    for one in told:
        assert one["where"] == str(file)
        if one["key"] == key:
            assert why in one["why"]
    assert "identity.key_file" in [one["key"] for one in told] or "key_file" not in text


def test_what_stands_in_a_wrong_place_is_not_repeated(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nsec = KeySigner(bytes(31) + b"\x01").nsec()
    file = tmp_path / "agent.toml"
    key_file = f'[identity]\nkey_file = "{nsec}"\n'
    file.write_text(key_file + PUSH.replace("127.0.0.1:1", "bob:s3cr3t"))
    for command in (["check"], ["check", "--json"], ["run"]):
        assert run([*command, "--config", str(file)]) == 2
        said = "".join(capsys.readouterr())
        assert "counters.push[0].servers[0]" in said
        assert nsec not in said
        assert "s3cr3t" not in said


def test_run_says_where_an_address_is_wrong(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "agent.toml"
    file.write_text('[network]\nproxy = "socks4://bob:s3cr3t@h"\n[api]\nlisten = "0.0.0.0:99999"\n')
    assert run(["run", "--config", str(file)]) == 2
    said = capsys.readouterr().err
    assert f"{file}: api.listen: there is no port 99999" in said
    assert f"{file}: network.proxy" in said
    assert "s3cr3t" not in said


def test_flags_win_over_environment_over_file(tmp_path: Path) -> None:
    file = tmp_path / "agent.toml"
    file.write_text('[store]\npath = "file"\n[api]\nconnections = 5\nbody_limit = 2048\n')
    environ = {
        "NOSTR_AGENT_STORE__PATH": "environment",
        "NOSTR_AGENT_API__CONNECTIONS": "6",
        "NOSTR_AGENT_RELAYS__DEFAULT": "wss://a.example wss://b.example",
        "NOSTR_AGENT_CONFIG": "not a key",
        "PATH": "/bin",
    }
    config = load(file, environ=environ, settings=["store.path=flag", "relays.read=false"])
    assert config.store.path == "flag"
    assert config.api.connections == 6
    assert config.api.body_limit == 2048
    assert config.relays.default == ("wss://a.example", "wss://b.example")
    assert config.relays.read is False


def test_overrides_are_checked_and_named() -> None:
    with pytest.raises(InvalidConfig) as caught:
        load(
            None,
            environ={"NOSTR_AGENT_STORE__PTH": "x", "NOSTR_AGENT_FOO": "y"},
            settings=["api.connections=many", "nonsense", "relay.connections=0"],
        )
    assert [(one.where, one.key) for one in caught.value.mistakes] == [
        ("environment NOSTR_AGENT_FOO", "foo"),
        ("--set nonsense", "nonsense"),
        ("environment NOSTR_AGENT_STORE__PTH", "store.pth"),
        ("--set api.connections", "api.connections"),
        ("--set relay.connections", "relay.connections"),
    ]


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    bad = tmp_path / "bad.toml"
    bad.write_bytes(b"\xff\xfe")
    for path in (bad, tmp_path / "none.toml"):
        assert run(["check", "--config", str(path)]) == 2


def test_the_reference_is_made_from_the_model() -> None:
    path = ROOT / "docs/reference/configuration.md"
    assert path.read_text("utf-8") == reference(), "nostr-agent init --reference > " + str(path)


def test_every_setting_says_what_it_is_for() -> None:
    for section in fields(Config):
        assert section.struct is not None
        for one in fields(section.struct):
            assert one.struct or explain(one), f"{section.name}.{one.name}"


def test_init_writes_for_the_owner_alone_and_replaces_nothing(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "agent.toml"
    assert run(["init", "--config", str(path)]) == 0
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert run(["check", "--config", str(path)]) == 0
    assert run(["init", "--config", str(path)]) == 2
    assert run(["init", "--config", str(path), "--force"]) == 0


def test_init_follows_no_link_to_nothing_and_no_file_as_folder(tmp_path: Path) -> None:
    link, file = tmp_path / "agent.toml", tmp_path / "file"
    link.symlink_to(tmp_path / "nothing.toml")
    file.touch()
    assert run(["init", "--config", str(link)]) == 2
    assert link.is_symlink()
    assert run(["init", "--config", str(file / "x.toml")]) == 2
    assert run(["init", "--config", str(file / "deep" / "x.toml")]) == 2
    assert run(["init", "--config", str(link), "--force"]) == 0


def test_init_offers_no_option_that_it_refuses(capsys: pytest.CaptureFixture[str]) -> None:
    """It writes the defaults, which no `--set` changes."""
    assert run(["init", "--help"]) == 0
    assert "--set" not in capsys.readouterr().out
    assert run(["init", "--set", "store.path=/x"]) == 2


def test_check_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "agent.toml"
    path.write_text("[stor]\n")
    assert run(["check", "--config", str(path), "--json"]) == 2
    told = json.loads(capsys.readouterr().out)
    assert told["ok"] is False
    assert told["mistakes"][0]["key"] == "stor"
    assert told["mistakes"][0]["where"].endswith("agent.toml")


@given(st.text(max_size=200))
def test_no_text_crashes_it(text: str) -> None:
    with contextlib.suppress(InvalidConfig):
        assert isinstance(parse(text), Config)


@given(st.text(alphabet="[]{}=.,\"'#\n ab1\\", max_size=80))
def test_no_near_toml_crashes_it(text: str) -> None:
    with contextlib.suppress(InvalidConfig):
        assert isinstance(parse(text), Config)


def test_mistakes_of_sources_and_of_what_is_published() -> None:
    found = mistakes(
        f"""
[[counters.streams]]
name = "total"
subjects = []
[[counters.sources]]
name = "total"
stream = "totals"
agent = "ftp://there"
[[counters.sources]]
name = "both"
stream = "total"
agent = "http://there"
token_file = "token"
pubkey = "{KEY}"
transforms = [{{ src = "a.*", dest = "b.{{{{wildcard(2)}}}}" }}]
[[counters.sources]]
name = "both"
stream = "total"
pubkey = "npub1"
relays = ["ftp://relay"]
[[counters.publish]]
stream = "total"
subjects = ["a..b"]
readers = ["nobody"]
"""
    )
    said = "\n".join(found)
    for part in (
        "counters.sources[2].name: there are two called both",
        "f.toml: counters.sources[0].stream: counters.streams has no totals",
        "f.toml: counters.sources[0].agent: is not an http:// or https:// URL",
        "counters.sources[0].token_file: is missing",
        "f.toml: counters.sources[1]: needs either agent or pubkey",
        "f.toml: counters.sources[1].transforms[0]: ",
        "f.toml: counters.sources[2].pubkey: ",
        "counters.sources[2].relays[0]: ",
        "counters.publish[0]: needs identity.key_file",
        "f.toml: counters.publish[0].subjects[0]: is not a subject",
        "f.toml: counters.publish[0].readers[0]: ",
    ):
        assert part in said


def test_intervals_are_bounded_wherever_somebody_is_asked() -> None:
    found = mistakes(
        f"""
[retention]
interval = "0s"

[[counters.sources]]
name = "other"
stream = "app"
agent = "http://127.0.0.1:1"
interval = "99ms"

[[watches]]
name = "w"
query = "followers"
target = "{KEY}"
interval = "1ms"

[[syncs]]
name = "s"
filters = [{{}}]
interval = "9.9s"
"""
    )
    assert {one for one in found if "interval" in one} == {
        "f.toml: retention.interval: is 0.1 seconds at least",
        "f.toml: counters.sources[0].interval: is 0.1 seconds at least",
        "f.toml: watches[0].interval: is 10 seconds at least",
        "f.toml: syncs[0].interval: is 10 seconds at least",
    }


def test_a_sync_has_no_limit() -> None:
    found = mistakes("[[syncs]]\nname = 's'\nfilters = [{ kinds = [1], limit = 3 }]\n")
    assert len(found) == 1
    assert "limit: a sync has no limit: give since and until" in found[0]
