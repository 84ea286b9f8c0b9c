"""Files by path: local, or on Google Cloud Storage for paths that begin with gs://."""

from storage.paths import (
    exists,
    expand,
    make_folder,
    open_input,
    read_text,
    remove_files,
    write_bytes,
    write_text,
)

__all__ = [
    "exists",
    "expand",
    "make_folder",
    "open_input",
    "read_text",
    "remove_files",
    "write_bytes",
    "write_text",
]
