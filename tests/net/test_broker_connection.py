"""A broker connection: handshake, requests, messages, keep-alive and its end."""

from __future__ import annotations

from dataclasses import replace

import pytest

from proxy.errors import ConfigurationError, UpstreamError, UpstreamUnavailable
from proxy.net.broker.settings import BrokerTarget, Credentials, token_credentials
from proxy.net.broker.statistics import State
from proxy.net.keep_alive import DOUBT_S
from proxy.wire import commands
from proxy.wire import pulsar_pb2 as pb
from proxy.wire.messages import MessageHead
from tests.net.broker_fakes import (
    SETTINGS,
    ConnectionBench,
    NotingConsumer,
    T,
    connected,
    error,
    frame,
    message,
    written,
)


def test_connect_introduces_the_gateway_with_the_flags_it_honours() -> None:
    """The first command is CONNECT, with our name, v21, the token and the two flags that hold here."""
    bench = ConnectionBench(replace(SETTINGS, credentials=token_credentials("secret\n")))
    bench.transport.open()
    (command,) = written(bench.transport)
    connect = command.connect
    assert (connect.client_version, connect.protocol_version) == ("Keyline-v0.1.0", 21)
    assert (connect.auth_method_name, connect.auth_data) == ("token", b"secret")
    assert connect.feature_flags.supports_broker_entry_metadata
    assert connect.feature_flags.supports_auth_refresh
    assert not connect.feature_flags.supports_topic_watchers
    assert not connect.HasField("proxy_to_broker_url")


def test_a_proxied_target_names_the_broker_behind_the_proxy() -> None:
    """CONNECT.proxy_to_broker_url is set from the target."""
    bench = ConnectionBench(target=BrokerTarget("pulsar://proxy:6650", "broker-3:6650"))
    bench.transport.open()
    assert written(bench.transport)[0].connect.proxy_to_broker_url == "broker-3:6650"


def test_it_is_ready_once_the_broker_said_connected() -> None:
    """`ready` comes with CONNECTED, also when it trickles in byte by byte."""
    bench = ConnectionBench()
    bench.transport.open()
    for byte in connected():
        assert bench.diary == []
        bench.transport.deliver(bytes([byte]))
    assert bench.diary == [("ready",)]
    assert bench.connection.state is State.READY


def test_a_refused_handshake_ends_it_with_the_brokers_words() -> None:
    """The broker answers a bad token with ERROR to request 2^64-1 and closes; its code reaches the owner."""
    bench = ConnectionBench()
    bench.transport.open()
    bench.transport.deliver(error(2**64 - 1, pb.AuthenticationError, "Unable to authenticate"))
    ((what, why),) = bench.diary
    assert what == "ended"
    assert isinstance(why, UpstreamError)
    assert (str(why), why.wire_code) == ("Unable to authenticate", pb.AuthenticationError)
    assert bench.transport.aborted


def test_a_handshake_that_takes_too_long_ends_it() -> None:
    """From the first packet to CONNECTED there are `connect_timeout_s`."""
    bench = ConnectionBench()
    bench.transport.open()
    bench.clock.advance(9.0)
    assert bench.diary == []
    bench.clock.advance(2.0)
    assert [entry[0] for entry in bench.diary] == ["ended"]
    assert "handshake within 10 s" in str(bench.diary[0][1])


def test_a_connection_that_opens_after_its_time_out_is_dropped() -> None:
    """The owner was told of the time-out; nothing is told twice."""
    bench = ConnectionBench()
    bench.clock.advance(11.0)
    bench.transport.open()
    assert bench.transport.aborted
    assert len(bench.diary) == 1


def test_credentials_that_cannot_be_read_end_it_with_the_reason() -> None:
    """A missing token file is the operator's to mend, and the error says so."""

    def missing() -> Credentials | None:
        raise ConfigurationError("the broker token file /x cannot be read")

    bench = ConnectionBench(replace(SETTINGS, credentials=missing))
    bench.transport.open()
    assert isinstance(bench.diary[0][1], ConfigurationError)
    assert written(bench.transport) == []


def test_a_challenge_is_answered_with_fresh_credentials() -> None:
    """The provider is asked again at every AUTH_CHALLENGE."""
    tokens = iter((b"first", b"second"))
    bench = ConnectionBench(replace(SETTINGS, credentials=lambda: Credentials("token", next(tokens)))).ready()
    bench.transport.deliver(frame(type=T.AUTH_CHALLENGE, authChallenge=pb.CommandAuthChallenge()))
    (command,) = written(bench.transport)
    assert command.type == T.AUTH_RESPONSE
    assert command.authResponse.response.auth_method_name == "token"
    assert command.authResponse.response.auth_data == b"second"


def test_messages_reach_their_consumers_and_each_run_is_ended_once() -> None:
    """One `messages_end` per consumer and piece of input, whatever the interleaving."""
    bench = ConnectionBench().ready()
    one, two = NotingConsumer(), NotingConsumer()
    first, second = bench.connection.new_consumer(one), bench.connection.new_consumer(two)
    bench.transport.deliver(
        message(first, 0) + message(second, 1, redelivery_count=3, ack_set=(5, -1)) + message(first, 2, tail=b"other")
    )
    assert one.journal == [
        ("message", 7, 0, 0, (), b"\x0e\x01rest"),
        ("message", 7, 2, 0, (), b"other"),
        ("end",),
    ]
    assert two.journal == [("message", 7, 1, 3, (5, -1), b"\x0e\x01rest"), ("end",)]


def test_messages_cut_anywhere_arrive_whole() -> None:
    """TCP cuts where it likes."""
    bench = ConnectionBench().ready()
    consumer = NotingConsumer()
    stream = message(bench.connection.new_consumer(consumer), 0) + message(1, 1)
    for byte in stream:
        bench.transport.deliver(bytes([byte]))
    assert [entry[:3] for entry in consumer.journal] == [("message", 7, 0), ("end",), ("message", 7, 1), ("end",)]


def test_large_messages_keep_their_tails() -> None:
    """Between small ones, other large commands and messages for a consumer that is gone."""
    bench = ConnectionBench().ready()
    consumer = NotingConsumer()
    own = bench.connection.new_consumer(consumer)
    tails = [bytes([number]) * size for number, size in enumerate((100_000, 5, 70_000, 300_000, 33_000))]
    stream = b"".join(
        message(own, number, tail=tail) + message(99, number, tail=tail + tail) + error(7, 0, "x" * 50_000)
        for number, tail in enumerate(tails)
    )
    for at in range(0, len(stream), 256_000):
        bench.transport.deliver(stream[at : at + 256_000])
    assert [entry[-1] for entry in consumer.journal if entry[0] == "message"] == tails
    assert not bench.connection._tails


def test_messages_of_a_dropped_consumer_are_dropped() -> None:
    """Also when it goes while a run is under way."""
    bench = ConnectionBench().ready()
    consumer_id = 0

    class Leaving(NotingConsumer):
        def message(self, head: MessageHead) -> None:
            super().message(head)
            bench.connection.drop_consumer(consumer_id)

    consumer = Leaving()
    consumer_id = bench.connection.new_consumer(consumer)
    bench.transport.deliver(message(consumer_id, 0) + message(consumer_id, 1) + message(99, 2))
    assert [entry[:3] for entry in consumer.journal] == [("message", 7, 0)]


def test_a_consumer_the_broker_closed_is_told_behind_its_messages() -> None:
    """CLOSE_CONSUMER ends the run first; the id is free then, and losing the connection later tells it nothing."""
    bench = ConnectionBench().ready()
    consumer = NotingConsumer()
    consumer_id = bench.connection.new_consumer(consumer)
    close = pb.CommandCloseConsumer(consumer_id=consumer_id, request_id=2**64 - 1)
    bench.transport.deliver(message(consumer_id, 0) + frame(type=T.CLOSE_CONSUMER, close_consumer=close))
    bench.transport.lose()
    assert [entry[0] for entry in consumer.journal] == ["message", "end", "closed"]


def test_a_migrated_topic_closes_its_consumer() -> None:
    """TOPIC_MIGRATED for a consumer is a close with another reason."""
    bench = ConnectionBench().ready()
    consumer = NotingConsumer()
    moved = pb.CommandTopicMigrated(
        resource_id=bench.connection.new_consumer(consumer),
        resource_type=pb.CommandTopicMigrated.Consumer,
        brokerServiceUrl="pulsar://blue:6650",
    )
    bench.transport.deliver(frame(type=T.TOPIC_MIGRATED, topicMigrated=moved))
    assert consumer.journal == [("closed", "the topic migrated to pulsar://blue:6650")]


def test_the_end_of_the_topic_is_passed_on() -> None:
    """REACHED_END_OF_TOPIC reaches its consumer, which lives on."""
    bench = ConnectionBench().ready()
    consumer = NotingConsumer()
    end = pb.CommandReachedEndOfTopic(consumer_id=bench.connection.new_consumer(consumer))
    bench.transport.deliver(frame(type=T.REACHED_END_OF_TOPIC, reachedEndOfTopic=end))
    assert consumer.journal == [("terminated",)]
    assert bench.connection._consumers.take_all() == [consumer]


def test_a_ping_is_answered_and_other_news_ignored() -> None:
    """PONG and ACTIVE_CONSUMER_CHANGE ask for nothing."""
    bench = ConnectionBench().ready()
    bench.transport.deliver(
        frame(type=T.PING, ping=pb.CommandPing())
        + frame(type=T.PONG, pong=pb.CommandPong())
        + frame(type=T.ACTIVE_CONSUMER_CHANGE, active_consumer_change=pb.CommandActiveConsumerChange(consumer_id=1))
    )
    assert [command.type for command in written(bench.transport)] == [T.PONG]
    assert bench.connection._unknown_types == set()


def test_unknown_commands_are_survived() -> None:
    """A newer broker may say more than we know."""
    bench = ConnectionBench().ready()
    odd = frame(type=T.SEND, send=pb.CommandSend(producer_id=1, sequence_id=1))
    bench.transport.deliver(odd + odd)
    assert bench.connection._unknown_types == {T.SEND}
    assert bench.connection.state is State.READY


@pytest.mark.parametrize(
    "garbage",
    [
        b"\xff\xff\xff\xff",
        b"\x00\x00\x00\x06\x00\x00\x00\x02\xff\xff",
        b"\x00\x00\x00\x08\x00\x00\x00\xff\x08\x12\x92\x01",
        message(1, 0)[:8] + b"\x08\x09\x4a\x02\xff\xff" + bytes(len(message(1, 0)) - 14),
    ],
    ids=["too large", "no command", "command longer than frame", "broken message head"],
)
def test_a_corrupt_frame_ends_the_connection(garbage: bytes) -> None:
    """The stream cannot be trusted any more: everyone is told, the socket is gone."""
    bench = ConnectionBench().ready()
    consumer = NotingConsumer()
    bench.connection.new_consumer(consumer)
    bench.transport.deliver(garbage)
    assert bench.transport.aborted
    assert [entry[0] for entry in bench.diary] == ["ended"]
    assert [entry[0] for entry in consumer.journal] == ["lost"]
    assert "corrupt frame" in str(consumer.journal[0][1])


def test_loss_tells_the_owner_then_the_askers_then_the_consumers_each_once() -> None:
    """The defined order: nobody who is told can be handed the dead link again."""
    bench = ConnectionBench().ready()
    for name in ("c1", "c2"):
        consumer = NotingConsumer(journal=bench.diary)
        bench.connection.new_consumer(consumer)
        consumer.name = name
    bench.ask("r1")
    bench.ask("r2")
    bench.transport.lose("connection reset by peer")
    assert [entry[0] for entry in bench.diary] == ["ended", "r1", "r2", "lost", "lost"]
    assert isinstance(bench.diary[1][1], UpstreamUnavailable)
    assert "connection reset by peer" in str(bench.diary[1][1])
    bench.clock.advance(120.0)
    assert len(bench.diary) == 5
    assert bench.clock.waiting == 0


def test_one_failing_listener_does_not_keep_the_loss_from_the_others() -> None:
    """A bug in one subscription must not strand the rest, nor be hidden."""
    bench = ConnectionBench().ready()

    def broken(_reply: object) -> None:
        raise ZeroDivisionError

    bench.connection.request(lambda _id: b"", broken)
    consumer = NotingConsumer()
    bench.connection.new_consumer(consumer)
    with pytest.raises(ZeroDivisionError):
        bench.transport.lose()
    assert [entry[0] for entry in consumer.journal] == ["lost"]


def test_after_the_loss_requests_and_consumers_are_answered_in_a_later_turn() -> None:
    """Who holds on to a dead link learns it, and never from inside its own call."""
    bench = ConnectionBench().ready()
    bench.transport.lose()
    bench.diary.clear()
    consumer = NotingConsumer()
    bench.ask()
    bench.connection.new_consumer(consumer)
    bench.connection.send(b"dropped")
    assert (bench.diary, consumer.journal) == ([], [])
    bench.clock.settle()
    assert isinstance(bench.diary[0][1], UpstreamUnavailable)
    assert [entry[0] for entry in consumer.journal] == ["lost"]


def test_a_silent_broker_is_pinged_and_then_given_up() -> None:
    """30 s of silence bring a PING, 60 s the end."""
    bench = ConnectionBench().ready()
    bench.clock.advance(29.0)
    assert written(bench.transport) == []
    bench.clock.advance(3.0)
    assert [command.type for command in written(bench.transport)] == [T.PING]
    bench.clock.advance(27.0)
    assert bench.diary == []
    bench.clock.advance(3.0)
    assert [entry[0] for entry in bench.diary] == ["ended"]
    assert "silent for 60 s" in str(bench.diary[0][1]) or "silent for 61 s" in str(bench.diary[0][1])


def test_a_broker_that_is_doubted_is_asked_at_once_and_given_up_soon() -> None:
    """What was heard before counts no more. Doubted again meanwhile, it gets no more time, and no more questions."""
    bench = ConnectionBench().ready()
    bench.clock.advance(10.0)
    bench.connection.doubt()
    bench.clock.advance(DOUBT_S / 2)
    bench.connection.doubt()
    assert [command.type for command in written(bench.transport)] == [T.PING]
    bench.clock.advance(DOUBT_S / 2 - 1.0)
    assert bench.diary == []
    bench.clock.advance(2.0)
    assert [entry[0] for entry in bench.diary] == ["ended"]


def test_a_broker_that_is_doubted_and_answers_keeps_its_connection() -> None:
    """And may be doubted again."""
    bench = ConnectionBench().ready()
    for _ in range(2):
        bench.connection.doubt()
        bench.clock.advance(1.0)
        bench.transport.deliver(commands.pong())
        bench.clock.advance(2 * DOUBT_S)
        assert bench.diary == []
        assert [command.type for command in written(bench.transport)] == [T.PING]


def test_any_byte_keeps_the_connection() -> None:
    """A PONG, or a single byte of a message, is a sign of life."""
    bench = ConnectionBench().ready()
    for _ in range(10):
        bench.clock.advance(40.0)
        bench.transport.deliver(frame(type=T.PONG, pong=pb.CommandPong()))
    assert bench.diary == []
    assert [command.type for command in written(bench.transport)] == [T.PING] * 10


def test_reading_pauses_until_every_holder_resumed() -> None:
    """Subscriptions pause for themselves; one resuming does not undo another's pause."""
    bench = ConnectionBench().ready()
    one, two = object(), object()
    bench.connection.pause_reading(one)
    bench.connection.pause_reading(one)
    bench.connection.pause_reading(two)
    bench.connection.resume_reading(one)
    assert not bench.transport.reading
    bench.connection.resume_reading(two)
    assert bench.transport.reading


def test_a_paused_connection_is_kept_alive_from_this_side() -> None:
    """We hear nothing and answer no PING while paused, so we ping before the broker loses patience."""
    bench = ConnectionBench().ready()
    bench.connection.pause_reading(self_ := object())
    bench.clock.advance(300.0)
    assert bench.diary == []
    pings = written(bench.transport)
    assert len(pings) >= 18
    bench.connection.resume_reading(self_)
    bench.clock.advance(29.0)
    assert bench.diary == []


def test_close_sends_what_is_queued_and_tells_everyone() -> None:
    """Closing is a loss like any other, only that we asked for it."""
    bench = ConnectionBench().ready()
    consumer = NotingConsumer()
    bench.connection.new_consumer(consumer)
    bench.connection.close("the gateway is stopping")
    bench.clock.settle()
    assert bench.transport.closing
    assert not bench.transport.aborted
    assert [entry[0] for entry in consumer.journal] == ["lost"]
