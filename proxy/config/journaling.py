"""What the journal records, and where."""

from __future__ import annotations

from pathlib import Path

from pydantic import ByteSize, SecretStr

from proxy.config.types import Group, JournalPlace, Topic, setting
from proxy.limits import MIB


class Journaling(Group):
    """A record of events and deliveries, as Parquet files, for reports."""

    journal: JournalPlace | None = setting(
        None,
        "Place of the journal's files: a directory, or a URL of an object store (s3://bucket/folder, gs://...). None: "
        "no journal.",
        takes="a path or a URL",
    )
    journal_spool_directory: Path | None = setting(
        None,
        "Directory of unfinished files. If not set: `_open` below `journal`, or, for an object store, a temporary "
        "directory of the system. The next run publishes files that a killed gateway left there.",
        takes="the path of a directory",
    )
    journal_topic: Topic | None = setting(
        None,
        "Topic that gets every event as a JSON message, for other programs; with or without `journal`.",
        takes="persistent://tenant/namespace/topic",
    )
    journal_deliveries: bool = setting(
        default=False,
        description="Also record every delivery and acknowledgement, in addition to events.",
    )
    journal_key_sample: float = setting(
        1.0, "Share of all keys whose deliveries are recorded; a key is recorded completely or not at all.",
        unit="of all keys", ge=0, le=1,
    )  # fmt: skip
    journal_key_secret: SecretStr | None = setting(
        None,
        "Secret of the keyed hash that represents a key. Reports match a key across replicas and restarts only with "
        "the same secret; if not set, each run of the gateway uses a random one.",
        takes="a text",
    )
    journal_plain_keys: bool = setting(
        default=False,
        description="Write the keys themselves in addition to their hashes.",
    )
    journal_snapshot_s: float = setting(
        60.0, "How often the numbers of /metrics are recorded; 0 never.", unit="seconds", ge=0, le=86_400
    )
    journal_roll_s: float = setting(
        300.0, "Time after which a file is finished and the next one started.", unit="seconds", ge=1, le=86_400
    )
    journal_roll_bytes: ByteSize = setting(
        128 * MIB, "Uncompressed size at which a file is finished and the next one started.",
        unit="bytes", ge=64 * 1024, le=1 << 34,
    )  # fmt: skip
    journal_memory_bytes: ByteSize = setting(
        64 * MIB, "Memory of rows that are not written yet; rows that do not fit are dropped and counted.",
        unit="bytes", ge=1 * MIB, le=1 << 34,
    )  # fmt: skip
