"""Where a journal is: by Arrow, which lists its files, and by Spark, which reads them; each has names of its own.

One URL is enough for both. Arrow takes an object store's options from the URL's query (`endpoint_override`, `scheme`,
`region`), Spark's connector for S3 from settings.

Sources: Arrow's `FileSystem.from_uri`; Hadoop's "Connecting to an Amazon S3 Bucket through the S3A Connector".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qsl, urlsplit

import pyarrow as pa
from pyarrow import fs

BUCKETS: Final = {"s3": "s3a", "gs": "gs", "gcs": "gs"}
"""Stores whose buckets' names say where they are, with Spark's name for them."""
S3A: Final = "spark.hadoop.fs.s3a"


class JournalError(Exception):
    """There is nothing to report on; the text says what was looked for, where, and what would be right."""


@dataclass(frozen=True, slots=True)
class Place:
    """A journal's root."""

    root: str
    """As it was given: a path or a URL."""
    filesystem: fs.FileSystem
    path: str
    """Within the file system."""

    @property
    def is_local(self) -> bool:
        """Whether it is a directory of this machine."""
        return isinstance(self.filesystem, fs.LocalFileSystem)

    def spark_name(self, path: str) -> str:
        """What Spark calls a path of the file system."""
        if self.is_local:
            return path
        url = urlsplit(self.root)
        if url.scheme in BUCKETS:  # the path begins with the bucket
            return f"{BUCKETS[url.scheme]}://{path}"
        below = path.removeprefix(f"{url.username}/") if url.username else path.lstrip("/")
        return f"{url.scheme}://{url.netloc}/{below}"

    def table(self, name: str) -> str:
        """What Spark calls a table's directory."""
        return self.spark_name(f"{self.path}/{name}")

    def make(self, name: str) -> None:
        """Make a table's directory if there is none. Raises `JournalError`."""
        path = f"{self.path}/{name}"
        try:
            if self.filesystem.get_file_info(path).type is fs.FileType.NotFound:
                self.filesystem.create_dir(path, recursive=True)
        except OSError as error:
            raise JournalError(f"{self.root}: {first_line(error)}") from error

    @property
    def spark_settings(self) -> dict[str, str]:
        """What the URL says of its store, as Spark's settings: for S3; nothing for others."""
        url = urlsplit(self.root)
        if url.scheme != "s3":
            return {}
        options = dict(parse_qsl(url.query))
        found = {}
        if "region" in options:
            found[f"{S3A}.endpoint.region"] = options["region"]
        if "endpoint_override" in options:
            where = options["endpoint_override"]
            found[f"{S3A}.endpoint"] = where if "://" in where else f"{options.get('scheme', 'https')}://{where}"
            found[f"{S3A}.path.style.access"] = "true"  # such stores have no name for each bucket
        return found


def place_at(root: str) -> Place:
    """What a path or a URL names.

    Raises:
        JournalError: it names nothing that Arrow knows, or a secret that would be in every report.
    """
    if "://" not in root:
        return Place(root, fs.LocalFileSystem(), root.rstrip("/"))
    url = urlsplit(root)
    if url.scheme in BUCKETS and "@" in url.netloc:
        raise JournalError(f"{url.scheme}://...: should have no user: stores take credentials from the environment")
    try:
        filesystem, path = fs.FileSystem.from_uri(root)
    except (pa.ArrowInvalid, OSError) as error:
        advice = "it should be a path or a URL such as s3://bucket/folder"
        raise JournalError(f"{root}: {first_line(error)}; {advice}") from error
    return Place(root, filesystem, path.rstrip("/"))


def first_line(error: Exception) -> str:
    """Of its text: some go on for a page."""
    return str(error).partition("\n")[0]
