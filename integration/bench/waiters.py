"""Measures thousands of producers that wait for one topic: the cost of an arrival, of a promotion, and of memory.

All of them are on one connection, which no application does, so that nothing is measured but their waiting. Promotions
are made one after another: each owner closes, and the time until the next one is told includes the broker, which writes
the topic's new epoch into its metadata.
"""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING, Final

import psutil

from integration.bench.machine import note
from integration.bench.raw_worker import ANSWER_S_MAX, RawConnection
from integration.bench.report import Row, Spread
from integration.errors import IntegrationError
from proxy.wire import commands
from proxy.wire import pulsar_pb2 as pb
from proxy.wire.frames import encode_command, parse_command

if TYPE_CHECKING:
    from integration.bench.stage import Stage

TOPIC: Final = "persistent://public/default/waiters"
TARGET_MS: Final = 1.0
AT_ONCE: Final = 100
"""Requests under way."""
PRIORITIES: Final = 10
OWNER: Final = 0
_T = pb.BaseCommand


class Waiters(RawConnection):
    """Producers of one topic; a producer's id is its request's too."""

    def __init__(self, service_url: str) -> None:
        """Connect, and look the topic up, which makes a broker take it."""
        self.ready: deque[int] = deque()
        self.queued = 0
        super().__init__(service_url)
        lookup = pb.CommandLookupTopic(topic=TOPIC, request_id=1)
        self._send(encode_command(_T(type=_T.LOOKUP, lookupTopic=lookup)))
        self._await(_T.LOOKUP_RESPONSE)

    def own(self) -> None:
        """The first one; a gateway that has just started may hold it for a moment."""
        self._send(_request(OWNER))
        if self.owner() != OWNER:
            raise IntegrationError("somebody else owns the topic")

    def arrive(self, numbers: range) -> None:
        """Let these come, and wait until all were told that they wait."""
        before = self.queued
        self._send(b"".join(map(_request, numbers)))
        while self.queued - before < len(numbers):
            self._read(ANSWER_S_MAX)

    def owner(self) -> int:
        """Wait for the next one that owns the topic."""
        deadline = time.monotonic() + ANSWER_S_MAX
        while not self.ready:
            if time.monotonic() > deadline:
                raise IntegrationError("no waiting producer was promoted")
            self._read(ANSWER_S_MAX)
        return self.ready.popleft()

    def close(self, number: int) -> None:
        """Let one go."""
        self._send(commands.close_producer(number, number))

    def _take(self, kind: int, frame: bytes, at: float) -> None:
        if kind == _T.PRODUCER_SUCCESS:
            success = parse_command(frame).producer_success
            if success.producer_ready:
                self.ready.append(success.request_id)
            else:
                self.queued += 1
        else:
            super()._take(kind, frame, at)


def measure(stage: Stage) -> list[Row]:
    """Milliseconds and bytes for each."""
    count, promotions = stage.sizes.waiting_producers, stage.sizes.promotions
    process = psutil.Process(stage.gateway.pid)
    with Waiters(stage.gateway.service_url) as waiters:
        waiters.own()
        stage.wait_until_quiet()
        resident = process.memory_info().rss
        meter = stage.meter()
        for first in range(1, count + 1, AT_ONCE):
            waiters.arrive(range(first, min(first + AT_ONCE, count + 1)))
        arrived = meter.read()
        held = process.memory_info().rss - resident
        meter = stage.meter()
        owner = OWNER
        for _ in range(promotions):
            waiters.close(owner)
            owner = waiters.owner()
        promoted = meter.read()
    note(f"  {count:,} waiting, {promotions:,} promoted in {promoted.elapsed_s:.1f} s")
    return [
        _row(f"take in one of {count:,} that wait, CPU", arrived.cpu_s["gateway"] * 1e3 / count),
        _row(f"promote one of {count:,}, CPU", promoted.cpu_s["gateway"] * 1e3 / promotions),
        Row(
            "waiters",
            "owner closes until the next is told, the broker included",
            "ms",
            gateway=Spread.of([promoted.elapsed_s * 1e3 / promotions]),
        ),
        Row("waiters", "memory of one that waits", "bytes", gateway=Spread.of([held / count])),
    ]


def _row(measured: str, milliseconds: float) -> Row:
    return Row("waiters", measured, "ms", gateway=Spread.of([milliseconds])).with_limit(TARGET_MS)


def _request(number: int) -> bytes:
    body = pb.CommandProducer(
        topic=TOPIC, producer_id=number, request_id=number, producer_access_mode=pb.WaitForExclusive
    )
    body.metadata.add(key="keyline.queue-priority", value=str(number % PRIORITIES))
    return encode_command(_T(type=_T.PRODUCER, producer=body))
