"""The runs of gateways in a journal, and their anomalies: killed, two with one name at once, clocks that jumped.

No anomaly makes the audit wrong, because it compares only times of one run's own clock. But the last rows of a run that
was killed are missing; and partitions, `--from` and `--to`, and everything that is drawn over time go by the wall
clock.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

ODD_NS: Final = 1_000_000_000
"""Less is what clocks do."""
TABLE: Final = pa.schema(
    dict.fromkeys(("gateway", "life"), pa.string())
    | dict.fromkeys(("rows", "deliveries", "first_wall_ns", "last_wall_ns", "clock_moved_ns"), pa.int64())
    | {"beside": pa.string(), "killed": pa.bool_()}
)


def runs(seen: Iterable[dict[str, Any]], killed: Collection[str] = ()) -> list[dict[str, Any]]:
    """Every run, in the order in which a gateway's began.

    Args:
        seen: of each run any number of rows with `gateway`, `life`, `rows`, `first_wall_ns`, `last_wall_ns`,
            `ahead_min_ns` and `ahead_max_ns` (of the wall clock before the run's), and perhaps `deliveries`.
        killed: runs of which it is known (`reading.Journal.killed`).

    Returns:
        `gateway`, `life`, `rows`, `deliveries` (of these, sent messages), `first_wall_ns`, `last_wall_ns`,
        `clock_moved_ns` (how far the wall clock moved against the run's own), `beside` (a run of the same gateway that
        had not ended when this one began, or None), `killed`.
    """
    of_run: defaultdict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for row in seen:
        of_run[row["gateway"], row["life"]].append(row)
    found = [
        {
            "gateway": gateway,
            "life": life,
            "rows": sum(row["rows"] for row in rows),
            "deliveries": sum(row.get("deliveries", 0) for row in rows),
            "first_wall_ns": min(row["first_wall_ns"] for row in rows),
            "last_wall_ns": max(row["last_wall_ns"] for row in rows),
            "clock_moved_ns": max(row["ahead_max_ns"] for row in rows) - min(row["ahead_min_ns"] for row in rows),
            "beside": None,
            "killed": life in killed,
        }
        for (gateway, life), rows in of_run.items()
    ]
    found.sort(key=lambda run: (run["gateway"], run["first_wall_ns"], run["life"]))
    longest: dict[str, tuple[int, str]] = {}
    for run in found:
        last_ns, life = longest.get(run["gateway"], (run["first_wall_ns"], ""))
        if last_ns > run["first_wall_ns"] + ODD_NS:
            run["beside"] = life
        longest[run["gateway"]] = max((last_ns, life), (run["last_wall_ns"], run["life"]))
    return found


def odd(found: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The runs with anomalies, of the rows that `runs` gives."""
    return [run for run in found if run["beside"] or run["clock_moved_ns"] > ODD_NS or run["killed"]]
