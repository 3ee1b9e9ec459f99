"""One line of production with a faulty network at both ends: broker, proxy, gateway, proxy, workers.

What every scenario of this folder shares: the load, and what is asserted when it has ended. Judged is from the
clients' records only (`integration.load`); besides, the gateway must not have written a line that says it has a bug.
"""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from integration.artifacts import PULSAR_VERSIONS
from integration.faults.proxy import FaultProxy
from integration.gateway import KeylineGateway
from integration.load.audit import AuditResult
from integration.load.lives import Cause
from integration.load.options import Batching
from integration.load.run import LoadRun
from integration.logs import lines
from integration.standalone import PulsarStandalone
from tests.integration.conditions import eventually
from tests.integration.conftest import explain

every_version = pytest.mark.parametrize("faulty_broker", PULSAR_VERSIONS, indirect=True)
"""For a test of a `line`: once with each version of the broker."""

MESSAGES: Final = 4_000
KEYS: Final = 300
RATE_PER_S: Final = 1_000.0
"""So that the load lasts as long as the faults do, and recovery is never slower than what was missed."""
WORKERS: Final = ("w1", "w2", "w3")
RECEIVER_QUEUE_SIZE: Final = 100

BROKER_KEEP_ALIVE_S: Final = 2
"""Of silence until the broker pings, and again until it gives a connection up."""
GATEWAY_SETTINGS: Final = {
    "keep_alive_s": "2",
    "connect_timeout_s": "3",
    "handshake_timeout_s": "5",
    "upstream_request_timeout_s": "5",
    "reconnect_backoff_max_ms": "1000",
}
"""Everything that waits for a network waits shortly: a fault of some seconds is a long one."""
LONGER_THAN_KEEP_ALIVE_S: Final = 2.5 * BROKER_KEEP_ALIVE_S
"""Both give up a silent peer within two of their intervals."""
SHORTER_THAN_KEEP_ALIVE_S: Final = 1.0

LOST: Final = "upstream consumer lost"
"""How a gateway says that its consumer at the broker is gone."""
OF_A_CUT: Final = {Cause.CONNECTION_LOST, Cause.CLIENT_QUEUE, Cause.BATCH_UNFINISHED}
"""Why workers whose connections broke may get messages again."""


@dataclass(frozen=True)
class Line:
    """Who is connected through what."""

    broker: PulsarStandalone
    broker_side: FaultProxy
    """Between the gateway and the broker."""
    gateway: KeylineGateway
    worker_side: FaultProxy
    """Between workers and the gateway."""
    directory: Path
    topic: str

    @contextmanager
    def load(
        self, batching: Batching = Batching.DEFAULT, *, producer_url: str | None = None, **options: Any
    ) -> Iterator[LoadRun]:
        """Three workers behind their faulty network, and a producer; by default one that connects to the broker.

        Args:
            batching: of the producer.
            producer_url: where it connects; faults hit it too if that is the gateway.
            options: of the producer, stronger than ours.
        """
        url = producer_url or self.broker.service_url
        with LoadRun(self.directory, self.worker_side.service_url, self.topic, producer_url=url) as run:
            run.start_workers(*WORKERS, receiver_queue_size=RECEIVER_QUEUE_SIZE, ack_delay_ms=5)
            settings = {"count": MESSAGES, "keys": KEYS, "rate_per_s": RATE_PER_S, "run_length": 5} | options
            run.produce(batching=batching, **settings)
            yield run

    def check(
        self, result: AuditResult, causes: set[Cause], *, workers_cut: bool = False, messages: int = MESSAGES
    ) -> None:
        """Complete, in order, one worker per key, repeated for no other causes than these; the gateway has no bug.

        `workers_cut` says whether workers were to lose their connections; otherwise none may have noticed anything.
        """
        found = explain(result, self.gateway)
        assert result.ok, found
        assert result.delivered == result.acknowledged == messages, found
        assert set(result.duplicates_by_cause) <= causes, found
        assert bool(result.connections_lost) == workers_cut, found
        assert not bug_reports(self.gateway.log), found


def bug_reports(log: Path) -> list[str]:
    """Lines of a gateway's log that speak of a bug: errors, exceptions, and what is no line of its log at all.

    One that is being written is not looked at.
    """
    found = []
    whole, _, _ = log.read_text().rpartition("\n")
    for line in whole.splitlines():
        try:
            values = json.loads(line)
        except ValueError:
            found.append(line)
            continue
        if values["level"] in ("error", "critical") or "exception" in values:
            found.append(line)
    return found


def events(log: Path) -> list[str]:
    """What a gateway's log tells, by the names of its lines."""
    return [line["event"] for line in lines(log)]


def until(log: Path, event: str = LOST) -> None:
    """Let a fault last until the gateway says that it has noticed.

    A time would not do: a gateway may need up to two of its intervals, one look at the clock more, and on a loaded
    machine a look that comes late counts for nothing (`proxy.net.keep_alive`).
    """
    eventually(lambda: event in events(log), f"a line {event!r} in the gateway's log")


def reach(run: LoadRun, share: float, messages: int = MESSAGES) -> None:
    """Return when so much of the load is acknowledged."""
    run.wait_acknowledged(int(messages * share))


def last(seconds: float) -> None:
    """Let a fault last: its length is what the scenario is about, nothing is synchronised by it."""
    time.sleep(seconds)


def strike(network: FaultProxy, fault: Callable[[], int], connections: int = 1) -> None:
    """Break connections once so many stand: a scenario that broke nothing proves nothing."""
    eventually(lambda: network.connection_count >= connections, f"{connections} connections to break")
    assert fault() > 0, "there was nothing to break"


def seen_or_not(line: Line, fault: Callable[[], object]) -> Callable[[], None]:
    """Do this in turn to a consumer at the broker that stands, until the gateway says that it is lost, and at any time.

    One that strikes while the gateway is on its way back may go unseen.
    """
    turns = itertools.cycle((True, False))

    def act() -> None:
        if not next(turns):
            fault()
            return
        eventually(lambda: consumes(line.gateway), "a consumer at the broker")
        before = events(line.gateway.log).count(LOST)
        fault()
        eventually(lambda: events(line.gateway.log).count(LOST) > before, "the gateway to lose its consumer")

    return act


def consumes(gateway: KeylineGateway) -> bool:
    """Whether its consumer at the broker stands, of a subscription with workers."""
    return any(each["upstream_state"] == "ready" for each in gateway.statistics()["subscriptions"])


def repeat_through(run: LoadRun, times: int, fault: Callable[[], object]) -> None:
    """Do something several times, spread over the load."""
    for number in range(times):
        reach(run, (number + 1) / (times + 2))
        fault()
