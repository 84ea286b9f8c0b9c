"""Files by path. The client of Google Cloud Storage is loaded only for gs:// paths."""

import glob
from pathlib import Path
from types import ModuleType
from typing import BinaryIO


def expand(pattern: str) -> list[str]:
    """The files that a path, a folder or a glob names, sorted.

    A plain path is returned as it is, whether or not the file exists. A folder stands for the
    files in it; on gs:// its name ends in a slash.
    """
    if _is_gcs(pattern):
        return _gcs().expand(pattern)  # type: ignore[no-any-return]
    if Path(pattern).is_dir():
        pattern = str(Path(pattern) / "*")
    elif not glob.has_magic(pattern):
        return [pattern]
    matches = glob.glob(pattern, recursive=True)  # noqa: PTH207 - Path.glob takes no absolute pattern
    return sorted(p for p in matches if Path(p).is_file())


def exists(path: str) -> bool:
    """Whether there is a file at `path`. Raises OSError when it cannot be known."""
    return bool(_gcs().exists(path)) if _is_gcs(path) else Path(path).exists()


def open_input(path: str) -> BinaryIO:
    """The file at `path`, open for reading bytes. Raises OSError."""
    return _gcs().open_input(path) if _is_gcs(path) else Path(path).open("rb")


def read_text(path: str) -> str:
    """The UTF-8 text of the file at `path`. Raises OSError and UnicodeDecodeError."""
    with open_input(path) as file:
        return file.read().decode("utf-8")


def write_text(path: str, text: str) -> None:
    """Write `text` to `path` as UTF-8, like `write_bytes`."""
    write_bytes(path, text.encode("utf-8"))


def write_bytes(path: str, data: bytes) -> None:
    """Write `data` to `path` at once: readers see the old file or the new one, never a part."""
    if _is_gcs(path):
        _gcs().write_bytes(path, data)
        return
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{target.name}.partial")
    temporary.write_bytes(data)
    temporary.replace(target)


def make_folder(path: str) -> None:
    """Make a folder, with those above it, if it is not there. Raises OSError.

    On gs:// there are none to make.
    """
    if not _is_gcs(path):
        Path(path).mkdir(parents=True, exist_ok=True)


def remove_files(pattern: str) -> None:
    """Delete the files that a path or glob names, if there are any. Raises OSError."""
    for path in expand(pattern):
        if _is_gcs(path):
            _gcs().remove(path)
        else:
            Path(path).unlink(missing_ok=True)


def _is_gcs(path: str) -> bool:
    return path.startswith("gs://")


def _gcs() -> ModuleType:
    from storage import gcs

    return gcs
