"""Log lines that come without end are left out and counted, whoever causes them."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from proxy.app.log_limiter import ALWAYS, BURST_S, KEYS_MAX, LineLimiter

PER_S = 2
BURST = PER_S * BURST_S
EXIT_S_MAX = 240


class Clock:
    """Time that moves only when told."""

    def __init__(self) -> None:
        self.now_s = 500.0

    def now(self) -> float:
        """Seconds."""
        return self.now_s


def burst(limiter: LineLimiter, event: str, count: int, logger: str = "a") -> int:
    """Ask for so many lines; how many were admitted."""
    return sum(limiter.admit(logger, event) is not None for _ in range(count))


def test_a_burst_is_written_and_the_rest_counted() -> None:
    """The next line that is written says how many were not, once."""
    clock = Clock()
    limiter = LineLimiter(clock.now, PER_S)
    assert burst(limiter, "session_ended", BURST + 7) == BURST
    assert limiter.left_out_total == 7
    clock.now_s += 1.0
    assert [limiter.admit("a", "session_ended") for _ in range(PER_S + 1)] == [7, 0, None]
    assert limiter.left_out_total == 8


def test_quiet_time_gives_no_more_than_a_burst() -> None:
    """An hour without a line is no leave for an hour's lines."""
    clock = Clock()
    limiter = LineLimiter(clock.now, PER_S)
    clock.now_s += 3_600
    assert burst(limiter, "e", 10 * BURST) == BURST


def test_events_are_kept_apart() -> None:
    """What one event uses up is not missing to another, nor to the same of another logger."""
    limiter = LineLimiter(Clock().now, PER_S)
    burst(limiter, "e", 2 * BURST)
    assert limiter.admit("a", "f") == 0
    assert limiter.admit("b", "e") == 0


def test_the_text_behind_the_first_line_makes_no_event_of_its_own() -> None:
    """Loops tell of TLS failures with the connection's address in the lines below."""
    limiter = LineLimiter(Clock().now, PER_S)
    admitted = sum(limiter.admit("asyncio", f"SSL handshake failed\nat 0x{n:x}") is not None for n in range(3 * BURST))
    assert admitted == BURST


def test_events_without_end_share_a_limit() -> None:
    """Where a library puts values into its text, neither memory nor the log grows with them."""
    limiter = LineLimiter(Clock().now, PER_S)
    admitted = sum(limiter.admit("library", f"bad request {number}") is not None for number in range(3 * KEYS_MAX))
    assert admitted == KEYS_MAX + BURST
    assert len(limiter._buckets) == KEYS_MAX + 1


@pytest.mark.parametrize("event", sorted(ALWAYS))
def test_what_an_operator_ordered_is_always_written(event: str) -> None:
    """It is the record of who did what."""
    assert burst(LineLimiter(Clock().now, PER_S), event, 5 * BURST) == 5 * BURST


def test_no_limit_is_no_limit() -> None:
    """0 lines a second mean that all are written."""
    assert burst(LineLimiter(Clock().now, 0), "e", 10_000) == 10_000


PROGRAM = """
import logging, structlog
from proxy.app.log import configure_logging
from proxy.app.log_limiter import LineLimiter
now = [0.0]
limiter = LineLimiter(lambda: now[0], 1)
configure_logging("info", "json", "replica-1", limiter)
for number in range(25):
    structlog.get_logger("ours").info("session_ended", number=number)
    logging.getLogger("uvicorn.error").warning("Invalid HTTP request received: %d", number)
now[0] = 1.0
structlog.get_logger("ours").info("session_ended", number=25)
logging.getLogger("uvicorn.error").warning("Invalid HTTP request received: %d", 25)
assert limiter.left_out_total == 30
"""


def test_lines_of_ours_and_of_libraries_are_limited_alike() -> None:
    """With the count as a field of the next line."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=EXIT_S_MAX, check=True
    )
    lines: list[dict[str, Any]] = [json.loads(line) for line in done.stderr.splitlines()]
    ours = [line for line in lines if line["logger"] == "ours"]
    theirs = [line for line in lines if line["logger"] == "uvicorn.error"]
    assert [line["number"] for line in ours] == [*range(10), 25]
    assert [line["event"].rsplit(" ", 1)[1] for line in theirs] == [str(number) for number in (*range(10), 25)]
    for of_one in (ours, theirs):
        assert [line.get("left_out") for line in of_one] == [None] * 10 + [15]
