"""Order and loss with workers on WebSockets beside unmodified clients, under load and while they come and go."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from integration.gateway import KeylineGateway
from integration.load.options import Batching
from integration.load.run import LoadRun
from tests.integration.conftest import explain
from tests.integration.shared_load import share_a_load

MESSAGES = 12_000
KEYS = 500
HELD_MS = 30
"""How long a worker that is to be killed holds each message."""

pytestmark = pytest.mark.slow


def kinds(gateway: KeylineGateway) -> dict[str, dict[str, Any]]:
    """One worker of each kind: every language of WebSockets, and the official client."""
    base = gateway.admin_url.replace("http://", "ws://") + "/ws/"
    return {
        "pulsars": {"websocket": f"{base}v2/", "receiver_queue_size": 100, "ack_delay_ms": 5},
        "refusing": {"websocket": f"{base}v2/", "nack_fraction": 0.02, "nack_delay_ms": 50},
        "ours": {"websocket": f"{base}v1/", "receiver_queue_size": 50, "ack_delay_ms": 3},
        "binary": {"websocket": f"{base}v1/?frames=binary", "nack_fraction": 0.01, "nack_delay_ms": 20},
        "official": {"receiver_queue_size": 100, "ack_delay_ms": 5},
    }


@pytest.mark.parametrize("batching", Batching, ids=lambda batching: batching.value)
def test_workers_on_websockets_and_others_share_a_load(
    batching: Batching,
    gateway: KeylineGateway,
    new_topic: Callable[[str], str],
    tmp_path: Path,
    topic_statistics: Callable[[str], dict[str, Any]],
) -> None:
    """Each is restarted once: each key stays in order and at one worker, nothing is lost, the broker keeps nothing."""
    topic = new_topic(f"sockets-{batching.value}")
    share_a_load(
        tmp_path, gateway, topic, kinds(gateway), topic_statistics, messages=MESSAGES, keys=KEYS, batching=batching
    )


def test_a_killed_worker_on_a_websocket_costs_no_order(
    gateway: KeylineGateway, new_topic: Callable[[str], str], tmp_path: Path
) -> None:
    """Its process is gone in the middle of its work: what it held goes to others first of all, in order."""
    workers = kinds(gateway)
    with LoadRun(tmp_path, gateway.service_url, new_topic("sockets-killed")) as run:
        for name in ("pulsars", "ours"):
            run.start_workers(name, **workers[name] | {"ack_delay_ms": HELD_MS})
        run.produce(count=MESSAGES, keys=KEYS, batching=Batching.DEFAULT, run_length=5)
        for step, name in enumerate(("pulsars", "ours", "pulsars", "ours")):
            run.wait_acknowledged(MESSAGES * (step + 1) // 6)
            run.kill_worker(name)
            run.start_workers(name, **workers[name] | {"ack_delay_ms": HELD_MS})
        result = run.finish()
        assert result.ok, explain(result, gateway)
        assert result.delivered == result.acknowledged == MESSAGES, explain(result, gateway)
        assert result.duplicates_by_cause, "no killed worker held anything: this load proves nothing"
