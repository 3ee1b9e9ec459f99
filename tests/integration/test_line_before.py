"""On the long-term line before those of all other tests one gateway and three replicas keep the contract.

Many clusters still run it. Its dispatcher has no draining hashes (PIP-379).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from integration.comparison.plan import OLDER_VERSION
from integration.load.audit import AuditResult
from integration.load.lives import Cause
from integration.load.options import Batching
from integration.load.run import LoadRun
from integration.standalone import PulsarStandalone
from tests.integration.conftest import StartGateway, explain
from tests.integration.owner_rig import KEYS, MESSAGES, RATE_PER_S, TAKING, WORKERS, owned_subscription

NEWCOMER: Final = "newcomer"
OF_A_DEATH: Final = {Cause.GATEWAY_KILLED, Cause.CLIENT_QUEUE}
OF_A_WORKER: Final = {Cause.WORKER_KILLED, Cause.BATCH_UNFINISHED}

pytestmark = [pytest.mark.slow, pytest.mark.broker]


@pytest.fixture(scope="module")
def line_before(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PulsarStandalone]:
    """A broker of it."""
    with PulsarStandalone(OLDER_VERSION, data=tmp_path_factory.mktemp("pulsar")) as broker:
        yield broker


def kept(result: AuditResult) -> bool:
    """Whether all were delivered and acknowledged, in order for each key, and a key was at one worker at a time."""
    return result.ok and result.delivered == result.acknowledged == MESSAGES


def test_one_gateway_keeps_every_key_in_order_and_at_one_worker(
    line_before: PulsarStandalone, start_gateway: StartGateway, new_topic: Callable[[str], str], tmp_path: Path
) -> None:
    """With batches of many keys, while workers come, leave and are killed, and so is the gateway."""
    gateway = start_gateway(line_before)
    with LoadRun(tmp_path / "load", gateway.service_url, new_topic("one"), producer_url=line_before.service_url) as run:
        run.start_workers(*WORKERS, **TAKING)
        run.produce(count=MESSAGES, keys=KEYS, rate_per_s=RATE_PER_S, batching=Batching.DEFAULT, batch_messages_max=100)
        run.wait_acknowledged(MESSAGES // 6)
        run.start_workers(NEWCOMER, **TAKING)
        run.wait_acknowledged(MESSAGES * 2 // 6)
        run.stop_worker(WORKERS[0])
        run.wait_acknowledged(MESSAGES * 3 // 6)
        run.kill_worker(WORKERS[1])
        run.wait_acknowledged(MESSAGES * 4 // 6)
        run.interruption(Cause.GATEWAY_KILLED)
        gateway.kill()
        gateway.start()
        result = run.finish()
    assert kept(result), explain(result, gateway)
    assert result.mixed_batches, explain(result, gateway)
    assert set(result.duplicates_by_cause) <= OF_A_DEATH | OF_A_WORKER, explain(result, gateway)


def test_three_replicas_keep_it_too(
    line_before: PulsarStandalone, new_topic: Callable[[str], str], tmp_path: Path
) -> None:
    """The one that owns the subscription is killed."""
    with owned_subscription(line_before, new_topic("three"), tmp_path) as owned:
        owned.produce()
        owned.run.wait_acknowledged(MESSAGES // 3)
        owner = owned.owner()
        owned.run.interruption(Cause.GATEWAY_KILLED, workers=frozenset(WORKERS))
        owner.kill()
        owner.start()
        owned.finish(*OF_A_DEATH)
