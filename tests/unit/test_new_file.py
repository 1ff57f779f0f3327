"""A new file appears complete or not at all, and nothing that exists is replaced or removed."""

from __future__ import annotations

import ast
import errno
from pathlib import Path

import pytest

from nostr_client.errors import InvalidInput
from nostr_client.paths import new_file, replaced_file

ROOT = Path(__file__).parents[2]

RENAMES = {
    "nostr_client/paths.py": "the one place",
    "nostr_client/assertions/card_key.py": "a key that is in use gets its second name",
    "agent/maintenance/backup.py": "a restore renames the store that it replaces",
    "agent/reindex/spark/storesource.py": "Spark's readers skip only names that begin with _",
    "agent/reindex/spark/training.py": "another process makes the cache, in a folder of its own",
}
"""Modules that rename a file, and why each does so itself."""


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


def test_a_file_and_a_folder_are_replaced(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("old", "utf-8")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "old").touch()
    with replaced_file(tmp_path / "file") as part:
        part.write_text("new", "utf-8")
        assert (tmp_path / "file").read_text("utf-8") == "old"
    with replaced_file(tmp_path / "folder") as part:
        part.mkdir()
        (part / "new").touch()
    assert (tmp_path / "file").read_text("utf-8") == "new"
    assert [one.name for one in (tmp_path / "folder").iterdir()] == ["new"]
    assert len(list(tmp_path.iterdir())) == 2


def test_a_failure_replaces_nothing_and_removes_what_stands_beside_the_part(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("old", "utf-8")

    def fail() -> None:
        with replaced_file(tmp_path / "file") as part:
            part.touch()
            part.with_name(f"{part.name}-journal").touch()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert [one.read_text("utf-8") for one in tmp_path.iterdir()] == ["old"]


def renames(source: str) -> bool:
    """Return whether a module calls `Path.rename`, `Path.replace`, or those of `os` or `shutil`."""
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    for call in calls:
        if not isinstance(call.func, ast.Attribute) or call.keywords:
            continue
        owner = ast.unparse(call.func.value)
        if call.func.attr in ("rename", "replace", "move") and (
            owner in ("os", "shutil") or (len(call.args) == 1 and not owner.startswith("msgspec"))
        ):
            return True
    return False


def test_every_other_module_makes_its_files_by_this_one() -> None:
    """`a.replace(b)` of one argument is a path's: that of a text takes two."""
    assert renames("part.replace(target)")
    assert renames("os.rename(a, b)")
    assert not renames("text.replace('a', 'b')")
    found = {
        str(path.relative_to(ROOT))
        for package in ("nostr_client", "agent", "tui")
        for path in (ROOT / package).rglob("*.py")
        if renames(path.read_text("utf-8"))
    }
    assert found == set(RENAMES)
