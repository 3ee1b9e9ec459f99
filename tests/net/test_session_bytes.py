"""The session as a reader of bytes: cut anywhere, cut short, or made of noise."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator

import pytest

from proxy.wire import pulsar_pb2 as pb
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

STREAM = b"".join(
    [
        producer(5, 50),
        subscribe(1, 100),
        flow(1, 10),
        send(5, 1),
        send(5, 2, b"\x0e\x01" + bytes(5000)),
        encode(T.PING),
        subscribe(6, 60, pb.CommandSubscribe.Shared),
        ack(1),
        ack(6),
        lookup(7),
        flow(6, 3),
    ]
)


@contextlib.contextmanager
def told_with(seed: int) -> Iterator[None]:
    """Name the seed in whatever fails."""
    try:
        yield
    except BaseException as error:
        error.add_note(f"seed {seed}")
        raise


def noise(seed: int) -> random.Random:
    """Give chance that can be had again."""
    return random.Random(seed)  # noqa: S311 - noise, not secrets


def outcome(rig: SessionRig) -> tuple[object, ...]:
    """What both sides and the subscriptions have seen."""
    calls = [port.calls for port in rig.directory.workers]
    return rig.broker.take(), rig.client.take(), calls, rig.cause


def test_a_stream_has_one_meaning_however_it_is_cut() -> None:
    """Whole, byte by byte, and in pieces of every size."""
    rig = SessionRig().connect()
    rig.client.deliver(STREAM)
    whole = outcome(rig)
    for size in (1, 2, 3, 7, 64, 1000):
        rig = SessionRig().connect()
        for start in range(0, len(STREAM), size):
            rig.client.deliver(STREAM[start : start + size])
        assert outcome(rig) == whole, size


def test_the_handshake_may_come_byte_by_byte_from_both_sides() -> None:
    """TCP promises no more."""
    rig = SessionRig()
    for byte in connect():
        rig.client.deliver(bytes([byte]))
    broker = rig.connector.last.accept()
    for byte in connected() + message(6, 1):
        broker.deliver(bytes([byte]))
    assert [command.type for command in rig.to_client()] == [T.CONNECTED, T.MESSAGE]


def test_a_stream_cut_short_does_what_came_whole_and_no_more() -> None:
    """At every byte: the client may die there."""
    rig = SessionRig().connect()
    rig.client.deliver(STREAM)
    whole = rig.broker.take()
    for end in range(0, len(STREAM), 13):
        rig = SessionRig().connect()
        rig.client.deliver(STREAM[:end])
        rig.client.lose()
        sent = rig.broker.take()
        assert whole.startswith(sent)
        assert rig.cause == "client_left"
        assert rig.broker.closing


@pytest.mark.parametrize("established", [False, True])
def test_noise_ends_at_worst_its_own_connection(established: bool) -> None:  # noqa: FBT001 - a case
    """Random bytes, random commands in right frames, and right commands with a bit flipped: nothing raises."""
    for seed in range(300):
        with told_with(seed):
            _make_noise_as_client(noise(seed), established=established)


def test_noise_from_a_broker_ends_at_worst_the_connections_of_that_client() -> None:
    """A broker of a version to come, or something else on its port."""
    for seed in range(300):
        with told_with(seed):
            _make_noise_as_broker(noise(seed))


def _make_noise_as_client(chance: random.Random, *, established: bool) -> None:
    rig = SessionRig()
    if established:
        rig.connect()
        rig.worker()
    noise = [
        chance.randbytes(chance.randrange(1, 200)),
        _framed(bytes([8, chance.randrange(128)]) + chance.randbytes(chance.randrange(30))),
        _flipped(STREAM, chance),
    ]
    for piece in noise:
        for start in range(0, len(piece), 97):
            rig.client.deliver(piece[start : start + 97])
    rig.client.lose()
    assert rig.cause is not None
    assert rig.ended == [rig.session]
    assert rig.clock.waiting == 0


def _make_noise_as_broker(chance: random.Random) -> None:
    rig = SessionRig().connect()
    replies = (
        success(1)
        + message(6, 1)
        + lookup(7)
        + encode(T.CLOSE_CONSUMER, pb.CommandCloseConsumer(consumer_id=6, request_id=2))
    )
    for piece in (_flipped(replies, chance), _framed(chance.randbytes(20)), chance.randbytes(50)):
        rig.broker.deliver(piece)
    rig.client.lose()
    assert rig.ended == [rig.session]
    assert rig.clock.waiting == 0


def _framed(command: bytes) -> bytes:
    return (len(command) + 4).to_bytes(4, "big") + len(command).to_bytes(4, "big") + command


def _flipped(data: bytes, chance: random.Random) -> bytes:
    position = chance.randrange(len(data))
    return data[:position] + bytes([data[position] ^ (1 << chance.randrange(8))]) + data[position + 1 :]
