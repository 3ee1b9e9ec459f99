"""What the log of a broker tells before it is given to a test."""

from __future__ import annotations

from pathlib import Path

from integration.readiness import REGISTRATION_LOST, stays_registered


def test_a_bookie_that_loses_its_registration_for_ever_is_told_by_this_starts_log(tmp_path: Path) -> None:
    """A few times is usual, and what an earlier start wrote is over."""
    log = tmp_path / "pulsar.log"
    line = b"INFO ResourceLockImpl - Lock on resource /ledgers/available/127.0.0.1:1 " + REGISTRATION_LOST + b"\n"
    log.write_bytes(line * 1_000)
    before = log.stat().st_size
    with log.open("ab") as file:
        file.write(line * 7)
    assert stays_registered(log, before)
    assert not stays_registered(log, 0)
