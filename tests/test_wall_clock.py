"""The wall clock is for people: what orders, waits and gives up goes by the monotonic one."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
WALL_CLOCK = {
    ("proxy/app/parts.py", "clock.time"),
    ("proxy/app/gateway.py", "time.time_ns"),
    ("keyline_gateway/client/waiting_producer.py", "datetime.now"),
    ("proxy/cli/export_metrics.py", "datetime.now"),
    ("proxy/exports/prometheus_api.py", "datetime.now"),
    ("proxy/aio/clock_and_connector.py", "time.time"),
    ("proxy/net/session/client_principal.py", "self._clock.time"),
    ("proxy/net/session/greeting.py", "services.clock.time"),
    ("proxy/net/broker/producer.py", "self._clock.time"),
    ("proxy/net/group/topic.py", "self._clock.time"),
    ("proxy/net/websocket/dead_letters.py", "self._clock.time"),
}
"""Every call in the product that reads it: the port's implementation, the date since when a client is connected, that
of a dead letter and of messages between replicas, as any producer dates its messages, that of an application's
announcement, until when Prometheus is asked for what it has, when a client's certificate expires, the number of a
life's first event and the first epoch of a group's new topic, which only a step back of more than the gateway's or the
former topic's age could let come twice, and the dates of the journal's rows and of the events on its topic."""

LOOP_CLOCK = {("proxy/aio/tls_door.py", "self._loop.time")}
"""Calls of the same name that read a monotonic clock: the event loop's."""


def wall_clock_calls(root: Path) -> set[tuple[str, str]]:
    """Calls in the gateway that ask for the time of day, as (file, what is called)."""
    found = set()
    for path in sorted([*(root / "proxy").rglob("*.py"), *(root / "keyline_gateway").rglob("*.py")]):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call):
                called = ast.unparse(node.func)
                if called.endswith((".time", ".time_ns", ".utcnow", ".today", "datetime.now")):
                    found.add((path.relative_to(root).as_posix(), called))
    return found


def test_only_people_are_told_the_time_of_day() -> None:
    """Nothing else in the gateway reads the wall clock; what orders, waits and gives up goes by the monotonic one."""
    assert wall_clock_calls(ROOT) == WALL_CLOCK | LOOP_CLOCK
