"""The store of finished files: a local directory, or a file system that Arrow supports by URL (s3://, gs://, file://).

A file appears atomically: locally it is renamed into its place; elsewhere it is uploaded, and object stores show an
upload only when it is complete.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Final, Protocol

import pyarrow as pa
from pyarrow import fs

UPLOAD_BYTES: Final = 8 << 20
"""Read and sent at a time."""


class Store(Protocol):
    """Takes files that are complete."""

    def publish(self, file: Path, place: str) -> None:
        """Move a local file to a place below the journal's root. Raises OSError, and then `file` is still there."""


class LocalStore:
    """A directory."""

    def __init__(self, root: Path) -> None:
        """Made when the first file comes."""
        self.root = root

    def publish(self, file: Path, place: str) -> None:
        """As the protocol says."""
        target = self.root / place
        target.parent.mkdir(parents=True, exist_ok=True)
        with file.open("rb") as data:
            os.fsync(data.fileno())
        try:
            file.replace(target)
        except OSError:  # another file system
            part = target.with_name(f".{target.name}.part")
            shutil.copyfile(file, part)
            part.replace(target)
            file.unlink()


class RemoteStore:
    """An Arrow file system."""

    def __init__(self, filesystem: fs.FileSystem, root: str) -> None:
        """`root` is a path within it."""
        self._filesystem = filesystem
        self._root = root.rstrip("/")

    def publish(self, file: Path, place: str) -> None:
        """As the protocol says."""
        target = f"{self._root}/{place}"
        self._filesystem.create_dir(target.rpartition("/")[0], recursive=True)
        with file.open("rb") as data, self._filesystem.open_output_stream(target) as upload:
            shutil.copyfileobj(data, upload, UPLOAD_BYTES)
        file.unlink()


def store_at(place: str) -> Store:
    """The store at a path or URL.

    Raises:
        ValueError: Arrow does not support it; the text has the reason.
    """
    if "://" not in place:
        return LocalStore(Path(place))
    try:
        filesystem, root = fs.FileSystem.from_uri(place)
    except (pa.ArrowInvalid, OSError) as error:
        raise ValueError(f"{place}: {error}; it should be a path or a URL such as s3://bucket/folder") from error
    return LocalStore(Path(root)) if isinstance(filesystem, fs.LocalFileSystem) else RemoteStore(filesystem, root)
