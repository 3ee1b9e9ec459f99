"""The wall clock is for people: a gateway whose clock jumps does nothing else than write other dates into its log."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from pathlib import Path

import httpx
import pytest

from integration.gateway import KeylineGateway
from tests.integration.conditions import eventually
from tests.integration.faults.line import Line, repeat_through, strike

LIBRARIES = sorted(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))
STEPS = (1, -1, 30)
"""Days from the true date, one after another."""


@pytest.mark.slow
@pytest.mark.broker
@pytest.mark.skipif(not LIBRARIES, reason="no libfaketime (Debian's package of that name)")
def test_the_gateways_clock_is_stepped(line: Line, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A day ahead, two back and a month ahead under load, each with a connection to be made up for: nobody notices."""
    offset = tmp_path / "offset"
    write(offset, "+0")
    line.gateway.stop()
    with faked_time(monkeypatch, offset):
        line.gateway.start()
    steps = itertools.cycle(STEPS)

    def step() -> None:
        days = next(steps)
        write(offset, f"{days:+}d")
        eventually(lambda: days_off(line.gateway) == days, f"the gateway's clock to be {days:+} days off")
        strike(line.broker_side, line.broker_side.cut)

    with line.load() as run:
        repeat_through(run, len(STEPS), step)
        line.check(run.finish(), set())
    times = [datetime.fromisoformat(json.loads(text)["time"]) for text in line.gateway.log.read_text().splitlines()]
    assert max(times) - min(times) > timedelta(days=1), "the clock did not jump: this proves nothing"


@contextmanager
def faked_time(monkeypatch: pytest.MonkeyPatch, offset: Path) -> Iterator[None]:
    """What is started in this block takes the time of day, and no other, from what a file says."""
    with monkeypatch.context() as environment:
        environment.setenv("LD_PRELOAD", str(LIBRARIES[0]))
        environment.setenv("FAKETIME_TIMESTAMP_FILE", str(offset))
        environment.setenv("FAKETIME_CACHE_DURATION", "1")
        environment.setenv("FAKETIME_DONT_FAKE_MONOTONIC", "1")
        environment.setenv("DONT_FAKE_MONOTONIC", "1")
        yield


def days_off(gateway: KeylineGateway) -> int:
    """How far the clock that dates a gateway's answers is from ours."""
    date = httpx.get(f"{gateway.admin_url}/livez", trust_env=False, timeout=30).headers["date"]
    return round((parsedate_to_datetime(date) - datetime.now(UTC)) / timedelta(days=1))


def write(path: Path, text: str) -> None:
    """Replace a file that another process reads at any moment."""
    partial = path.with_suffix(".partial")
    partial.write_text(text)
    partial.replace(path)
