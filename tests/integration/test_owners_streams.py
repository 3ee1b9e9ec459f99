"""Replicas in owner mode, and one subscription that they share by streams, because their configuration names it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pulsar
import pytest

from integration.artifacts import PULSAR_VERSIONS
from integration.gateway import KeylineGateway
from integration.load.lives import Cause
from integration.load.options import SUBSCRIPTION, Batching
from integration.standalone import PulsarStandalone
from proxy.cli.admin_client import AdminClient
from tests.integration.clients import key_shared
from tests.integration.conditions import eventually
from tests.integration.exclusive_rig import STREAMS, stream_holders
from tests.integration.owner_rig import KEYS, REPLICAS, TAKING, WORKERS, Owned, owned_subscription

MESSAGES = 12_000
RATE_PER_S = 600.0
OTHER = "whole"
"""Another subscription of the same topic."""

pytestmark = [pytest.mark.slow, pytest.mark.broker]

on_the_current_line = pytest.mark.parametrize("module_broker", PULSAR_VERSIONS[:1], indirect=True, scope="module")
"""What the gateway does is the same on both; that brokers keep owners and streams apart is tried on each."""


@contextmanager
def shared(broker: PulsarStandalone, topic: str, directory: Path) -> Iterator[Owned]:
    """Three replicas, two workers at each, and streams at all."""
    settings = {"streamed_subscriptions": f"{topic} {SUBSCRIPTION}"}
    with owned_subscription(broker, topic, directory, settings) as place:
        eventually(lambda: len(stream_holders(broker, topic)) == REPLICAS, "streams at every replica")
        yield place


def produce(place: Owned) -> None:
    """In batches of one key each, as streams need it."""
    place.run.produce(count=MESSAGES, keys=KEYS, rate_per_s=RATE_PER_S, batching=Batching.KEY_BASED)


def parts(gateway: KeylineGateway, topic: str, name: str = SUBSCRIPTION) -> list[dict[str, Any]]:
    """What a replica lists of a subscription, of all replicas."""
    told = AdminClient(gateway.admin_url).pages("/subscriptions", "subscriptions")["subscriptions"]
    return [item for item in told if (item["topic"], item["subscription"]) == (topic, name)]


def names(gateways: list[KeylineGateway]) -> set[str]:
    """As the deployment names them."""
    return {gateway.deployment()["replica"] for gateway in gateways}


@on_the_current_line
def test_workers_stay_at_their_replica_and_others_have_an_owner(
    module_broker: PulsarStandalone, new_topic: Callable[[str], str], tmp_path: Path
) -> None:
    """Any replica lists who has which part; an order given at one holds at all; one that stops hands its streams on."""
    topic = new_topic("streamed")
    with shared(module_broker, topic, tmp_path) as place:
        gateways = place.gateways
        with closing(pulsar.Client(gateways[0].service_url)) as client:
            key_shared(client, topic, "whole-0", subscription_name=OTHER)
            every = names(gateways)
            for gateway in gateways:
                found = parts(gateway, topic)
                assert {item["served_by"] for item in found} == every
                assert {item["groups_mode"] for item in found} == {"streams"}
                assert sum(item["group"]["streams_here"] for item in found) == STREAMS
                assert [item["groups_mode"] for item in parts(gateway, topic, OTHER)] == ["owner"]
        assert set().union(*(place.workers(gateway) for gateway in gateways)) == set(WORKERS)
        path = f"/subscriptions/{topic.removeprefix('persistent://')}/{SUBSCRIPTION}"
        asked = [AdminClient(gateway.admin_url) for gateway in gateways]
        asked[0].ask("POST", f"{path}/pause")
        eventually(lambda: all(each.ask("GET", path)["dispatcher"]["paused"] for each in asked), "the order at all")
        produce(place)
        eventually(lambda: sum(waiting(each, path) for each in asked) > 0, "messages that wait for the end of it")
        assert place.run.audit().delivered == 0
        asked[1].ask("POST", f"{path}/resume")
        place.run.wait_acknowledged(MESSAGES // 4)
        for number, gateway in enumerate(gateways):
            place.run.wait_acknowledged(MESSAGES * (number + 2) // (REPLICAS + 3))
            gateway.restart()
        place.finish(messages=MESSAGES)


def waiting(asked: AdminClient, path: str) -> int:
    """Messages of the subscription that wait at one replica."""
    waiting: int = asked.ask("GET", path)["dispatcher"]["waiting_messages"]
    return waiting


@on_the_current_line
def test_a_replica_is_killed(module_broker: PulsarStandalone, new_topic: Callable[[str], str], tmp_path: Path) -> None:
    """Its streams go to the others when it has certainly stopped, and what its workers had comes again in order."""
    topic = new_topic("streamed-killed")
    with shared(module_broker, topic, tmp_path) as place:
        produce(place)
        place.run.wait_acknowledged(MESSAGES // 3)
        killed = place.gateways[0]
        place.run.interruption(Cause.GATEWAY_KILLED, workers=killed.workers(topic, SUBSCRIPTION))
        killed.kill()
        eventually(lambda: len(stream_holders(module_broker, topic)) == REPLICAS - 1, "all streams at the others")
        killed.start()
        place.finish(Cause.GATEWAY_KILLED, Cause.CLIENT_QUEUE, messages=MESSAGES)


@pytest.mark.parametrize("named", [True, False], ids=["named", "no-longer-named"])
def test_while_replicas_differ_some_workers_wait_and_nothing_is_out_of_order(
    named: bool,  # noqa: FBT001 - a case
    module_broker: PulsarStandalone,
    new_topic: Callable[[str], str],
    tmp_path: Path,
) -> None:
    """The broker lets an owner or streams consume it, never both: who has it goes on, and the others say why not."""
    topic = new_topic("streamed-later")
    pattern = f"{topic} {SUBSCRIPTION}"
    settings = {} if named else {"streamed_subscriptions": pattern}
    with owned_subscription(module_broker, topic, tmp_path, settings) as place:
        if named:
            place.place(place.gateways[-1])
            stay(place.gateways[-1], topic)
        produce(place)
        place.run.wait_acknowledged(MESSAGES // 6)
        for number, gateway in enumerate(place.gateways):
            change(place, gateway, pattern if named else "")
            if named and gateway is place.gateways[0]:
                place.run.start_worker("late", service_url=gateway.service_url, **TAKING).wait_joined()
                eventually(partial(refused, gateway, topic), "streams that the broker refuses beside the owner")
            place.run.wait_acknowledged(MESSAGES * (number + 2) // (REPLICAS + 3))
        mode = "streams" if named else "owner"
        eventually(lambda: {item["groups_mode"] for item in parts(place.gateways[0], topic)} == {mode}, mode)
        place.finish(Cause.GATEWAY_STOPPED, Cause.CLIENT_QUEUE, Cause.CONNECTION_LOST, messages=MESSAGES)


def change(place: Owned, gateway: KeylineGateway, patterns: str) -> None:
    """Restart one replica with this setting."""
    gateway.configure(streamed_subscriptions=patterns)
    place.run.interruption(Cause.GATEWAY_STOPPED)
    gateway.restart()


def stay(gateway: KeylineGateway, topic: str) -> None:
    """Keep the subscription at this replica, whichever others come and go."""
    path = f"/subscriptions/{topic.removeprefix('persistent://')}/{SUBSCRIPTION}/owner"
    name = gateway.deployment()["replica"].rpartition("-")[0]
    AdminClient(gateway.admin_url).ask("PUT", path, json={"replica": name})


def refused(gateway: KeylineGateway, topic: str) -> bool:
    """Whether it has streams by its group, and the broker gives it none of them."""
    path = f"/groups/{topic.removeprefix('persistent://')}/{SUBSCRIPTION}"
    streams = AdminClient(gateway.admin_url).ask("GET", path)["streams"]
    return bool(streams) and all(stream["upstream_error"] for stream in streams)
