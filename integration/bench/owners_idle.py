"""Measures what three idle replicas cost, and what they say to each other.

Workers are spread over the replicas, all of a replica on one connection, so that two of three are led to another one.
In the end each has a connection of its own, as separate processes have, for what a leg costs. Replicas speak by
messages on their topics at the broker, which counts them, and on the legs, where each ping and each answer is a segment
of its own, which the kernel counts.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final

from integration.bench import frames_made
from integration.bench.groups import mail
from integration.bench.machine import note
from integration.bench.owners_stage import REPLICAS, SECTION, Replicas
from integration.bench.passage import connections, grown
from integration.bench.raw_worker import RawWorker, kept_alive
from integration.bench.report import Row, Spread, figure

if TYPE_CHECKING:
    from collections.abc import Iterator

    from integration.bench.passage import Traffic

PER_TOPIC: Final = 100
"""Subscriptions of a topic: what is measured is theirs, and topics cost the broker much more."""
TOPICS: Final = "persistent://public/default/owners-idle"
SEGMENTS: Final = "data_segs_out"
QUIET_S: Final = 5.0
"""After all have subscribed, and before the measurement."""
TARGETS: Final = (2.0, 10.0)
"""Per cent of a core at each replica, and messages a second, with most subscriptions."""


@dataclass(frozen=True, slots=True)
class Idle:
    """What was used, and said, in a second."""

    percent: list[float]
    """Of a core, by each replica."""
    by_topics: float
    """Messages."""
    on_legs: float
    """Pings and answers; 0 where the machine has no `ss`."""


def measure(replicas: Replicas) -> list[Row]:
    """Each number of idle subscriptions, then connections."""
    sizes = replicas.stage.sizes
    counts = sizes.idle_subscriptions
    rows = [row for count in counts for row in _subscriptions(replicas, count, judged=count == counts[-1])]
    return [*rows, *_connections(replicas, sizes.idle_connections)]


def _subscriptions(replicas: Replicas, count: int, *, judged: bool) -> list[Row]:
    began = time.monotonic()
    with _crowds(replicas, count):
        note(f"  {count:,} subscriptions came within {time.monotonic() - began:.0f} s")
        idle = _idle(replicas)
    rows = _rows(f"{count:,} idle subscriptions", idle)
    return [row.with_limit(most) for row, most in zip(rows, TARGETS, strict=True)] if judged else rows


def _connections(replicas: Replicas, count: int) -> list[Row]:
    """They are not kept alive: the measurement is over before anybody misses an answer to a ping."""
    with ExitStack() as ends:
        for number in range(count):
            url = replicas.gateways[number % REPLICAS].service_url
            ends.enter_context(RawWorker(url, f"{TOPICS}-connections", f"s-{number}", "w", 1))
        idle = _idle(replicas)
    return _rows(f"{count:,} idle subscriptions, each on a connection of its own", idle)


def _idle(replicas: Replicas) -> Idle:
    stage = replicas.stage
    stage.wait_until_quiet()
    time.sleep(QUIET_S)
    began, cpu, said, sent = time.monotonic(), replicas.cpu(), mail(stage)[0], _segments(replicas)
    time.sleep(stage.sizes.latency_s)
    elapsed_s = time.monotonic() - began
    percent = [100 * (now - then) / elapsed_s for now, then in zip(replicas.cpu(), cpu, strict=True)]
    by_topics = (mail(stage)[0] - said) / elapsed_s
    on_legs = grown(sent, _segments(replicas)) / elapsed_s
    note(f"  CPU of each {', '.join(f'{each:.2f} %' for each in percent)}; {len(sent) // 2} legs")
    return Idle(percent, by_topics, on_legs)


def _rows(name: str, idle: Idle) -> list[Row]:
    every, busiest = Spread.of([idle.by_topics + idle.on_legs]), Spread.of([max(idle.percent)])
    return [
        Row(SECTION, f"{name}: CPU of the busiest of {REPLICAS}", "%", gateway=busiest, repetitions=[asdict(idle)]),
        Row(
            SECTION,
            f"{name}: messages between replicas in all",
            "1/s",
            gateway=every,
            compared=f"on legs: {figure(idle.on_legs)}",
        ),
    ]


def _segments(replicas: Replicas) -> Traffic:
    """What was sent with bytes in it, on each end of each connection to a replica's port for replicas."""
    return {
        connection: count
        for port in replicas.ports
        for which in (f"dport = :{port}", f"sport = :{port}")
        for connection, count in connections(which, SEGMENTS).items()
    }


@contextmanager
def _crowds(replicas: Replicas, count: int) -> Iterator[None]:
    """So many subscriptions with a worker each, which are spread over the replicas."""
    with ExitStack() as ends:
        crowds = [
            ends.enter_context(RawWorker(gateway.service_url, *names(count, number), "w", 1))
            for number, gateway in enumerate(replicas.gateways)
        ]
        with ThreadPoolExecutor(REPLICAS) as pool:
            list(pool.map(lambda number: _subscribe(crowds[number], number, count), range(REPLICAS)))
        for crowd in crowds:
            ends.enter_context(kept_alive(crowd))
        yield


def _subscribe(crowd: RawWorker, replica: int, count: int) -> None:
    """All of the replica's but the first."""
    numbers = enumerate(range(replica + REPLICAS, count, REPLICAS), 2)
    crowd.request_each(
        frames_made.subscribe(consumer_id, "w", *names(count, number)) for consumer_id, number in numbers
    )


def names(count: int, number: int) -> tuple[str, str]:
    """Topic and name of one of so many subscriptions."""
    return f"{TOPICS}-{count}-{number // PER_TOPIC}", f"s-{number}"
