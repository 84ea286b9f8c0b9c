"""Files by path."""

import glob as globbing
from pathlib import Path
from typing import BinaryIO


def expand(pattern: str) -> list[str]:
    """The files that a path, a folder or a glob names, sorted.

    A plain path is returned as it is, whether or not the file exists. A folder stands for the
    files in it.
    """
    if Path(pattern).is_dir():
        pattern = str(Path(pattern) / "*")
    elif not globbing.has_magic(pattern):
        return [pattern]
    matches = globbing.glob(pattern, recursive=True)  # noqa: PTH207 - Path.glob takes no absolute pattern
    return sorted(p for p in matches if Path(p).is_file())


def exists(path: str) -> bool:
    """Whether there is a file or folder at `path`."""
    return Path(path).exists()


def open_input(path: str) -> BinaryIO:
    """The file at `path`, open for reading bytes. Raises OSError."""
    return Path(path).open("rb")


def read_text(path: str) -> str:
    """The UTF-8 text of the file at `path`. Raises OSError and UnicodeDecodeError."""
    return Path(path).read_text("utf-8")


def write_text(path: str, text: str) -> None:
    """Write `text` to `path` at once: readers see the old file or the new one, never a part."""
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{target.name}.partial")
    temporary.write_text(text, "utf-8")
    temporary.replace(target)


def remove_files(pattern: str) -> None:
    """Delete the files that a path or glob names, if there are any."""
    for path in expand(pattern):
        Path(path).unlink(missing_ok=True)
