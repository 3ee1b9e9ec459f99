"""One client's connection: its states, what breaks the protocol, keep-alive, and its end."""

from __future__ import annotations

import pytest

from proxy.limits import GREETING_FRAME_BYTES_MAX, Limits
from proxy.net.ports import LEFT_UNREAD
from tests.net.session_rig import (
    SessionRig,
    T,
    ack,
    connect,
    connected,
    encode,
    flow,
    lookup,
    message,
    producer,
    send,
    subscribe,
    success,
)


@pytest.mark.parametrize("first", [lookup(1), send(1, 1), subscribe(1, 1), encode(T.PING), ack(1), producer(1, 1)])
def test_the_first_command_must_be_connect(first: bytes) -> None:
    """Anything else gets an error and a closed connection, and no broker hears of it."""
    rig = SessionRig()
    rig.client.deliver(first)
    (command,) = rig.to_client()
    assert "before CONNECT" in command.error.message
    assert command.error.request_id == 2**64 - 1
    assert rig.client.closing
    assert rig.cause == "not_connected"
    assert rig.connector.attempts == []


def test_a_client_that_says_nothing_is_sent_away() -> None:
    """An open port costs an idle stranger a connection for so long and no longer."""
    rig = SessionRig()
    rig.clock.advance(rig.limits.handshake_timeout_s - 0.1)
    assert (rig.client.closing, rig.cause) == (False, None)
    rig.clock.advance(0.2)
    assert rig.client.closing
    assert rig.cause == "handshake_timeout"
    assert len(rig.ended) == 1


def test_half_a_connect_does_not_stop_the_handshake_s_clock() -> None:
    """Bytes are not a handshake."""
    rig = SessionRig()
    rig.clock.advance(6)
    rig.client.deliver(connect()[:-1])
    rig.clock.advance(5)
    assert rig.cause == "handshake_timeout"


def test_connect_comes_once() -> None:
    """A second one is an error, before the broker answered and after."""
    for rig in (SessionRig(), SessionRig().connect()):
        rig.client.deliver(connect())
        if rig.cause is None:
            rig.client.deliver(connect())
        assert "twice" in rig.to_client()[0].error.message
        assert rig.cause == "connected_twice"


@pytest.mark.parametrize(
    "kind", [T.MESSAGE, T.SUCCESS, T.CONNECTED, T.SEND_RECEIPT, T.LOOKUP_RESPONSE, T.AUTH_CHALLENGE]
)
def test_a_broker_s_command_from_a_client_ends_the_connection(kind: int) -> None:
    """The type is known, the direction is wrong; a broker does not put up with it either."""
    rig = SessionRig().connect()
    rig.client.deliver((10).to_bytes(4, "big") + (6).to_bytes(4, "big") + bytes([8, kind]) + bytes(4))
    assert rig.cause == "unknown_command"
    assert rig.client.closing
    assert rig.broker.closing
    assert rig.to_broker() == []


@pytest.mark.parametrize("kind", [0, 1, 69, 70, 99, 127])
def test_an_unknown_command_ends_the_connection(kind: int) -> None:
    """Also commands of scalable topics: CONNECTED has not offered them."""
    rig = SessionRig().connect()
    rig.client.deliver((10).to_bytes(4, "big") + (6).to_bytes(4, "big") + bytes([8, kind]) + bytes(4))
    assert rig.cause == "unknown_command"
    assert "not served" in rig.to_client()[0].error.message


def test_an_oversized_frame_ends_the_connection_before_it_is_held() -> None:
    """Its size alone condemns it."""
    rig = SessionRig().connect()
    rig.client.deliver((rig.limits.max_frame_bytes + 1).to_bytes(4, "big"))
    assert rig.cause == "bad_frame"
    assert "is allowed" in rig.to_client()[0].error.message
    assert rig.client.closing


def test_until_a_client_is_let_in_its_frames_are_small() -> None:
    """A stranger's bytes are in no budget; with many connections, each with most of a message, they took gigabytes."""
    large = send(1, 1, payload=bytes(GREETING_FRAME_BYTES_MAX))
    for rig, cause in ((SessionRig(), "bad_frame"), (SessionRig().connect(), None)):
        rig.client.deliver(large[:8])
        assert rig.cause == cause
    waits = SessionRig()
    waits.client.deliver(connect() + large[:8])
    assert waits.cause == "bad_frame"
    assert f"at most {GREETING_FRAME_BYTES_MAX - 4} is allowed" in waits.to_client()[0].error.message


def test_a_command_of_two_types_is_malformed() -> None:
    """We judge by the first type and protobuf by the last: such a frame must reach neither broker nor worker."""
    rig = SessionRig().connect()
    rig.client.deliver((4 + 6).to_bytes(4, "big") + (6).to_bytes(4, "big") + bytes([8, T.LOOKUP, 8, T.PING, 8, T.PING]))
    assert rig.cause == "bad_frame"
    assert rig.to_broker() == []


def test_what_follows_a_violation_in_one_piece_is_not_read() -> None:
    """Nothing after the offence reaches the broker."""
    rig = SessionRig().connect()
    rig.client.deliver(send(1, 1) + connect() + send(1, 2))
    assert [command.type for command in rig.to_broker()] == [T.SEND]
    rig.client.deliver(send(1, 3))
    assert rig.to_broker() == []


def test_pings_are_answered_on_each_leg_and_not_passed_on() -> None:
    """Keep-alive is between neighbours."""
    rig = SessionRig().connect()
    rig.client.deliver(encode(T.PING))
    rig.broker.deliver(encode(T.PING))
    assert [command.type for command in rig.to_client()] == [T.PONG]
    assert [command.type for command in rig.to_broker()] == [T.PONG]
    rig.client.deliver(encode(T.PONG))
    rig.broker.deliver(encode(T.PONG))
    assert rig.to_client() == rig.to_broker() == []


def test_an_idle_peer_is_pinged_and_stays_while_it_answers() -> None:
    """An hour of nothing but pings ends no connection."""
    rig = SessionRig().connect()
    pings = 0
    for _ in range(360):
        rig.clock.advance(10)
        for transport, commands in ((rig.client, rig.to_client()), (rig.broker, rig.to_broker())):
            for command in commands:
                assert command.type == T.PING
                pings += 1
                transport.deliver(encode(T.PONG))
    assert rig.cause is None
    assert 100 < pings < 250


def test_a_silent_client_is_gone_after_two_intervals() -> None:
    """Not before: one lost PING is no reason."""
    rig = SessionRig().connect()
    for _ in range(5):
        rig.clock.advance(10)
        rig.broker.deliver(encode(T.PONG))
    assert [command.type for command in rig.to_client()] == [T.PING]
    rig.clock.advance(9)
    assert (rig.client.closing, rig.cause) == (False, None)
    rig.clock.advance(21)
    assert rig.cause == "silent"
    assert rig.broker.closing
    assert rig.client.aborted, "what it did not get must not reach it later: others have it then"


def test_a_silent_broker_is_lost_after_two_intervals() -> None:
    """A route that died sends no FIN."""
    rig = SessionRig().connect()
    for _ in range(8):
        rig.clock.advance(10)
        rig.client.deliver(encode(T.PONG))
    assert rig.cause == "broker_lost"
    assert rig.broker.aborted


def test_silence_while_we_do_not_read_proves_nothing() -> None:
    """A paused client cannot be heard: its connection stays, and is pinged so that it does not give us up."""
    rig = SessionRig().connect()
    rig.broker.set_writable(False)
    assert not rig.client.reading
    for _ in range(30):
        rig.clock.advance(10)
        rig.broker.deliver(encode(T.PONG))
    assert rig.cause is None
    assert T.PING in [command.type for command in rig.to_client()]


def test_a_client_that_read_nothing_is_counted_as_such() -> None:
    """Its transport gave it up; an operator tells it from one that left."""
    rig = SessionRig().connect()
    port = rig.worker()
    rig.client.lose(LEFT_UNREAD)
    assert rig.cause == "reads_nothing"
    assert port.calls[-1] == ("lost", LEFT_UNREAD)


def test_when_the_client_leaves_everything_of_its_ends() -> None:
    """Workers hear it once each, the upstream leg is closed, no timer stays."""
    rig = SessionRig().connect()
    ports = [rig.worker(1, 100), rig.worker(2, 101)]
    rig.client.lose("connection reset")
    assert [port.calls for port in ports] == [[("lost", "connection reset")]] * 2
    assert rig.broker.closing
    assert rig.ended == [rig.session]
    assert rig.cause == "client_left"
    assert rig.clock.waiting == 0


def test_a_violation_costs_the_workers_their_connection_too() -> None:
    """They are told at once, not when the client at last closes its end."""
    rig = SessionRig().connect()
    port = rig.worker()
    rig.client.deliver(connect())
    assert [name for name, _ in port.calls] == ["lost"]
    port.link.send(message(1, 1))
    assert T.MESSAGE not in [command.type for command in rig.to_client()]


def test_a_peer_that_does_not_take_the_last_bytes_is_cut_off() -> None:
    """`close` waits for what is queued; a client that reads nothing must not keep the connection for ever."""
    rig = SessionRig().connect()
    rig.client.takes_last_bytes = False
    rig.session.close()
    rig.clock.advance(rig.limits.handshake_timeout_s - 1)
    assert (rig.client.closing, rig.client.aborted) == (True, False)
    rig.clock.advance(2)
    assert rig.client.aborted
    assert rig.ended == [rig.session]


def test_shutting_down_closes_both_legs() -> None:
    """Clients come back by themselves."""
    rig = SessionRig().connect()
    port = rig.worker()
    rig.session.close()
    rig.clock.settle()
    assert rig.client.closing
    assert rig.broker.closing
    assert port.calls == [("lost", "the gateway is shutting down")]
    assert rig.cause == "shut_down"


def test_one_client_s_trouble_is_no_other_s() -> None:
    """Two sessions share nothing that one could break."""
    bad, good = SessionRig().connect(), SessionRig().connect()
    bad.client.deliver(b"\xff" * 100)
    good.client.deliver(send(1, 1))
    assert [command.type for command in good.to_broker()] == [T.SEND]


def test_what_passes_is_counted() -> None:
    """What goes on to the broker, and what the gateway takes itself."""
    rig = SessionRig().connect()
    rig.worker()
    rig.relayed_producer()
    rig.client.deliver(send(5, 1) + send(5, 2) + flow(1, 10))
    assert rig.workers_count == 1
    assert rig.session.counters.relayed_to_broker_frames_total == 3
    assert rig.session.counters.intercepted_commands_total == 2


def test_limits_hold_their_relations() -> None:
    """A frame that may be sent must fit the bound of what may stay unread."""
    with pytest.raises(AssertionError):
        Limits(unread_bytes_max=6 * 1024 * 1024, max_frame_bytes=7 * 1024 * 1024)
    with pytest.raises(AssertionError):
        Limits(unread_low_water_bytes=2 * 1024 * 1024)


def test_success_after_the_end_goes_nowhere() -> None:
    """Whatever the broker still sends when the client has gone is dropped without a fuss."""
    rig = SessionRig()
    rig.client.deliver(connect())
    broker = rig.connector.last.accept()
    rig.client.lose()
    broker.deliver(connected() + success(1))
    assert rig.cause == "client_left"
