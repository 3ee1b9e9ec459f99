"""Scenarios after Pulsar's own tests of Key_Shared, with its Java client, through replicas as through one gateway.

Pulsar's tests start a broker within their process and look into it, so they cannot be run against another. The probe
program plays what they do and see from outside (`integration/compatibility/java/SuiteOf*.java`); `SUITE` says which of
Pulsar's tests each scenario follows. Every worker has a client of its own. Through three replicas these are at
different ones in turn, so that most are led to the owner by another. Left out is `testReadAheadWhenAddingConsumers`,
which reads a broker's own read position; a gateway's look-ahead is bounded in `tests/core/test_upstream_window.py`.

Pulsar's tests batch by key. Here each scenario of messages comes with the default batching, too, of many keys to a
batch. That is not played directly: a broker gives such a batch to one worker, and does not keep the order.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from integration.artifacts import PULSAR_VERSIONS
from integration.compatibility.outcomes import Outcome
from integration.compatibility.place import Place
from integration.gateway import KeylineGateway
from tests.integration.busy_replicas import settle
from tests.integration.probes import outcomes
from tests.integration.test_flood import metric

REPLICAS: Final = 3
RUN_S_MAX: Final = 900
LED: Final = "keyline_deployment_legs_received_bytes_total"
MIXED: Final = "_mixed"
"""Default batching."""


def packed(*names: str) -> tuple[str, ...]:
    """A scenario with each packing of its messages."""
    return tuple(f"{name}{packing}" for name in names for packing in ("_single", "_by_key", MIXED))


def dealt(name: str) -> tuple[str, ...]:
    """Also on a topic that is not stored."""
    return (*packed(name), f"{name}_unstored_single", f"{name}_unstored_by_key")


SUITE: Final = {
    # client.api.KeySharedSubscriptionTest
    "testSendAndReceiveWithHashRangeAutoSplitStickyKeyConsumerSelector": dealt("split"),
    "testSendAndReceiveWithBatching": dealt("pairs"),
    "testConsumerCrashSendAndReceiveWithHashRangeAutoSplitStickyKeyConsumerSelector": dealt("crash"),
    "testNonKeySendAndReceiveWithHashRangeAutoSplitStickyKeyConsumerSelector": dealt("no_key"),
    "testOrderingKeyWithHashRangeAutoSplitStickyKeyConsumerSelector": packed("ordering_key"),
    "testSendAndReceiveWithHashRangeExclusiveStickyKeyConsumerSelector": packed("ranges"),
    "testNonKeySendAndReceiveWithHashRangeExclusiveStickyKeyConsumerSelector": packed("no_key_ranges"),
    "testOrderingKeyWithHashRangeExclusiveStickyKeyConsumerSelector": packed("ordering_key_ranges"),
    "testDisableKeySharedSubscription": ("not_enabled",),
    "testCannotUseAcknowledgeCumulative": ("not_cumulative",),
    "testMakingProgressWithSlowerConsumer": packed("slow_worker"),
    "testOrderingWhenAddingConsumers": packed("added"),
    "testRemoveFirstConsumer": packed("first_removed"),
    "testHashRangeConflict": ("ranges_conflict",),
    "testWithMessageCompression": ("compressed",),
    "testAttachKeyToMessageMetadata": ("one_by_one",),
    "testContinueDispatchMessagesWhenMessageTTL": ("expired",),
    "testOrderingWithConsumerListener": ("listener", "listener_partitioned"),
    "testKeySharedConsumerWithEncrypted": ("encrypted",),
    "testSelectorChangedAfterAllConsumerDisconnected": ("mode_changed", "mode_changed_unstored"),
    "testAllowOutOfOrderDeliveryChangedAfterAllConsumerDisconnected": ("order_changed",),
    "testCheckConsumersWithSameName": ("same_name",),
    "testStickyKeyRangesRestartConsumers": ("ranges_restart",),
    "testContinueDispatchMessagesWhenMessageDelayed": ("delayed_between",),
    "testNoRepeatedReadAndDiscard": packed("ack_holes"),
    "testRecentJoinedPosWillNotStuckOtherConsumer": packed("late_in_order", "late_out_of_order"),
    "testOrderingAfterReconnects": packed("reconnected"),
    # client.impl.KeySharedSubscriptionTest, later client.api.KeySharedSubscriptionMaxUnackedMessagesTest
    "testCanRecoverConsumptionWhenLiftMaxUnAckedMessagesRestriction": ("unacked_limit",),
}
"""Scenarios by the test of Pulsar's that they follow."""

OWN: Final = packed("rest_delivered")
"""Of the same kind: newcomers while all before them are full."""

SCENARIOS: Final = (*chain.from_iterable(SUITE.values()), *OWN)
WAYS: Final = {
    "direct": tuple(name for name in SCENARIOS if not name.endswith(MIXED)),
    "gateway": SCENARIOS,
    "replicas": SCENARIOS,
}


class Played(NamedTuple):
    """All scenarios on all ways."""

    outcomes: dict[str, dict[str, Outcome]]
    """By way and scenario."""
    led_bytes: list[float]
    """What each replica received from clients at others."""


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Played]:
    """At one broker, beside each other."""
    directory: Path = tmp_path_factory.mktemp("suite")
    with (
        Place(PULSAR_VERSIONS[0], directory, REPLICAS) as place,
        KeylineGateway(
            place.broker.service_url,
            place.broker.admin_url,
            directory / "alone",
            settings={"broker_token": place.token, "groups_enabled": "false"},
        ) as alone,
    ):
        prepare(place)
        settle(place.gateways)
        urls = {"direct": place.broker.service_url, "gateway": alone.service_url, "replicas": place.service_url}
        with ThreadPoolExecutor(len(urls)) as pool:
            runs = {
                way: pool.submit(outcomes, "java", url, place, WAYS[way], way, RUN_S_MAX) for way, url in urls.items()
            }
        found = {way: run.result() for way, run in runs.items()}
        yield Played(found, [metric(gateway, LED) for gateway in place.gateways])


def prepare(place: Place) -> None:
    """Namespaces with rules of their own."""
    rules: dict[str, dict[str, object]] = {
        "without": {"subscriptionTypesEnabled": ["Exclusive", "Shared", "Failover"]},
        "few": {"maxUnackedMessagesPerConsumer": 10},
    }
    for name, rule in rules.items():
        namespace = f"public/{name}"
        place.broker.create_namespace(namespace)
        with place.broker.admin() as http:
            for policy, value in rule.items():
                http.post(f"/admin/v2/namespaces/{namespace}/{policy}", json=value).raise_for_status()


@pytest.mark.slow
@pytest.mark.broker
@pytest.mark.parametrize(("way", "scenario"), [(way, name) for way, names in WAYS.items() for name in names])
def test_a_scenario_of_pulsars_suite_ends_well(way: str, scenario: str, played: Played) -> None:
    """At the broker itself, too: so the scenario asks for nothing that Pulsar does not give."""
    outcome = played.outcomes[way][scenario]
    assert outcome.ok, outcome.detail


@pytest.mark.slow
@pytest.mark.broker
def test_every_replica_had_workers_of_others(played: Played) -> None:
    """So none of the scenarios was at one gateway only by chance."""
    assert len(played.led_bytes) == REPLICAS
    assert all(played.led_bytes)
