"""The wall clock is for people: a gateway whose clock jumps does nothing else than write other dates into its log."""

from __future__ import annotations

import ast
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

ROOT = Path(__file__).resolve().parents[3]
WALL_CLOCK = {
    ("proxy/app/parts.py", "clock.time"),
    ("proxy/app/gateway.py", "time.time_ns"),
    ("proxy/client/waiting_producer.py", "datetime.now"),
    ("proxy/cli/export_metrics.py", "datetime.now"),
    ("proxy/exports/prometheus_api.py", "datetime.now"),
    ("proxy/aio/clock_and_connector.py", "time.time"),
    ("proxy/net/session/client_principal.py", "self._clock.time"),
    ("proxy/net/session/session.py", "self._clock.time"),
    ("proxy/net/broker/producer.py", "self._clock.time"),
    ("proxy/net/websocket/dead_letters.py", "self._clock.time"),
}
"""Every call in the product that reads it: the port's implementation, the date since when a client is connected, that
of a dead letter and of messages between replicas, as any producer dates its messages, that of an application's
announcement, until when Prometheus is asked for what it has, when a client's certificate expires, the number of a
life's first event, which only a step back of more than the gateway's age could let come twice, and the dates of the
journal's rows and of the events on its topic."""

LOOP_CLOCK = {("proxy/aio/tls_door.py", "self._loop.time")}
"""Calls of the same name that read a monotonic clock: the event loop's."""

LIBRARIES = sorted(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))
STEPS = (1, -1, 30)
"""Days from the true date, one after another."""


def wall_clock_calls(root: Path) -> set[tuple[str, str]]:
    """Calls in the gateway that ask for the time of day, as (file, what is called)."""
    found = set()
    for path in sorted((root / "proxy").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call):
                called = ast.unparse(node.func)
                if called.endswith((".time", ".time_ns", ".utcnow", ".today", "datetime.now")):
                    found.add((path.relative_to(root).as_posix(), called))
    return found


def test_only_people_are_told_the_time_of_day() -> None:
    """Nothing else in the gateway reads the wall clock; what orders, waits and gives up goes by the monotonic one."""
    assert wall_clock_calls(ROOT) == WALL_CLOCK | LOOP_CLOCK


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
    date = httpx.get(f"{gateway.admin_url}/livez", trust_env=False).headers["date"]
    return round((parsedate_to_datetime(date) - datetime.now(UTC)) / timedelta(days=1))


def write(path: Path, text: str) -> None:
    """Replace a file that another process reads at any moment."""
    partial = path.with_suffix(".partial")
    partial.write_text(text)
    partial.replace(path)
