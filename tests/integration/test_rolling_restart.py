"""The promise, under load: while workers are replaced one after another, every key keeps its order and its worker.

Unmodified Python clients, a real broker, 1,000 keys. Four workers are restarted in turn, over and over, each at a
moment when it holds messages; a fifth comes and goes in between. 72,000 messages in each of the three ways a producer
packs them make 216,000 on each broker version. Records and audit are the clients' own (`integration.load`).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from integration.gateway import KeylineGateway
from integration.load.audit import AuditResult
from integration.load.lives import Cause
from integration.load.options import SUBSCRIPTION, Batching
from integration.load.run import LoadRun
from tests.integration.conditions import eventually
from tests.integration.conftest import explain
from tests.integration.shared_load import share_a_load

MESSAGES = 72_000
UNLIKE_MESSAGES = 12_000
KEYS = 1_000
WORKERS = ("w1", "w2", "w3", "w4")
ROUNDS = 2
RECEIVER_QUEUE_SIZE = 200
"""Small enough that a key's messages soon lie at the application, where the audit sees them."""

pytestmark = pytest.mark.slow


def roll(run: LoadRun) -> None:
    """Replace each worker in turn while the load goes on; the steps are spread over the whole of it."""
    steps = ROUNDS * len(WORKERS)
    for step in range(steps):
        run.wait_acknowledged(MESSAGES * (step + 1) // (steps + 2))
        name = WORKERS[step % len(WORKERS)]
        run.stop_worker(name)
        worker = run.start_worker(name, receiver_queue_size=RECEIVER_QUEUE_SIZE, ack_delay_ms=5)
        if step % len(WORKERS) == 1:
            run.start_workers("guest", receiver_queue_size=RECEIVER_QUEUE_SIZE)
        elif step % len(WORKERS) == 3:
            run.stop_worker("guest")
        worker.wait_joined()


def hand_overs(gateway: KeylineGateway, topic: str) -> int:
    """Keys that drained at one worker before the next got them, by the gateway's own count."""
    counts = [item["hand_over_count"] for item in gateway.statistics()["subscriptions"] if item["topic"] == topic]
    return sum(counts)


def check(result: AuditResult, gateway: KeylineGateway) -> None:
    """Nothing lost, reordered or shared; repeated only what a leaving worker had not acknowledged."""
    assert result.ok, explain(result, gateway)
    assert result.delivered == result.acknowledged == result.confirmed == MESSAGES, explain(result, gateway)
    assert result.connections_lost == 0, explain(result, gateway)
    assert set(result.duplicates_by_cause) <= {Cause.WORKER_LEFT, Cause.BATCH_UNFINISHED}, explain(result, gateway)


@pytest.mark.parametrize("batching", Batching, ids=lambda batching: batching.value)
def test_workers_restart_one_after_another_under_load(
    batching: Batching,
    gateway: KeylineGateway,
    new_topic: Callable[[str], str],
    tmp_path: Path,
    topic_statistics: Callable[[str], dict[str, Any]],
) -> None:
    """Per-key order, one worker per key, nothing lost, nothing repeated without a cause; the broker keeps nothing."""
    topic = new_topic(f"rolling-{batching.value}")
    with LoadRun(tmp_path, gateway.service_url, topic) as run:
        run.start_workers(*WORKERS, receiver_queue_size=RECEIVER_QUEUE_SIZE, ack_delay_ms=5)
        # Runs of five, so that a key-based batch holds several messages and a mixed one several keys.
        run.produce(count=MESSAGES, keys=KEYS, batching=batching, run_length=1 if batching is Batching.NONE else 5)
        roll(run)
        assert hand_overs(gateway, topic) > 0, "no key had to wait for its old worker: this load proves nothing"
        result = run.finish()
        check(result, gateway)
        eventually(
            lambda: topic_statistics(topic)["subscriptions"][SUBSCRIPTION]["msgBacklog"] == 0,
            "an empty backlog: every entry acknowledged at the broker too",
        )


UNLIKE: dict[str, dict[str, Any]] = {
    "plain": {},
    "listening": {"listener": True},
    "refusing": {"nack_fraction": 0.02, "nack_delay_ms": 50},
    "narrow": {"receiver_queue_size": 1},
    "slow": {"work_ms": 1.0},
    "exact": {"batch_index_ack": True, "properties": {"team": "billing"}},
}
"""One worker of each kind: how it receives, how it acknowledges, how fast it is."""


@pytest.mark.parametrize("batching", Batching, ids=lambda batching: batching.value)
def test_unlike_workers_share_a_load(
    batching: Batching,
    gateway: KeylineGateway,
    new_topic: Callable[[str], str],
    tmp_path: Path,
    topic_statistics: Callable[[str], dict[str, Any]],
) -> None:
    """Each restarted once, in all ways to receive and to acknowledge. What is refused comes again before newer ones."""
    topic = new_topic(f"unlike-{batching.value}")
    share_a_load(
        tmp_path, gateway, topic, UNLIKE, topic_statistics, messages=UNLIKE_MESSAGES, keys=KEYS, batching=batching
    )
