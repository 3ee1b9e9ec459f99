"""Which part of a wait counts beside a replica that hangs, from the logs of clients."""

from __future__ import annotations

import time
from datetime import datetime
from pathlib import Path
from typing import Final

from integration.load.waits import Way
from tests.integration.faults.client_waits import Hung, Span, counted_ns, reached

WELL, HUNG = 6650, 6651
HANGS_S: Final = (10.0, 40.0)
OVER_S: Final = 100.0


class Times:
    """Of the logs of some clients, from a moment on."""

    def __init__(self) -> None:
        self.begins_s = time.monotonic()
        self._ahead_s = time.time() - self.begins_s

    def ns(self, at_s: float) -> int:
        """So long after it."""
        return int((self.begins_s + at_s) * 1e9)

    def log(self, path: Path, *events: tuple[float, str]) -> Path:
        """As the client's library writes them."""
        lines = []
        for at_s, text in events:
            told = datetime.fromtimestamp(self.begins_s + self._ahead_s + at_s)  # noqa: DTZ006 - as the library does
            lines.append(f"{told:%Y-%m-%d %H:%M:%S},{told.microsecond // 1000:03d} INFO {text}")
        path.write_text("".join(f"{line}\n" for line in lines))
        return path

    def counted_s(self, logs: list[Path], sent_s: float, delivered_s: float) -> float:
        """Of a message's wait, with a replica that hangs meanwhile."""
        hung = Hung(HUNG, Span(*map(self.ns, HANGS_S)))
        way = Way(0, self.ns(sent_s), self.ns(delivered_s))
        return round(counted_ns(way, reached(logs, hung, self.ns(OVER_S))) / 1e9, 1)


def created(port: int) -> str:
    """A consumer."""
    return f"[persistent://public/default/t, load, 0] Created consumer on broker [127.0.0.1:40000 -> 127.0.0.1:{port}] "


def answered(port: int) -> str:
    """A lookup."""
    return (
        "Lookup response for persistent://public/default/t, lookup-broker-url pulsar://127.0.0.1:1, "
        f"from [127.0.0.1:40001 -> 127.0.0.1:{port}] "
    )


LOST: Final = "[persistent://public/default/t, load, 0] Schedule reconnection in 0.1 s"
LOOKS: Final = "[persistent://public/default/t, load, 0] Getting connection from pool"


def test_a_wait_counts_while_a_client_is_at_a_replica_that_is_well(tmp_path: Path) -> None:
    """One that is told to try again, and one that stays, at the replica that hangs, are at none."""
    times = Times()
    returns = times.log(
        tmp_path / "returns",
        (0.0, created(WELL)),
        (15.0, LOST),
        (15.1, LOOKS),
        (35.0, answered(WELL)),
        (36.0, created(WELL)),
    )
    stays = times.log(tmp_path / "stays", (0.0, created(HUNG)))
    assert times.counted_s([returns, stays], 12.0, 37.0) == 5.0
    assert times.counted_s([stays], 12.0, 37.0) == 0.0


def test_another_client_that_is_well_makes_it_count(tmp_path: Path) -> None:
    """Also while its consumer is only asked for: that is for the gateways to answer."""
    times = Times()
    returns = times.log(tmp_path / "returns", (0.0, created(WELL)), (15.0, LOST), (35.0, answered(WELL)))
    asks = times.log(tmp_path / "asks", (0.0, created(HUNG)), (14.0, LOST), (20.0, answered(WELL)), (30.0, LOST))
    assert times.counted_s([returns, asks], 12.0, 37.0) == 3.0 + 10.0 + 2.0


def test_before_it_hangs_and_afterwards_all_counts(tmp_path: Path) -> None:
    """Then it is as well as the others."""
    times = Times()
    stays = times.log(tmp_path / "stays", (0.0, created(HUNG)))
    assert times.counted_s([stays], 9.0, 42.0) == 1.0 + 2.0
