"""The Dockerfile's steps, run one by one in a clean root: where no container engine is at hand.

The root is Debian's, as the images of `python` are, with Debian's own Python. Its steps are run as
root, in roots of this test's folder.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import pytest

from agent.config import load
from tests.conftest import missing, require_tool
from tests.nats_cluster import free_ports

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT: Final = Path(__file__).parents[1]
SUITE: Final = "trixie"
MIRROR: Final = "http://deb.debian.org/debian"
MOUNTED: Final = re.compile(r"--mount=type=bind,from=(\w+),source=(\S+),target=(\S+)\s+")
KNOWN: Final = {
    "FROM", "WORKDIR", "COPY", "RUN", "USER", "ENV", "VOLUME", "EXPOSE", "HEALTHCHECK",
    "ENTRYPOINT", "CMD",
}  # fmt: skip


class Step(NamedTuple):
    """One instruction of a Dockerfile and its text."""

    instruction: str
    text: str


def stages() -> list[list[Step]]:
    """The steps of the Dockerfile, one list for each FROM."""
    text = (ROOT / "Dockerfile").read_text("utf-8")
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    steps = [Step(*line.split(maxsplit=1)) for line in "\n".join(lines).replace("\\\n", " ")
             .splitlines() if line.strip()]  # fmt: skip
    found: list[list[Step]] = []
    for step in steps:
        if step.instruction == "FROM":
            found.append([])
        found[-1].append(step)
    return found


def texts(steps: list[Step], instruction: str) -> list[str]:
    return [step.text for step in steps if step.instruction == instruction]


def environment(steps: list[Step]) -> dict[str, str]:
    words = [word for text in texts(steps, "ENV") for word in shlex.split(text)]
    return dict(word.split("=", 1) for word in words)


def health(steps: list[Step]) -> list[str]:
    """The command of the health check."""
    (text,) = texts(steps, "HEALTHCHECK")
    words: list[str] = json.loads(text.partition("CMD ")[2])
    return words


def test_every_step_is_one_that_the_trial_runs() -> None:
    build, final = stages()
    assert {step.instruction for step in (*build, *final)} <= KNOWN
    assert [text.split()[-1] for text in texts(build, "FROM")] == ["build"]
    for text in texts(final, "RUN"):
        assert ("--mount" in text) == bool(MOUNTED.match(text))


def test_the_image_listens_where_its_health_check_asks() -> None:
    final = stages()[-1]
    config = load(None, environ=environment(final))
    port = config.api.listen.rpartition(":")[2]
    assert port in texts(final, "EXPOSE")[0].split()
    program = health(final)
    compile(program[-1], "the health check", "exec")
    assert f"127.0.0.1:{port}/healthz" in program[-1]
    assert environment(final)["STATE_DIRECTORY"] == texts(final, "VOLUME")[0]


def within(root: Path, *command: str, user: str = "0:0") -> list[str]:
    """A command in a root, with a /proc that ends with it."""
    script = 'mount -t proc proc "$0/proc" && exec chroot --userspec="$1" "$0" "${@:2}"'
    return ["unshare", "--mount", "--", "bash", "-c", script, str(root), user, *command]


def clean_root(folder: Path) -> Path:
    """A root of Debian with Python, pip, and what this machine needs to reach PyPI."""
    root = folder / "clean"
    subprocess.run(
        [require_tool("debootstrap"), "--variant=minbase",
         "--include=python3,python3-pip,ca-certificates", SUITE, root, MIRROR],
        check=True, stdout=subprocess.DEVNULL, timeout=900,
    )  # fmt: skip
    for marker in root.glob("usr/lib/python3*/EXTERNALLY-MANAGED"):
        marker.unlink()  # the images of `python` have none
    (root / "usr/local/bin/python").symlink_to("/usr/bin/python3")
    for name in ("/etc/resolv.conf", os.environ.get("PIP_CERT", "/etc/resolv.conf")):
        shutil.copyfile(name, root / name.lstrip("/"))
    return root


@pytest.fixture
def clean(tmp_path: Path) -> Iterator[Path]:
    if os.geteuid() != 0:
        missing("root, for chroot")
    require_tool("unshare")
    yield clean_root(tmp_path)
    shutil.rmtree(tmp_path, ignore_errors=True)


def run_steps(steps: list[Step], root: Path, others: dict[str, Path]) -> None:
    """Run what a stage's COPY, WORKDIR and RUN say; `others` are the roots of earlier stages."""
    place = "/"
    pip = [f"{name}={value}" for name, value in os.environ.items() if name.startswith("PIP_")]
    for step in steps:
        if step.instruction == "WORKDIR":
            place = step.text
            (root / place.lstrip("/")).mkdir(parents=True)
        elif step.instruction == "COPY":
            listed = subprocess.run(
                ["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True
            )
            for name in listed.stdout.split("\0")[:-1]:
                target = root / place.lstrip("/") / name
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / name, target)
        elif step.instruction == "RUN":
            text = step.text
            if found := MOUNTED.match(text):
                stage, source, target_name = found.groups()
                shutil.copytree(others[stage] / source[1:], root / target_name[1:])
                text = text[found.end() :]
            command = ("env", *pip, "bash", "-c", f"cd {place} && {text}")
            subprocess.run(within(root, *command), check=True, timeout=600)
            if found:
                shutil.rmtree(root / target_name[1:])


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_the_steps_in_a_clean_root_give_a_healthy_agent(clean: Path, tmp_path: Path) -> None:
    build, final = stages()
    built = tmp_path / "build"
    subprocess.run(["cp", "-a", clean, built], check=True)
    run_steps(build, built, {})
    run_steps(final, clean, {"build": built})
    (port,) = free_ports(1)
    env = {**environment(final), "NOSTR_AGENT_API__LISTEN": f"127.0.0.1:{port}",
           "HOME": "/var/lib/nostr-agent"}  # fmt: skip
    words = [word for name in ("ENTRYPOINT", "CMD") for word in json.loads(texts(final, name)[0])]
    (user,) = texts(final, "USER")
    given = [f"{name}={value}" for name, value in env.items()]
    check = [word.replace("4870", str(port)) for word in health(final)]
    with subprocess.Popen(
        within(clean, "env", *given, *words, user=user), stderr=subprocess.PIPE
    ) as agent:
        try:
            while not is_healthy(clean, check, user):
                assert agent.poll() is None, agent.communicate()
        finally:
            agent.terminate()
            _, said = agent.communicate()
    assert agent.returncode == 0, said
    state = clean / env["STATE_DIRECTORY"].lstrip("/")
    kept = [path for path in state.rglob("*") if path.is_file()]
    assert {path.stat().st_uid for path in kept} == {int(user.partition(":")[0])}
    assert {"store.db", "token"} <= {path.name for path in kept}


def is_healthy(root: Path, check: list[str], user: str) -> bool:
    """Whether the image's health check passes, as its user."""
    asked = within(root, *check, user=user)
    return not subprocess.run(asked, capture_output=True, check=False).returncode
