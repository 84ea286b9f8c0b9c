"""Files by path, locally and on an emulated Google Cloud Storage: the same functions."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import storage
from tests.support.gcs import emulated_bucket


@pytest.fixture(params=["local", "gs"])
def root(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    if request.param == "local":
        yield str(tmp_path)
        return
    with emulated_bucket(monkeypatch) as bucket:
        yield f"{bucket}/some/root"


def test_written_text_is_read_back(root: str) -> None:
    """Replaced as a whole, and absent before and after."""
    path = f"{root}/a/b.json"
    assert not storage.exists(path)
    storage.write_text(path, "one é")
    storage.write_text(path, "two é")
    assert storage.exists(path)
    assert storage.read_text(path) == "two é"
    with storage.open_input(path) as file:
        assert file.seek(1) == 1
        assert file.read(2) == b"wo"
    storage.remove_files(path)
    storage.remove_files(path)
    assert not storage.exists(path)


def test_a_missing_file_is_an_os_error(root: str) -> None:
    """Whatever the store."""
    with pytest.raises(OSError, match="missing"):
        storage.open_input(f"{root}/missing")


def test_patterns(root: str) -> None:
    """Plain paths as they are, folders and globs as the files in them, sorted."""
    for name in ("b.x", "a.x", "a.y", "deep/c.x", "odd(1).x"):
        storage.write_text(f"{root}/{name}", "")
    names = {
        f"{root}/a.x": ["a.x"],
        f"{root}/nothing": ["nothing"],
        f"{root}/*.x": ["a.x", "b.x", "odd(1).x"],
        f"{root}/**/*.x": ["a.x", "b.x", "deep/c.x", "odd(1).x"],
        f"{root}/?.[xy]": ["a.x", "a.y", "b.x"],
        f"{root}/*.z": [],
        f"{root}/deep/": ["deep/c.x"],
    }
    for pattern, expected in names.items():
        assert storage.expand(pattern) == [f"{root}/{name}" for name in expected]
    storage.remove_files(f"{root}/*.x")
    assert storage.expand(f"{root}/**/*.*") == [f"{root}/a.y", f"{root}/deep/c.x"]
