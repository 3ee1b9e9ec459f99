"""Our part of Pulsar's statistics: what is put in, what stays, what is added up."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any

import pytest

from admin_api.pulsar.consumers import MODEL
from admin_api.pulsar.merge import is_own, merge_topic, without_consumers
from admin_api.pulsar.moments import Epoch, iso
from admin_api.pulsar.partitioned import merge_partitions
from admin_api.pulsar.paths import broker_path, stats_asked, stats_query
from admin_api.pulsar.rates import READINGS_MAX, Rates
from admin_api.pulsar.stepwise import decoded, encoded
from proxy.core.statistics import DrainingHash, WorkerStatistics
from proxy.core.steps import finished
from proxy.core.worker_health import Urgency, WorkerHealth, WorkerState
from proxy.errors import ClientError
from proxy.views.values import ConnectedConsumer, ConnectedSubscription

TOPIC = "persistent://public/default/t"
NOW = 100.0
WALL = 1_700_000_100.0
"""When it is `NOW`."""

WELL = WorkerHealth(
    state=WorkerState.READY,
    urgency=Urgency.NONE,
    says="",
    oldest_unacked=None,
    oldest_unacked_s=None,
    silent_s=None,
    acked_rate=0.0,
    usual_acked_rate=None,
    peers_acked_rate=None,
    waiting_for_it=0,
)
"""Of which a broker's answer has nothing."""


def worker(name: str, **changes: Any) -> ConnectedConsumer:
    """A worker that got 7 messages, of which it holds 2."""
    values: dict[str, Any] = {
        "name": name,
        "available_permits": 993,
        "unacked_messages": 2,
        "pending_acks": 2,
        "blocked_on_unacked_messages": False,
        "writable": True,
        "drained_by_operator": False,
        "sent_messages": 7,
        "sent_bytes": 700,
        "acked_messages": 5,
        "redelivered_messages": 0,
        "unknown_acks": 0,
        "joined_at": 40.0,
        "last_sent_at": 90.25,
        "last_acked_at": 0.0,
        "last_flow_at": 41.0,
        "key_hash_ranges": ((1, 100), (200, 65_535)),
        "hash_space_share": 0.5,
        "draining_hashes_count": 1,
        "draining_hashes_unacked_messages": 2,
        "draining_hashes_cleared_total": 3,
        "draining_hashes": (DrainingHash(150, 2, 4, 1, 80.0, "b"),),
        "last_sent_position_when_joining": None,
        "waits_for_join_position": False,
        "ack_lease_ends_at": None,
        **changes,
    }
    return ConnectedConsumer(
        statistics=WorkerStatistics(**values, health=WELL),
        consumer_id=3,
        address="192.0.2.7:4711",
        client_version="Pulsar-CPP-v3.7.0",
        metadata=(("pod", "w-1"),),
        first_sent_at=42.0,
    )


def part(*workers: ConnectedConsumer, **changes: Any) -> ConnectedSubscription:
    """The gateway's part of subscription `s`."""
    values: dict[str, Any] = {
        "topic": TOPIC,
        "subscription": "s",
        "now": NOW,
        "replica_name": "gate",
        "ordering_mode": "draining_hashes",
        "waiting_messages": 4,
        "consumers": workers,
        **changes,
    }
    return ConnectedSubscription(**values)


def consumer(name: str, **changes: Any) -> dict[str, Any]:
    """A consumer as the broker shows it."""
    return {**deepcopy(dict(MODEL)), "consumerName": name, **changes}


def own(**changes: Any) -> dict[str, Any]:
    """The gateway's own consumer at the broker."""
    return consumer("gate", metadata={"keyline.replica": "gate"}, unackedMessages=11, msgRateOut=5.0, **changes)


def topic(*consumers: dict[str, Any]) -> dict[str, Any]:
    """A topic's statistics with these consumers at subscription `s`."""
    total = sum(item["msgRateOut"] for item in consumers)
    subscription = {
        "msgRateOut": total,
        "msgThroughputOut": 0.0,
        "msgOutCounter": 50,
        "msgInReplay": 1,
        "unackedMessages": sum(item["unackedMessages"] for item in consumers),
        "type": "Key_Shared",
        "drainingHashesCount": 0,
        "drainingHashesClearedTotal": 0,
        "drainingHashesUnackedMessages": 0,
        "consumersAfterMarkDeletePosition": {},
        "keySharedMode": "AUTO_SPLIT",
        "consumers": list(consumers),
    }
    other = {**subscription, "msgRateOut": 2.0, "consumers": [consumer("x")]}
    return {"msgRateOut": total + 2.0, "msgThroughputOut": 0.0, "subscriptions": {"s": subscription, "other": other}}


def merged(shown: dict[str, Any], *parts: ConnectedSubscription, rates: Rates | None = None) -> dict[str, Any]:
    """The statistics with our parts, and the merged subscription."""
    epoch = Epoch()
    epoch.observe(NOW, WALL)
    finished(merge_topic(shown, parts, epoch, rates or Rates()))
    subscription: dict[str, Any] = shown["subscriptions"]["s"]
    return subscription


# ---- consumers


def test_a_worker_is_shown_under_the_names_and_types_of_the_brokers_own_consumer() -> None:
    """Everything the gateway knows of it, at moments of the world's clock."""
    (shown,) = merged(topic(own(avgMessagesPerEntry=6)), part(worker("a")))["consumers"]
    assert shown == {
        "msgRateOut": 0.0,
        "msgThroughputOut": 0.0,
        "bytesOutCounter": 700,
        "msgOutCounter": 7,
        "msgRateRedeliver": 0.0,
        "messageAckRate": 0.0,
        "chunkedMessageRate": 0.0,
        "consumerName": "a",
        "availablePermits": 993,
        "unackedMessages": 2,
        "avgMessagesPerEntry": 6,
        "blockedConsumerOnUnackedMsgs": False,
        "drainingHashesCount": 1,
        "drainingHashesClearedTotal": 3,
        "drainingHashesUnackedMessages": 2,
        "drainingHashes": [{"hash": 150, "unackMsgs": 2, "blockedAttempts": 4}],
        "address": "/192.0.2.7:4711",
        "connectedSince": "2023-11-14T22:14:00Z",
        "clientVersion": "Pulsar-CPP-v3.7.0",
        "lastAckedTimestamp": 0,
        "lastConsumedTimestamp": 1_700_000_090_250,
        "firstMessagesSentTimestamp": 1_700_000_042_000,
        "lastConsumedFlowTimestamp": 1_700_000_041_000,
        "firstConsumedFlowTimestamp": 1_700_000_040_000,
        "keyHashRangeArrays": ((1, 100), (200, 65_535)),
        "metadata": {"pod": "w-1"},
        "lastAckedTime": "1970-01-01T00:00:00Z",
        "lastConsumedTime": "2023-11-14T22:14:50.25Z",
    }
    assert list(shown) == list(MODEL)


def test_a_broker_with_other_names_has_them_for_workers_too() -> None:
    """An older one lacks some, a newer one's unknown ones are zero, and its client's role is not the worker's."""
    model = own(newCounter=3, newName="x", newFlag=True, keyHashRanges=["[0, 1]"], appId="gateway", gone=None)
    del model["firstMessagesSentTimestamp"]
    (shown,) = merged(topic(model), part(worker("a")))["consumers"]
    assert (shown["newCounter"], shown["newName"], shown["newFlag"]) == (0, "", False)
    assert shown["keyHashRanges"] == ["[1, 100]", "[200, 65535]"]
    assert not {"firstMessagesSentTimestamp", "appId", "gone"} & set(shown)


def test_only_the_gateways_own_consumer_is_replaced() -> None:
    """Clients connected directly, clients of the gateway's name, and other gateways stay, in their places."""
    shown = topic(
        consumer("direct", unackedMessages=1),
        own(),
        consumer("gate"),
        consumer("gate-2", metadata={"keyline.replica": "gate-2"}, unackedMessages=20),
    )
    subscription = merged(shown, part(worker("a"), worker("b")))
    assert [item["consumerName"] for item in subscription["consumers"]] == ["direct", "a", "b", "gate", "gate-2"]
    assert subscription["unackedMessages"] == 1 + 2 + 2 + 20


def test_workers_are_shown_while_the_gateway_has_no_consumer_at_the_broker() -> None:
    """It is coming back; the names are another consumer's, or those of the current Pulsar."""
    assert [item["consumerName"] for item in merged(topic(), part(worker("a")))["consumers"]] == ["a"]
    beside = consumer("direct", extra=1)
    assert merged(topic(beside), part(worker("a")))["consumers"][1]["extra"] == 0


@pytest.mark.parametrize("metadata", [None, {}, {"keyline.replica": "other"}])
def test_a_name_alone_makes_no_consumer_the_gateways(metadata: dict[str, str] | None) -> None:
    """Any client may call its consumer so."""
    assert not is_own({"consumerName": "gate", "metadata": metadata}, "gate")


# ---- sums


def test_what_a_subscription_has_of_its_consumers_is_added_up_again() -> None:
    """Unacknowledged and draining messages; what waits in the gateway is in replay; the rest is the broker's."""
    shown = topic(own())
    subscription = merged(shown, part(worker("a"), worker("b", draining_hashes_count=5)))
    assert subscription["unackedMessages"] == 4
    assert subscription["drainingHashesCount"] == 6
    assert subscription["drainingHashesClearedTotal"] == 6
    assert subscription["drainingHashesUnackedMessages"] == 4
    assert subscription["msgInReplay"] == 1 + 4
    assert (subscription["msgOutCounter"], subscription["keySharedMode"]) == (50, "AUTO_SPLIT")
    assert subscription["msgRateOut"] == 0.0
    assert shown["msgRateOut"] == 2.0, "what the other subscription has"
    assert shown["subscriptions"]["other"]["consumers"] == [consumer("x")]


def test_a_subscription_that_the_broker_does_not_have_is_left_out() -> None:
    """It was deleted, or has not come yet."""
    shown = topic(own())
    before = deepcopy(shown)
    merged(shown, part(worker("a"), subscription="none"))
    assert shown == before


def test_pip_282_positions_are_shown_in_its_mode_only() -> None:
    """The recently joined are keyed by name, number and address, as the text says."""
    late = worker("late", last_sent_position_when_joining="5:17", waits_for_join_position=True)
    released = worker("released", last_sent_position_when_joining="5:9")
    subscription = merged(topic(own()), part(late, released, ordering_mode="last_sent_position"))
    assert [item["lastSentPositionWhenJoining"] for item in subscription["consumers"]] == ["5:17", "5:9"]
    assert subscription["consumers"][0]["readPositionWhenJoining"] == "5:17"
    key = "consumerName=late, consumerId=3, address=/192.0.2.7:4711"
    assert subscription["consumersAfterMarkDeletePosition"] == {key: "5:17"}
    (other,) = merged(topic(own()), part(released))["consumers"]
    assert "lastSentPositionWhenJoining" not in other


# ---- partitions


def partitions() -> dict[str, Any]:
    """Two partitions, added up as a broker does it."""
    shown = {f"{TOPIC}-partition-{number}": topic(own()) for number in range(2)}
    total = topic(own())
    total["subscriptions"]["s"].update(unackedMessages=22, msgRateOut=10.0)
    total["subscriptions"]["s"]["consumers"] = [{**own(), "metadata": None, "address": ""}]
    return {**total, "msgRateOut": 14.0, "partitions": shown}


def merge_both(shown: dict[str, Any]) -> dict[str, Any]:
    """With worker a at both partitions and b at one."""
    parts = [
        part(worker("a"), topic=f"{TOPIC}-partition-0"),
        part(worker("a"), worker("b", available_permits=5), topic=f"{TOPIC}-partition-1"),
        part(worker("c"), topic=f"{TOPIC}-partition-7"),
    ]
    epoch = Epoch()
    epoch.observe(NOW, WALL)
    finished(merge_partitions(shown, parts, epoch, Rates()))
    subscription: dict[str, Any] = shown["subscriptions"]["s"]
    return subscription


def test_partitions_are_merged_and_added_up_by_name() -> None:
    """A worker of every partition is one consumer with the sum of its parts."""
    shown = partitions()
    subscription = merge_both(shown)
    by_name = {item["consumerName"]: item for item in subscription["consumers"]}
    assert list(by_name) == ["a", "b"]
    assert by_name["a"]["availablePermits"] == 2 * 993
    assert by_name["a"]["msgOutCounter"] == 14
    assert len(by_name["a"]["drainingHashes"]) == 2
    assert (by_name["a"]["metadata"], by_name["a"]["address"]) == (None, ""), "the broker's are empty too"
    assert by_name["b"]["availablePermits"] == 5
    assert subscription["unackedMessages"] == 6
    assert subscription["drainingHashesCount"] == 3
    assert subscription["msgInReplay"] == 2 * (1 + 4)
    assert shown["msgRateOut"] == 4.0
    each = [item["subscriptions"]["s"]["consumers"] for item in shown["partitions"].values()]
    assert [[item["consumerName"] for item in consumers] for consumers in each] == [["a"], ["a", "b"]]


def test_consumers_are_left_out_where_they_were_not_asked_for() -> None:
    """Everything that was made of them stays."""
    shown = topic(own())
    merged(shown, part(worker("a")))
    without_consumers(shown)
    assert [item["consumers"] for item in shown["subscriptions"].values()] == [[], []]
    assert shown["subscriptions"]["s"]["unackedMessages"] == 2


# ---- rates


def test_a_rate_is_what_was_counted_since_the_last_look() -> None:
    """The first look knows none; a look within a second tells the last one again."""
    rates = Rates()
    assert rates.read("w", 10.0, (100, 5)) == (0.0, 0.0)
    assert rates.read("w", 10.9, (190, 5)) == (0.0, 0.0)
    assert rates.read("w", 12.0, (300, 7)) == (100.0, 1.0)
    assert rates.read("w", 12.5, (900, 7)) == (100.0, 1.0)
    assert rates.read("w", 14.0, (299, 7)) == (0.0, 0.0)


def test_rates_reach_consumers_and_sums() -> None:
    """A worker that left and came again is another one."""
    rates = Rates()
    merged(topic(own()), part(worker("a")), rates=rates)
    subscription = merged(topic(own()), part(worker("a", sent_messages=27), now=NOW + 2), rates=rates)
    assert subscription["consumers"][0]["msgRateOut"] == 10.0
    assert subscription["msgRateOut"] == 10.0


def test_rates_forget_those_nobody_asks_for() -> None:
    """The bound holds however many come and go."""
    rates = Rates()
    for number in range(READINGS_MAX + 1):
        rates.read(number, 1.0, (0,))
    assert rates.read(0, 9.0, (8,)) == (0.0,)
    assert rates.read(READINGS_MAX, 9.0, (8,)) == (1.0,)


# ---- moments


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (0, "1970-01-01T00:00:00Z"),
        (1_795_280_195_930, "2026-11-21T16:56:35.93Z"),
        (1_795_280_195_912, "2026-11-21T16:56:35.912Z"),
        (1_795_280_195_000, "2026-11-21T16:56:35Z"),
        (1_795_280_195_005, "2026-11-21T16:56:35.005Z"),
    ],
)
def test_moments_are_written_as_brokers_write_them(ms: int, text: str) -> None:
    """Seen at 4.2.4."""
    assert iso(ms) == text


def test_one_moment_stays_one_text_while_clocks_drift() -> None:
    """But a clock that was set is followed."""
    epoch = Epoch()
    epoch.observe(10.0, 1000.0)
    epoch.observe(20.0, 1010.02)
    assert epoch.ms(5.0) == 995_000
    epoch.observe(30.0, 1021.0)
    assert epoch.ms(5.0) == 996_000
    assert epoch.ms(0.0) == 0


# ---- JSON


@pytest.mark.parametrize("depth", range(6))
@pytest.mark.parametrize(
    "text",
    [
        "{}",
        "[]",
        " 7 ",
        '"a"',
        '{"a": [1, 2.5, {"b": null}], "c\\u00e9\\ud800": "\\"", "d": {}}',
        '[[[["deep"], []], true] , false]\n',
        '{"a" : {"a" : {"a" : 12345678901234567890}}}',
        json.dumps({"a": list(range(1_001)), "b": [{"c": "d"}] * 400}),
    ],
)
def test_json_read_and_written_in_steps_is_the_same(text: str, depth: int) -> None:
    """However many levels are walked."""
    value = finished(decoded(text, depth))
    assert value == json.loads(text)
    pieces: list[bytes] = []
    finished(encoded(value, depth, pieces))
    assert json.loads(b"".join(pieces)) == value


@pytest.mark.parametrize("depth", range(4))
@pytest.mark.parametrize("text", ["", "{", "[1", "[1 2]", "[1,]", '{"a"}', '{"a":}', '{"a":1,}', "{1: 2}", "{} {}"])
def test_what_is_no_json_is_refused(text: str, depth: int) -> None:
    """At every depth by the same error."""
    with pytest.raises(ValueError):  # noqa: PT011 - the decoder's words are its own
        finished(decoded(text, depth))


def test_long_json_is_read_and_written_with_a_pause_behind_each_value() -> None:
    """A topic with many consumers does not keep messages waiting."""
    shown = topic(*[consumer(f"c{number}") for number in range(500)])
    pauses = sum(1 for _ in decoded(json.dumps(shown), 5))
    assert pauses > 500
    assert sum(1 for _ in encoded(shown, 5, [])) > 500


# ---- paths


@pytest.mark.parametrize(
    ("path", "topic_name", "partitioned"),
    [
        ("/admin/v2/persistent/public/default/t/stats", TOPIC, False),
        ("/admin/v2/persistent/public/default/t/partitioned-stats", TOPIC, True),
        ("/admin/v2/persistent/public/default/a%2Fb%20c/stats", "persistent://public/default/a/b c", False),
    ],
)
def test_statistics_of_a_topic_are_known_by_their_path(path: str, topic_name: str, partitioned: bool) -> None:  # noqa: FBT001 - a table's column
    """Names are decoded once."""
    asked = stats_asked(broker_path(path.encode()))
    assert asked is not None
    assert (asked.topic, asked.partitioned) == (topic_name, partitioned)


@pytest.mark.parametrize(
    "path",
    [
        "/admin/v2/persistent/public/default/t/internalStats",
        "/admin/v2/persistent/public/default/stats",
        "/admin/v2/persistent/public/default//stats",
        "/admin/v2/persistent/public/default/t/stats/x",
        "/admin/v2/non-persistent/public/default/t/stats",
        "/lookup/v2/topic/persistent/public/default/t",
        "/lookup/admin/v2/persistent/public/default/t/stats",
    ],
)
def test_anything_else_is_passed_on_as_it_is(path: str) -> None:
    """There is nothing of ours in it."""
    assert stats_asked(broker_path(path.encode())) is None


@pytest.mark.parametrize(
    "raw",
    [
        b"/admin/../secret",
        b"/admin/v2/%2e%2e/%2E%2e/secret",
        b"/admin/v2/..%2f..%2fsecret",
        b"/admin/v2/.%2e/x",
        b"/admin/v2/..;a=b/x",
        b"/admin/v2/%2e./",
        b"/admin/v2/..%5cx",
        b"/admin/v2/..\\x",
        b"/admin/v2/./x",
        b"/%61dmin/v2/tenants",
        b"/metrics",
        b"//other/admin/",
        b"/admin/v2/a b",
        b"/admin/v2/a\r\nx: y",
        b"/admin/v2/a?b",
        b"/admin/v2/a#b",
        b"/admin/v2/\xc3\xa9",
        b"/admin/" + b"a" * 20_000,
        b"/admin/v2/persistent/t/n/x;y=z/stats",
        b"/admin/v2/persistent/t/n/x;y=%2Fpreview%2Fjoin",
        b"/admin/v2/persistent;a/t/n/x",
        b"/admin/v2/persistent/t/n/a%252Fb",
        b"/admin/v2/%252e%252e/x",
        b"/admin/v2/%252e",
        b"/admin/v2/persistent/t/n/a%00b",
        b"/admin/v2/persistent/t/n/a%0D%0Ab",
        b"/admin/v2/persistent/t/n/a%7Fb",
        b"/admin/v2/persistent/t/n/a%5Cb",
        b"/admin/v2/persistent/t/n/a%2fb",
        b"/admin/v2/persistent/t/n/%41",
        b"/admin/v2/brokers/backlog%2Dquota%2Dcheck",
        b"/admin/v2/persistent/t%2Fn/x",
        b"/admin/v2%2Fpersistent/t/n/x",
        b"/admin/v2/persistent/t/n/100%",
        b"/admin/v2/persistent/t/n/%zz",
        b"/admin/v2/persistent/t/n/a|b",
        b'/admin/v2/persistent/t/n/a"b',
        b"/admin/v2/persistent/t/n/[a]",
        b"/Admin/v2/tenants",
        b"/admin",
    ],
)
def test_paths_that_could_lead_elsewhere_are_refused(raw: bytes) -> None:
    """Dots in every writing, other roots, what is no path at all."""
    with pytest.raises(ClientError):
        broker_path(raw)


@pytest.mark.parametrize(
    "raw",
    [
        b"/admin/v2/persistent/t/n/a%2Fb..c/stats",
        b"/admin/v2/x/...",
        b"/admin/v2/persistent/t/n/a%3Bb%25+%C3%A9%7E~!*'()@:&=$,/subscription/s%2Fs/position/1",
        b"/admin/v2/persistent/t/n/100%25/stats",
        b"/lookup/v2/topic/persistent/t/n/a%2Fb",
        b"/admin/v2/namespaces/t/n/0x00000000_0x40000000/unload",
        b"/admin/v2/brokers/c/host:8080/ownedNamespaces",
        b"/admin/v2/persistent/t/n/%F0%9F%98%80/stats",
        b"/admin/v2//x",
    ],
)
def test_paths_with_unusual_names_are_passed_on_unchanged(raw: bytes) -> None:
    """Dots within names, slashes and semicolons within topics, a percent sign, any language."""
    assert broker_path(raw) == raw.decode()


def test_the_query_asks_for_what_the_merge_needs() -> None:
    """And tells what the asker wanted of it."""
    query = stats_query("getPreciseBacklog=true&excludeConsumers=true&a=%2F", partitioned=False)
    assert (query.text, query.consumers, query.per_partition) == ("getPreciseBacklog=true&a=%2F", False, True)
    query = stats_query("perPartition=false", partitioned=True)
    assert (query.text, query.consumers, query.per_partition) == ("perPartition=true", True, False)
