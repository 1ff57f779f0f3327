"""A new file appears complete or not at all, and nothing that exists is replaced or removed."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

import pytest

from nostr_client.errors import InvalidInput
from nostr_client.store.new_file import new_file

if TYPE_CHECKING:
    from pathlib import Path


def test_what_a_block_makes_gets_the_name(tmp_path: Path) -> None:
    for name, make in (("file", lambda part: part.touch()), ("folder", lambda part: part.mkdir())):
        with new_file(tmp_path / name) as part:
            make(part)
            assert not (tmp_path / name).exists()
    assert {one.name for one in tmp_path.iterdir()} == {"file", "folder"}


def test_a_name_that_anything_has_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "nothing")
    for name in ("file", "folder", "link"):
        with pytest.raises(InvalidInput, match="exists"), new_file(tmp_path / name):
            raise AssertionError("the block ran")
    assert (tmp_path / "link").is_symlink()


def test_a_file_that_appears_meanwhile_stays(tmp_path: Path) -> None:
    def both_write() -> None:
        with new_file(tmp_path / "a") as part:
            part.write_text("ours", "utf-8")
            (tmp_path / "a").write_text("theirs", "utf-8")

    with pytest.raises(InvalidInput, match="exists"):
        both_write()
    assert (tmp_path / "a").read_text("utf-8") == "theirs"
    assert len(list(tmp_path.iterdir())) == 1


def test_a_folder_that_lacks_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="none is not a folder"), new_file(tmp_path / "none/a"):
        pass


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "full"), KeyboardInterrupt()])
def test_a_failure_leaves_nothing_and_names_the_file(tmp_path: Path, error: BaseException) -> None:
    def fail() -> None:
        with new_file(tmp_path / "a") as part:
            part.mkdir()
            (part / "inside").touch()
            raise error

    with pytest.raises(type(error)) as caught:
        fail()
    assert list(tmp_path.iterdir()) == []
    if isinstance(caught.value, OSError):
        assert caught.value.filename == str(tmp_path / "a")
        assert caught.value.errno == errno.ENOSPC
