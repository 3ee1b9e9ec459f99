"""Reads series from scrapes that were kept as files: the text that `/metrics` answers, one file each.

A sample's time is the one in the text; else the one that the file is named after (`2026-11-24T03:00:00Z.prom`); else
the file's own. Its gateway is the folder in which the file is.
"""

from __future__ import annotations

import math
from collections import defaultdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from prometheus_client import parser
from prometheus_client.openmetrics import parser as openmetrics

from proxy.exports.series import ExportError, Identity, Series, identity_of, is_wanted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

OPENMETRICS_END: Final = "# EOF"
SECOND_NS: Final = 1_000_000_000
HOUR_NS: Final = 3_600 * SECOND_NS


def files_below(paths: Sequence[Path]) -> list[Path]:
    """The files, and all that are below folders; hidden ones are none.

    Raises:
        ExportError: one does not exist, or there is none.
    """
    for path in paths:
        if not path.exists():
            raise ExportError(f"{path}: no such file; it should be a scrape, a folder of them, or a server's http URL")
    below = (sorted(path.rglob("*")) if path.is_dir() else [path] for path in paths)
    found = [file for files in below for file in files if file.is_file() and not file.name.startswith(".")]
    if not found:
        raise ExportError(f"{', '.join(map(str, paths))}: no file; there should be texts of /metrics")
    return found


def hours(files: Iterable[Path], gateway: str | None = None) -> Iterator[tuple[datetime, list[Series]]]:
    """All series of each hour that has some; `gateway` is whose they are, if not the folders'.

    Raises:
        ExportError: a file is no scrape, or none has a metric of a gateway.
    """
    samples: dict[int, dict[Identity, dict[int, float]]] = defaultdict(lambda: defaultdict(dict))
    for file in files:
        taken_ns = _taken_ns(file)
        for family in _families(file):
            for sample in filter(lambda one: is_wanted(one.name) and not math.isnan(one.value), family.samples):
                identity = identity_of(sample.name, sample.labels, gateway or file.parent.name)
                at_ns = taken_ns if sample.timestamp is None else round(float(sample.timestamp) * SECOND_NS)
                samples[at_ns // HOUR_NS][identity][at_ns] = sample.value
    if not samples:
        raise ExportError("no metric keyline_... is in these files; they should be texts of a gateway's /metrics")
    for hour in sorted(samples):
        yield datetime.fromtimestamp(hour * 3_600, UTC), [_series(*item) for item in samples[hour].items()]


def _series(identity: Identity, values: dict[int, float]) -> Series:
    at_ns = sorted(values)
    return Series(identity, np.array(at_ns, np.int64), np.array([values[at] for at in at_ns], np.float64))


def _families(file: Path) -> list[Any]:
    try:
        text = file.read_text(encoding="utf-8")
        read = openmetrics if text.rstrip().endswith(OPENMETRICS_END) else parser
        return list(read.text_string_to_metric_families(text))
    except (OSError, ValueError) as error:
        raise ExportError(f"{file}: {error}; it should be the text of a scrape of /metrics") from error


def _taken_ns(file: Path) -> int:
    try:
        named = datetime.fromisoformat(file.stem)
    except ValueError:
        return file.stat().st_mtime_ns
    return round((named.replace(tzinfo=UTC) if named.tzinfo is None else named).timestamp() * 1_000) * 1_000_000
