"""One host: `python -m integration.uptime.host PLAN_JSON REPORT_FILE`, one client, one producer for each endpoint.

The plan is a list of two waves of endpoints (`Wish`). The second one starts on SIGUSR1, when the other hosts are where
the scenario wants them. The report has a line of JSON for each promotion, written when the broker has stored the
producer's first record: only then does this producer certainly own the topic. The host ends by being killed.
"""

from __future__ import annotations

import json
import logging
import signal
import sys
import threading
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import pulsar

from integration.load.client import log_to_stderr
from keyline_gateway.client.waiting_producer import ANNOUNCEMENT_PROPERTY, PRIORITY_PROPERTY, WAIT_S_MAX, Announcement


@dataclass(frozen=True)
class Wish:
    """One endpoint that a host wants; without a priority it waits in the order of arrival."""

    endpoint: int
    topic: str
    priority: int | None


class Host:
    """The client and those of its producers that own their topic."""

    def __init__(self, name: str, service_url: str, report: Path) -> None:
        """Connect lazily, as the client does."""
        self._name = name
        logger = logging.getLogger("pulsar-client")
        self._client: Final = pulsar.Client(service_url, logger=logger, operation_timeout_seconds=WAIT_S_MAX)
        self._report = report
        self._lock = threading.Lock()
        self._owned: list[pulsar.Producer] = []

    def want(self, wishes: list[Wish]) -> None:
        """Wait for all of them, each in a thread: the client's call blocks while it waits."""
        for wish in wishes:
            threading.Thread(target=self._wait, args=(wish,), daemon=True).start()

    def _wait(self, wish: Wish) -> None:
        properties = {} if wish.priority is None else {PRIORITY_PROPERTY: str(wish.priority)}
        producer = self._client.create_producer(
            wish.topic,
            producer_name=self._name,
            access_mode=pulsar.ProducerAccessMode.WaitForExclusive,
            properties=properties,
        )
        record = Announcement(
            producer_name=self._name,
            priority=wish.priority or 0,
            promoted_at=datetime.now(UTC),
            attributes={"endpoint": str(wish.endpoint)},
        )
        producer.send(record.encode(), properties={ANNOUNCEMENT_PROPERTY: "1"})
        with self._lock, self._report.open("a") as report:
            self._owned.append(producer)
            report.write(json.dumps({"promoted": wish.endpoint}) + "\n")


def plan_json(name: str, service_url: str, waves: tuple[list[Wish], list[Wish]]) -> str:
    """Write down what `main` reads."""
    listed = [[asdict(wish) for wish in wave] for wave in waves]
    return json.dumps({"name": name, "service_url": service_url, "waves": listed})


def main() -> None:
    """Run one host until it is killed."""
    log_to_stderr()
    # Before the client starts threads, which inherit what is blocked: the signal has to wait for us.
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
    plan = json.loads(sys.argv[1])
    first, second = ([Wish(**wish) for wish in wave] for wave in plan["waves"])
    host = Host(plan["name"], plan["service_url"], Path(sys.argv[2]))
    host.want(first)
    signal.sigwait([signal.SIGUSR1])
    host.want(second)
    while True:
        signal.pause()


if __name__ == "__main__":
    main()
