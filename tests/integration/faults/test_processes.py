"""Processes that stop for a while and go on, topics that move away, and a wall clock that jumps.

Nobody dies here (`test_kills` is about that): everything that was true before must be true afterwards, and workers
whose connections stood must not notice.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable

import httpx
import pytest

from integration.load.lives import Cause
from integration.load.options import Batching
from integration.load.run import LoadRun
from tests.integration.conditions import eventually
from tests.integration.faults.line import (
    BROKER_KEEP_ALIVE_S,
    KEYS,
    LONGER_THAN_KEEP_ALIVE_S,
    LOST,
    MESSAGES,
    RECEIVER_QUEUE_SIZE,
    SHORTER_THAN_KEEP_ALIVE_S,
    WORKERS,
    Line,
    events,
    every_version,
    last,
    reach,
    repeat_through,
    seen_or_not,
    until,
)

pytestmark = [pytest.mark.slow, pytest.mark.broker]

UNLOADS = 4
BURSTS = 4
UNLOADS_OF_A_BURST = 12
IDLE_MESSAGES = 500


@pytest.mark.parametrize("pause_s", [SHORTER_THAN_KEEP_ALIVE_S, LONGER_THAN_KEEP_ALIVE_S], ids=["short", "long"])
def test_the_gateway_is_stopped_and_continued(pause_s: float, line: Line) -> None:
    """A gateway that slept takes nobody for dead whom it did not listen to; the broker that gave it up gets it back."""
    with line.load() as run:
        reach(run, 0.3)
        line.gateway.pause()
        last(pause_s)
        line.gateway.resume()
        line.check(run.finish(), set())


def test_an_idle_gateway_is_stopped_and_continued(line: Line) -> None:
    """Silence that it slept through is nobody's fault: workers and broker that had nothing to say keep their places."""
    with line.load(count=IDLE_MESSAGES) as run:
        reach(run, 1.0, IDLE_MESSAGES)
        last(BROKER_KEEP_ALIVE_S)
        line.gateway.pause()
        last(LONGER_THAN_KEEP_ALIVE_S)
        line.gateway.resume()
        last(BROKER_KEEP_ALIVE_S)
        run.produce(count=IDLE_MESSAGES, keys=KEYS)
        line.check(run.finish(), set(), messages=2 * IDLE_MESSAGES)


@every_version
def test_the_broker_is_stopped_and_continued(line: Line) -> None:
    """Workers keep their connections; producers at the broker may send again what it had stored and not confirmed."""
    with line.load() as run:
        reach(run, 0.3)
        line.broker.pause()
        until(line.gateway.log)
        line.broker.resume()
        line.check(run.finish(), {Cause.SENT_TWICE})


def unload_topic(line: Line) -> None:
    """Let the broker close the topic, and with it every consumer and producer; whoever asks next opens it again."""
    put(line, f"{line.topic.replace('://', '/')}/unload")


def unload_bundles(line: Line) -> None:
    """Let the broker give up every bundle of the namespace, as a load balancer does."""
    namespace = "namespaces/public/default"
    with httpx.Client(base_url=f"{line.broker.admin_url}/admin/v2", trust_env=False, timeout=30) as http:
        borders = http.get(f"/{namespace}/bundles").raise_for_status().json()["boundaries"]
    for low, high in itertools.pairwise(borders):
        put(line, f"{namespace}/{low}_{high}/unload")


def put(line: Line, path: str) -> None:
    """Tell the broker to do something."""
    url = f"{line.broker.admin_url}/admin/v2/{path}"
    with httpx.Client(trust_env=False, timeout=60) as http:
        http.put(url).raise_for_status()


def stored(line: Line) -> int:
    """Messages that the broker has stored since it loaded the topic; 0 while it does not serve it."""
    with line.broker.admin() as http:
        answer = http.get(f"/admin/v2/{line.topic.replace('://', '/')}/stats")
    return int(answer.json()["msgInCounter"]) if answer.is_success else 0


def has_ended(line: Line) -> bool:
    """Whether the producer has sent everything, and has left its record."""
    return (line.directory / "producer-0.json").exists()


@pytest.mark.parametrize("unload", [unload_topic, unload_bundles], ids=["topic", "bundles"])
@every_version
def test_topics_are_unloaded(unload: Callable[[Line], None], line: Line) -> None:
    """The broker fences the topic and closes the gateway's consumer; producers of the gateway lose theirs too.

    Not while one is on its way back: a producer of Pulsar's C++ client that is closed then may hang for ever.
    """
    with line.load(Batching.NONE, producer_url=line.gateway.service_url) as run:

        def unload_once_it_is_back() -> None:
            eventually(lambda: has_ended(line) or stored(line) > 0, "the producer to be back")
            unload(line)

        repeat_through(run, UNLOADS, seen_or_not(line, unload_once_it_is_back))
        line.check(run.finish(), {Cause.SENT_TWICE})


@every_version
def test_topics_are_unloaded_again_and_again(line: Line) -> None:
    """A broker that unloads a topic it loaded only just loses acks that it had confirmed (see `CursorWatch`).

    Everything is there before: a producer of Pulsar's C++ client that is closed while it comes back may hang for ever.
    """
    dice = random.Random(1)  # noqa: S311 - nothing secret
    with LoadRun(line.directory, line.worker_side.service_url, line.topic, producer_url=line.broker.service_url) as run:
        run.produce(batching=Batching.NONE, count=MESSAGES, keys=KEYS, run_length=5).record()
        run.start_workers(*WORKERS, receiver_queue_size=RECEIVER_QUEUE_SIZE, ack_delay_ms=100)
        for number in range(BURSTS):
            reach(run, (number + 1) / (BURSTS + 2))
            for _ in range(UNLOADS_OF_A_BURST):
                last(dice.choice((0.01, 0.03, 0.1)))
                unload_topic(line)
        line.check(run.finish(), set())
    assert events(line.gateway.log).count(LOST) > 1
