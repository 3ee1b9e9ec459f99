"""Writes series as files of the journal's table of metrics: one for each hour and gateway, in place of the one before.

Hours are exported whole, so an export that is repeated, or begins where one ended, adds nothing twice. Exported metrics
have a directory of their own: beside those that a gateway wrote by itself, its counters would be there twice.
"""

from __future__ import annotations

import tempfile
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from proxy.exports.series import ExportError, columns
from proxy.journal.arrow import batch_of, with_facts
from proxy.journal.partition import place_of
from proxy.journal.schema import METRICS
from proxy.journal.segment import parquet_writer
from proxy.journal.store import LocalStore, Store, store_at

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from proxy.exports.series import Series

NAME: Final = "exported"
"""Of each file, and of the run that its rows say they are of."""


@dataclass(slots=True)
class Exported:
    """What was written."""

    samples: int = 0
    files: int = 0
    names: set[str] = field(default_factory=set)
    gateways: set[str] = field(default_factory=set)


def write(out: str, hours: Iterable[tuple[datetime, list[Series]]]) -> Exported:
    """Write all of them below `out`, a path or a URL as in the setting `journal`.

    Raises:
        ExportError: it is no place for them, or there are none.
    """
    done = Exported()
    try:
        store = store_at(out)
        _check_own(store)
        with tempfile.TemporaryDirectory(prefix="keyline-export-") as directory:
            for hour, found in hours:
                _write_hour(store, Path(directory) / "part", hour, found, done)
    except (OSError, ValueError) as error:
        raise ExportError(f"{out}: {error}") from error
    if not done.files:
        raise ExportError("no sample is of that time; --from and --to should be when gateways were scraped")
    return done


def _write_hour(store: Store, part: Path, hour: datetime, found: list[Series], done: Exported) -> None:
    by_gateway: dict[str, list[Series]] = defaultdict(list)
    for series in found:
        by_gateway[series.identity.gateway].append(series)
        done.names.add(series.identity.name)
    for gateway, own in sorted(by_gateway.items()):
        if not gateway:
            raise ExportError("a series has no label that names its gateway; --gateway-label should be one that has")
        batch = batch_of(METRICS, {**columns(own), "life": NAME})
        facts = {"gateway": gateway, "life": NAME, "gateway_version": NAME}
        with parquet_writer(part, with_facts(METRICS, facts), METRICS) as file:
            file.write_batch(batch)
        store.publish(part, place_of(METRICS, hour, gateway, NAME))
        done.samples += batch.num_rows
        done.files += 1
        done.gateways.add(gateway)


def _check_own(store: Store) -> None:
    if not isinstance(store, LocalStore):
        return
    others = (file for file in store.root.glob(f"{METRICS.name}/*/*/*/*.parquet") if file.stem != NAME)
    if found := next(others, None):
        raise ExportError(
            f"{store.root}: a gateway wrote {found.relative_to(store.root)}; exported metrics should have a "
            "directory of their own"
        )
