"""The replica that has a subscription hangs while `streamed_subscriptions` is changed, one replica after another.

There is no lease between an owner and streams: only the broker keeps them apart. The broker's keep-alive is set to
longer than any test: so what a replica that hangs consumed comes free because others ask for it, or never.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from integration.artifacts import PULSAR_VERSIONS
from integration.load.lives import Cause
from integration.load.options import SUBSCRIPTION, Batching
from integration.load.run import LoadRun
from integration.standalone import PulsarStandalone
from tests.integration.conditions import eventually
from tests.integration.faults.owner_waits import SILENCE_ALLOWED, frozen
from tests.integration.owner_rig import KEYS, TAKING, WORKERS, Owned, deployment_of, owned_subscription
from tests.integration.test_owners_streams import change, parts, refused, stay

MESSAGES: Final = 3_000
"""Before it hangs and meanwhile, and again afterwards."""
RATE_PER_S: Final = 600.0
FASTER_PER_S: Final = 1_500.0
WORK_MS: Final = 10.0
"""For a message, of workers that are slower than that together: an owner has read ahead."""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.broker,
    pytest.mark.parametrize("module_broker", PULSAR_VERSIONS[:1], indirect=True, scope="module"),
]


@pytest.fixture(scope="module")
def module_broker_settings() -> dict[str, str]:
    """What hung consumers had comes free because others ask for it, or never."""
    return SILENCE_ALLOWED


def produce(place: Owned) -> None:
    """In batches of one key each, as streams need it."""
    place.run.produce(count=MESSAGES, keys=KEYS, rate_per_s=RATE_PER_S, batching=Batching.KEY_BASED)


@pytest.mark.parametrize("named", [True, False], ids=["named", "no-longer-named"])
def test_keys_go_on_elsewhere_though_replicas_differ(
    named: bool,  # noqa: FBT001 - a case
    module_broker: PulsarStandalone,
    new_topic: Callable[[str], str],
    tmp_path: Path,
) -> None:
    """An owner hangs that the first changed replica waits for, or one of two that still share it by streams.

    Nothing is lost or out of order, and all is acknowledged before the one that hangs goes on.
    """
    topic = new_topic("hung-in-change")
    pattern = f"{topic} {SUBSCRIPTION}"
    before, after = ("", pattern) if named else (pattern, "")
    with owned_subscription(module_broker, topic, tmp_path, {"streamed_subscriptions": before}) as place:
        first, *others = place.gateways
        hangs = others[-1]
        if named:
            place.place(hangs)
            stay(hangs, topic)
        change(place, first, after)
        if named:
            place.run.start_worker("late", service_url=first.service_url, **TAKING).wait_joined()
            eventually(partial(refused, first, topic), "streams that the broker refuses beside the owner")
        produce(place)
        place.run.wait_acknowledged(MESSAGES // 4)
        with place.run.paused(Cause.GATEWAY_PAUSED, WORKERS), frozen(hangs):
            place.run.wait_acknowledged(MESSAGES)
        produce(place)
        for gateway in others:
            change(place, gateway, after)
        mode = "streams" if named else "owner"
        eventually(lambda: {item["groups_mode"] for item in parts(first, topic)} == {mode}, mode)
        causes = Cause.GATEWAY_STOPPED, Cause.GATEWAY_PAUSED, Cause.CLIENT_QUEUE, Cause.CONNECTION_LOST
        place.finish(*causes, messages=2 * MESSAGES)


def test_what_an_owner_has_read_ahead_is_not_delivered_when_others_have_taken_over(
    module_broker: PulsarStandalone, new_topic: Callable[[str], str], tmp_path: Path
) -> None:
    """It goes on as soon as streams consume: the deployment may not have given it up, and leases it the same again."""
    topic = new_topic("ahead-in-change")
    pattern = f"{topic} {SUBSCRIPTION}"
    with (
        deployment_of(module_broker, topic.rpartition("/")[2], tmp_path) as replicas,
        LoadRun(tmp_path / "load", replicas.service_url, topic, producer_url=module_broker.service_url) as run,
    ):
        place = Owned(replicas.gateways, run, replicas.start)
        place.start_workers(*WORKERS, work_ms=WORK_MS)
        first, *others = place.gateways
        hangs = others[-1]
        place.place(hangs)
        stay(hangs, topic)
        change(place, first, pattern)
        slow = {**TAKING, "work_ms": WORK_MS}
        run.start_worker("late", service_url=first.service_url, **slow).wait_joined()
        eventually(partial(refused, first, topic), "streams that the broker refuses beside the owner")
        run.produce(count=MESSAGES, keys=KEYS, rate_per_s=FASTER_PER_S, batching=Batching.KEY_BASED)
        run.wait_acknowledged(MESSAGES // 6)
        with run.paused(Cause.GATEWAY_PAUSED, WORKERS), frozen(hangs):
            eventually(lambda: not refused(first, topic), "streams beside the owner that hangs")
        run.wait_acknowledged(MESSAGES)
        causes = Cause.GATEWAY_STOPPED, Cause.GATEWAY_PAUSED, Cause.CLIENT_QUEUE, Cause.CONNECTION_LOST
        place.finish(*causes, messages=MESSAGES)
