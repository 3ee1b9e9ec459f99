"""Batches of many keys, as clients with default batching make them, through joins, departures, deaths and refusals.

The audit sees what the applications saw: every message, each key in order and at one worker.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from integration.gateway import KeylineGateway
from integration.load.lives import Cause
from integration.load.options import Batching
from integration.load.run import LoadRun
from integration.standalone import PulsarStandalone
from tests.integration.conftest import explain

MESSAGES = 4_000
KEYS = 300
RATE_PER_S = 1_000.0

CAUSES = {Cause.WORKER_LEFT, Cause.WORKER_KILLED, Cause.NEGATIVE_ACK, Cause.BATCH_UNFINISHED, Cause.CLIENT_QUEUE}

CASES = [
    *(("draining_hashes", codec, False) for codec in ("NONE", "LZ4", "ZLib", "ZSTD", "SNAPPY")),
    ("last_sent_position", "NONE", False),
    ("last_sent_position", "ZSTD", True),
    ("draining_hashes", "LZ4", True),
]


@pytest.mark.parametrize(("mode", "codec", "by_index"), CASES, ids=lambda part: str(part).lower())
def test_default_batches_keep_every_key_in_order_and_at_one_worker(
    mode: str,
    codec: str,
    by_index: bool,  # noqa: FBT001
    pulsar: PulsarStandalone,
    new_topic: Callable[[str], str],
    tmp_path: Path,
) -> None:
    """In each codec and both modes of order, with acknowledgements of whole batches and of single messages."""
    settings = {"ordering_mode": mode}
    gateway = KeylineGateway(pulsar.service_url, pulsar.admin_url, tmp_path / "gateway", settings=settings)
    with gateway, LoadRun(tmp_path / "load", gateway.service_url, new_topic("mixed")) as run:
        usual = {"receiver_queue_size": 100, "ack_delay_ms": 5, "batch_index_ack": by_index}
        run.start_workers("w0", "w1", "w2", **usual)
        run.start_workers("refusing", nack_fraction=0.05, **usual)
        run.produce(
            count=MESSAGES,
            keys=KEYS,
            rate_per_s=RATE_PER_S,
            batching=Batching.DEFAULT,
            batch_messages_max=100,
            compression=codec,
            payload_bytes=200,
        )
        run.wait_acknowledged(MESSAGES // 4)
        run.stop_worker("w0")
        run.start_workers("w3", **usual)
        run.wait_acknowledged(MESSAGES // 2)
        run.kill_worker("w1")
        run.start_workers("w4", "w5", **usual)
        run.wait_acknowledged(MESSAGES)
        (subscription,) = gateway.statistics()["subscriptions"]
        result = run.finish()
    assert result.ok, explain(result)
    assert result.delivered == result.acknowledged == MESSAGES, explain(result)
    assert set(result.duplicates_by_cause) <= CAUSES, explain(result)
    assert subscription["mixed_batches"] > 0, "no batch had several keys"
    assert subscription["opaque_batches"] == 0
