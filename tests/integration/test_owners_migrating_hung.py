"""The owner of a subscription that direct workers share hangs, and goes on as its owner.

The broker closes the connection of one that hangs, because other replicas ask for its sentinel's place, and gives
direct workers what it had. The time until a replica is dropped is so long that it is the owner when it goes on.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from integration.load.lives import Cause
from integration.load.options import SUBSCRIPTION, Batching
from integration.load.run import LoadRun
from integration.standalone import PulsarStandalone
from tests.integration.conditions import eventually
from tests.integration.exclusive_rig import administer
from tests.integration.faults.owner_waits import SILENCE_ALLOWED, frozen
from tests.integration.owner_rig import KEYS, TAKING, WORKERS, Owned, Role, deployment_of

DIRECT: Final = ("d0", "d1")
"""Workers at the broker itself."""
MESSAGES: Final = 4_000
RATE_PER_S: Final = 1_500.0
"""More than workers do: an owner has read ahead."""
WORK_MS: Final = 20.0
QUEUED: Final = 500
"""What a direct worker takes at once: it has much of what the owner had when that goes on."""
DROPPED_LATE_S: Final = 120.0

pytestmark = [pytest.mark.slow, pytest.mark.broker]


@pytest.fixture(scope="module")
def module_broker_settings() -> dict[str, str]:
    """What hung consumers had comes free because others ask for it, or never."""
    return SILENCE_ALLOWED


def test_what_direct_workers_were_given_meanwhile_is_not_delivered_beside_them(
    module_broker: PulsarStandalone, new_topic: Callable[[str], str], tmp_path: Path
) -> None:
    """Neither what it had read ahead, nor what its workers had not acknowledged: they come again, as at the broker."""
    topic, broker = new_topic("migrating-hung"), module_broker
    settings = {"migrating_subscriptions": f"{topic} {SUBSCRIPTION}", "group_drop_s": str(DROPPED_LATE_S)}

    def consumers() -> set[str]:
        told = administer(broker, "GET", topic, "stats")["subscriptions"][SUBSCRIPTION]["consumers"]
        return {each["consumerName"] for each in told}

    with (
        deployment_of(broker, topic.rpartition("/")[2], tmp_path, settings) as replicas,
        LoadRun(tmp_path / "load", replicas.service_url, topic, producer_url=broker.service_url) as run,
    ):
        place = Owned(replicas.gateways, run, replicas.start)
        place.start_workers(*WORKERS, work_ms=WORK_MS)
        owner = place.replica(Role.OWNER)  # the next leader would not wait for it so long
        run.produce(count=MESSAGES, keys=KEYS, rate_per_s=RATE_PER_S, batching=Batching.NONE)
        run.wait_acknowledged(MESSAGES // 8)
        for name in DIRECT:
            options = {**TAKING, "work_ms": WORK_MS, "receiver_queue_size": QUEUED}
            run.start_worker(name, service_url=broker.service_url, **options).wait_joined()
        with run.paused(Cause.GATEWAY_PAUSED, WORKERS), frozen(owner):
            eventually(lambda: consumers() == set(DIRECT), "the broker to give the owner up")
        eventually(lambda: len(consumers()) == len(DIRECT) + 1, "an owner beside direct workers")
        run.wait_acknowledged(MESSAGES)
        assert place.owner() is owner, "another owns it: this proves nothing"
        causes = Cause.GATEWAY_STOPPED, Cause.GATEWAY_PAUSED, Cause.CLIENT_QUEUE, Cause.CONNECTION_LOST
        place.finish(*causes, messages=MESSAGES)
