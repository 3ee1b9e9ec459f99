"""What no client may have the gateway send: a broker would end the connection that all subscriptions there share."""

from __future__ import annotations

from typing import Any

import pytest

from proxy.errors import UpstreamError
from proxy.limits import SUBSCRIBE_BYTES_MAX
from proxy.net.subscription.subscription import Subscription
from proxy.wire import frames
from proxy.wire import pulsar_pb2 as pb
from tests.net.broker_fakes import ConnectionBench
from tests.net.broker_fakes import success as broker_success
from tests.net.session_rig import SessionRig, T, encode
from tests.net.subscription_rig import SubscriptionRig, Worker, schema
from tests.net.subscription_rig_broker import TOPIC

TWICE = [pb.KeyValue(key="k", value="1"), pb.KeyValue(key="k", value="2")]
GROUP = b"\xfb\x3f\xfc\x3f"
"""An empty group of field 1023: protobuf keeps and writes it, and brokers' readers know no groups."""
RANGE = pb.IntRange(start=0, end=0)


def wanting(request_id: int = 100, **given: Any) -> bytes:
    """Build SUBSCRIBE of a Key_Shared consumer."""
    fields: dict[str, Any] = {"topic": "orders", "subscription": "s", "subType": pb.CommandSubscribe.Key_Shared}
    fields |= given
    return encode(T.SUBSCRIBE, pb.CommandSubscribe(consumer_id=1, request_id=request_id, **fields))


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"metadata": TWICE}, "consumer property 'k' is given twice"),
        ({"subscription_properties": TWICE}, "subscription property 'k' is given twice"),
        (
            {"schema": pb.Schema(name="x", type=pb.Schema.String, schema_data=b"", properties=TWICE)},
            "schema property 'k' is given twice",
        ),
        (
            {"subscription_properties": [pb.KeyValue(key="k" * 9_999, value=value) for value in "12"]},
            f"subscription property '{'k' * 100}' is given twice",
        ),
        (
            {"subscription_properties": [pb.KeyValue(key="k", value="x" * SUBSCRIBE_BYTES_MAX)]},
            f"bytes besides its schema's data: at most {SUBSCRIBE_BYTES_MAX} are allowed",
        ),
        (
            {"start_message_id": pb.MessageIdData(ledgerId=1, entryId=1, ack_set=[0] * (1 << 20))},
            f"bytes besides its schema's data: at most {SUBSCRIBE_BYTES_MAX} are allowed",
        ),
        (
            {"keySharedMeta": pb.KeySharedMeta(keySharedMode=pb.STICKY, hashRanges=[RANGE] * 65_537)},
            "65537 hash ranges: at most 65536 are allowed",
        ),
    ],
)
def test_a_worker_is_told_alone_what_a_broker_would_end_the_connection_for(fields: dict[str, Any], words: str) -> None:
    """Before anything of it goes on; its own connection stays, and the next SUBSCRIBE is looked at as ever."""
    rig = SessionRig(authorize=True).connect()
    rig.client.deliver(wanting(**fields))
    (told,) = rig.to_client()
    assert (told.error.request_id, told.error.error) == (100, pb.NotAllowedError)
    assert words in told.error.message
    assert len(told.error.message) < 300
    assert rig.to_broker() == []
    rig.client.deliver(wanting(101))
    assert len(rig.to_broker()) == 1


def test_what_a_worker_may_have_at_most_is_taken() -> None:
    """A schema of megabytes counts for nothing, and every slot may be named by itself, with as many properties."""
    ranges = [pb.IntRange(start=65_535, end=65_535)] * 65_536
    rig = SessionRig(authorize=True).connect()
    fields: dict[str, Any] = {
        "schema": pb.Schema(name="x", type=pb.Schema.Json, schema_data=b"x" * (4 << 20)),
        "keySharedMeta": pb.KeySharedMeta(keySharedMode=pb.STICKY, hashRanges=ranges),
        "metadata": [pb.KeyValue(key="k", value="\N{OLD ITALIC LETTER A}" * 65_535)],
    }
    rig.client.deliver(wanting(**fields))
    assert rig.to_client() == []
    assert len(rig.to_broker()) == 1


def with_group(rig: SubscriptionRig, name: str, **fields: Any) -> Worker:
    """Subscribe with an unknown group, in the SUBSCRIBE and in its schema."""
    mine = schema(name)
    mine.MergeFromString(GROUP)
    command = pb.CommandSubscribe(
        topic=TOPIC, subscription="s", subType=pb.CommandSubscribe.Key_Shared, consumer_id=0, request_id=0, schema=mine
    )
    command.MergeFromString(pb.CommandSubscribe(consumer_name=name, **fields).SerializePartialToString() + GROUP)
    worker = Worker(rig, next(rig._consumer_ids))
    command.consumer_id, command.request_id = worker.consumer_id, worker.request_id
    worker.port = rig.subscriptions.subscribe(worker, command)
    rig.clock.settle()
    return worker


def has_group(command: pb.BaseCommand) -> bool:
    """Whether it is on the wire."""
    return GROUP in frames.encode_command(command)


def test_a_subscribe_and_a_probe_have_no_field_that_we_do_not_know() -> None:
    """Of the first worker, which our consumer is made of, and of one that brings another schema."""
    rig = SubscriptionRig()
    for name in ("a", "b"):
        with_group(rig, name)
    ours, probe = rig.link.sent(T.SUBSCRIBE)
    assert probe.subscribe.subType == pb.CommandSubscribe.Exclusive
    assert [has_group(ours), has_group(probe)] == [False, False]


def test_a_seek_and_an_unsubscribe_have_no_field_that_we_do_not_know() -> None:
    """The rest of them is as the worker sent it."""
    rig = SubscriptionRig()
    worker = rig.worker("a")
    rig.link.held.update((T.SEEK, T.UNSUBSCRIBE))
    seek = pb.CommandSeek(consumer_id=1, request_id=31, message_publish_time=7)
    seek.MergeFromString(GROUP)
    worker.port.seek(seek)
    (sought,) = rig.link.sent(T.SEEK)
    assert (has_group(sought), sought.seek.message_publish_time) == (False, 7)
    rig.link.refuse(T.SEEK, pb.MetadataError, "no")
    unsubscribe = pb.CommandUnsubscribe(consumer_id=1, request_id=32, force=True)
    unsubscribe.MergeFromString(GROUP)
    worker.port.unsubscribe(unsubscribe)
    (asked,) = rig.link.sent(T.UNSUBSCRIBE)
    assert (has_group(asked), asked.unsubscribe.force) == (False, True)


def test_a_request_beyond_the_brokers_frame_limit_is_refused_and_the_connection_stays() -> None:
    """A broker takes maxMessageSize and 10 KiB, size field included; others' requests go on."""
    bench = ConnectionBench().ready()
    longest = (5 << 20) + (10 << 10)
    bench.connection.request(lambda _: bytes(longest + 1), lambda reply: bench.diary.append(("too long", reply)))
    assert bench.diary == []
    bench.clock.settle()
    ((name, refusal),) = bench.diary
    assert name == "too long"
    assert isinstance(refusal, UpstreamError)
    assert (refusal.wire_code, str(longest) in str(refusal)) == (pb.NotAllowedError, True)
    assert bench.transport.take() == b""
    bench.connection.request(lambda _: bytes(longest), lambda _: None)
    assert len(bench.transport.take()) == longest
    bench.transport.deliver(broker_success(bench.ask()))
    assert [name for name, _ in bench.diary] == ["too long", "answer"]


def joined(rig: SubscriptionRig) -> Subscription:
    """The subscription, with a worker of every kind of ballast but a sticky one's."""
    rig.worker(
        "a",
        keySharedMeta=pb.KeySharedMeta(keySharedMode=pb.AUTO_SPLIT, hashRanges=[RANGE] * 1_000),
        metadata=[pb.KeyValue(key="pod", value="w-1")],
        subscription_properties=[pb.KeyValue(key="k", value="x" * 10_000)],
        start_message_id=pb.MessageIdData(ledgerId=1, entryId=1, ack_set=[0] * 10_000),
    )
    return rig.subscription


def test_of_a_worker_that_joined_little_is_kept() -> None:
    """Who asked for what, and its properties: the rest was judged, and thousands of workers may bring as much."""
    ((index, subscriber),) = joined(rig := SubscriptionRig()).subscribers.items()
    assert subscriber.command.ByteSize() < 200
    assert subscriber.command.consumer_name == "a"
    assert [(pair.key, pair.value) for pair in subscriber.command.metadata] == [("pod", "w-1")]
    assert rig.subscription.state.dispatcher.workers[index].sticky_ranges == []
