"""Writing a file so that a kill at any moment leaves the old content or the new."""

from __future__ import annotations

import os
from pathlib import Path

from wattlaw.errors import FileError


def write_atomic(path: str | Path, text: str) -> None:
    """Write a whole file so that a reader, or a kill, sees either the old content or the new, never a part.

    Raises:
        FileError: the folder or file cannot be written; the old content is left as it was.
    """
    path = Path(path)
    if path.is_symlink():
        path = path.resolve()  # the file that is meant is replaced, and not the link to it
    if path.exists() and not path.is_file():
        raise FileError("a folder or device, not a file", allowed="a file").at(path)
    if path.exists() and not os.access(path, os.W_OK):
        raise FileError("cannot write the file", given="it is read-only").at(path)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        try:
            with part.open("w", encoding="utf-8", errors="surrogateescape", newline="") as file:  # of odd file names
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)
        sync_folder(path.parent)
    except OSError as error:
        raise FileError("cannot write the file", given=error.strerror).at(path) from error


def sync_folder(folder: Path) -> None:
    """Force the entry of a new file to disk; systems that cannot open a folder need no such call."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
