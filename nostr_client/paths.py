"""Where this product keeps its files, and how it makes a file that is complete or not there at all.

Places follow the rules of the platform (XDG on Linux). Under systemd its STATE_DIRECTORY wins:
store, token and addresses then live there together. Nothing here creates a folder. A new file or
folder is made as a part beside its place, then renamed.
"""

from __future__ import annotations

import glob
import os
import secrets
import shutil
import stat
import sys
import warnings
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from nostr_client.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Iterator

NAME: Final = "nostr-tally"
SERVICE: Final = "nostr-agent"
"""The unit that service managers know the agent by."""

STORE_VARIABLE: Final = "NOSTR_TALLY_STORE"
API_PORT: Final = 4870
RELAY_PORT: Final = 4869
_OPEN_TO_OTHERS: Final = 0o077
LONGEST_SECRET: Final = 4096
"""Bytes of a secret's file that are read: a key or a token has far fewer."""


def store_path() -> Path:
    """The event store: NOSTR_TALLY_STORE, else `store.db` in the data folder."""
    given = os.environ.get(STORE_VARIABLE)
    if given:
        return user_path(given)
    return (_state_directory() or _user_folder("data")) / "store.db"


def user_path(text: str | Path) -> Path:
    """A path as people write it, `~` expanded; that of a user who is not here stays as it is."""
    return Path(os.path.expanduser(text))


def config_path() -> Path:
    """The agent's configuration: `agent.toml` in the configuration folder."""
    return _user_folder("config") / "agent.toml"


def token_path() -> Path:
    """The token that manages the agent through its API."""
    return (_state_directory() or _user_folder("state")) / "token"


def addresses_path() -> Path:
    """`agent.json`, the addresses that a running agent listens on: gone after a reboot."""
    state = _state_directory()
    if state is not None:
        return state / "agent.json"
    folder = _runtime_folder() or _user_folder("state")
    return folder / "agent.json"


def _runtime_folder() -> Path | None:
    """The folder in XDG_RUNTIME_DIR; None without it, and if it is not a folder of this user.

    After `su`, the variable names the folder of another user. platformdirs then warns, and takes
    a folder among temporary files.
    """
    given = os.environ.get("XDG_RUNTIME_DIR")
    if not given:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = _user_folder("runtime")
    return found if found.parent == Path(given) else None


def addresses_places() -> tuple[Path, ...]:
    """Every place of `agent.json`: this user's, and those of services by systemd."""
    return (addresses_path(), *(user_path(place) for place in _SERVICE_PLACES))


_SERVICE_PLACES: Final = tuple(
    f"{folder}/{SERVICE}/agent.json" for folder in ("~/.local/state", "~/.config", "/var/lib")
)
"""Where systemd keeps a StateDirectory: of a user's manager (the second before version 254), and of
the system's."""


def tui_path() -> Path:
    """Return the file in which `nostr-tui` remembers its layout and when it was last used."""
    return _user_folder("state") / "tui.json"


def budgets_path() -> Path:
    """What public relays were asked lately, by all programs of a user and its agent."""
    state = _state_directory() or _user_folder("state", SERVICE)
    return state / "relay-budgets"


def _user_folder(kind: Literal["config", "data", "runtime", "state"], name: str = NAME) -> Path:
    """The user's folder of one kind, by the rules of the platform."""
    import platformdirs  # only commands that need a folder load it

    return Path(getattr(platformdirs, f"user_{kind}_dir")(name, False))


def _state_directory() -> Path | None:
    """The first folder that systemd made for this service, if it did."""
    first = os.environ.get("STATE_DIRECTORY", "").split(":")[0]
    return Path(first) if first else None


def check_secret_file(path: Path) -> None:
    """Raise InvalidInput for a file that others may read, OSError; pipes are nobody's to read."""
    _check_mode(path.stat().st_mode, path)


def read_secret(path: Path) -> str:
    """The text of a secret's file without the space around it.

    Raises InvalidInput for a file that others may read or that is empty, OSError.
    """
    with path.open("rb") as file:
        _check_mode(os.fstat(file.fileno()).st_mode, path)
        text = file.read(LONGEST_SECRET).decode("ascii", "replace").strip()
    if not text:
        raise InvalidInput(f"{path} is empty")
    return text


def write_private(path: Path, data: bytes) -> None:
    """Write a file for its owner alone, whole or not at all. Raises OSError."""
    with (
        replaced_file(path) as part,
        open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file,
    ):
        file.write(data)


def _check_mode(mode: int, path: Path) -> None:
    if stat.S_ISREG(mode) and mode & _OPEN_TO_OTHERS:
        raise InvalidInput(f"{path} can be read by others: chmod 600 it")


def check_free(target: Path) -> None:
    """Raise InvalidInput if anything has the name, a link to nothing too, or its folder lacks."""
    if os.path.lexists(target):
        raise InvalidInput(f"{target} exists; choose another name or remove it")
    if not target.parent.is_dir():
        raise InvalidInput(f"cannot write {target}: {target.parent} is not a folder")


@contextmanager
def new_file(target: Path) -> Iterator[Path]:
    """Yield a free name beside the target; what the block makes there becomes the target.

    If the block fails or is interrupted, what it made is removed. Raises InvalidInput as
    `check_free`, before and after the block. An OSError of the block names the target.
    """
    check_free(target)
    with part_of(target) as part:
        yield part
        check_free(target)
        part.rename(target)


@contextmanager
def replaced_file(target: Path) -> Iterator[Path]:
    """Yield a free name as `new_file` does; what the block makes there replaces the target.

    A file is replaced at once. An earlier folder is removed first, as a rename cannot replace it.
    """
    with part_of(target) as part:
        yield part
        if part.is_dir():
            shutil.rmtree(target, ignore_errors=True)
        part.replace(target)


@contextmanager
def part_of(target: Path) -> Iterator[Path]:
    """Yield a free name beside the target, and remove after the block what still has this name.

    What a library puts beside the part under a longer name, such as a log of SQLite, is removed
    too. So are parts of the same target whose processes were killed. An OSError of the block names
    the target.
    """
    _remove_abandoned(target)
    part = target.with_name(f"{target.name}.{os.getpid()}.{secrets.token_hex(4)}.part")
    try:
        yield part
    except OSError as error:
        if error.filename not in (None, str(part), part):
            raise
        raise OSError(error.errno or 0, _why(error), str(target)) from error
    finally:
        for made in target.parent.glob(f"{glob.escape(part.name)}*"):
            remove(made)


def remove(path: Path) -> None:
    """Remove a file, or a folder with all in it, if it exists."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):  # the error of the block has the reason
            path.unlink(missing_ok=True)


def _remove_abandoned(target: Path) -> None:
    """Remove parts of the target that killed processes left."""
    for left in target.parent.glob(f"{glob.escape(target.name)}.*.part*"):
        number = left.name[len(target.name) + 1 :].partition(".")[0]
        if number.isdecimal() and not _runs(int(number)):
            remove(left)


def _runs(pid: int) -> bool:
    """Return whether a process runs; True if that cannot be known."""
    if sys.platform == "win32":
        return True
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        return True  # another user's
    return True


def _why(error: OSError) -> str:
    """Return the system's words; other libraries write a longer text of their own."""
    return os.strerror(error.errno) if error.errno else str(error)
