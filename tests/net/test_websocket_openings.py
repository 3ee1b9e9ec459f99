"""Entries that open to much, for WebSocket workers: decompressed beside the loop, in order, and forgotten with them."""

from __future__ import annotations

import pytest

from proxy.net.subscription.openings import OpeningLimits
from proxy.wire import pulsar_pb2 as pb
from proxy.wire.codecs import compress
from proxy.wire.metadata import build_tail
from tests.net.websocket_rig import WebsocketRig, id_of, member, metadata, single

LARGE = b"\0" * (300 << 10)
"""More than is decompressed on the loop."""


def bomb(payload: bytes = LARGE, **lies: object) -> bytes:
    """The tail of a small entry that opens to much."""
    values: dict[str, object] = {"compression": pb.ZSTD, "uncompressed_size": len(payload), "partition_key": b"k"}
    return build_tail(metadata(**(values | lies)), compress(pb.ZSTD, payload))


def held() -> WebsocketRig:
    """A worker that has joined; the test carries out the background's work."""
    rig = WebsocketRig().join()
    rig.background.held = True
    return rig


def test_what_opens_to_much_is_decompressed_beside_the_loop_and_the_rest_comes_behind_it() -> None:
    """In the order in which the session sent them."""
    rig = held()
    for entry, tail in enumerate((single(b"0"), bomb(), single(b"2"), single(b"3"))):
        rig.deliver(entry, tail)
    assert rig.got() == [(id_of(0), b"0")]
    assert len(rig.background.errands) == 1
    rig.background.carry_out()
    assert rig.got() == [(id_of(1), LARGE), (id_of(2), b"2"), (id_of(3), b"3")]


def test_a_batch_that_opens_to_much_is_delivered_message_by_message() -> None:
    """As any other."""
    rig = held()
    payload = member(b"a") + member(LARGE)
    rig.deliver(0, bomb(payload, num_messages_in_batch=2))
    assert rig.got() == []
    rig.background.carry_out()
    assert rig.got() == [(id_of(0, 0, 2), b"a"), (id_of(0, 1, 2), LARGE)]


@pytest.mark.parametrize("kept_bytes", [0, 64 << 20])
def test_clients_without_room_keep_no_others_from_opening(kept_bytes: int) -> None:
    """Each has a large message, works on it for hours, and has more of that batch here; so does the next client."""
    first = WebsocketRig(outstanding_max=1, limits=OpeningLimits(kept_bytes=kept_bytes))
    rigs = [first, *(WebsocketRig(outstanding_max=1, beside=first) for _ in range(3))]
    openings = first.openings
    payload = member(b"a") + member(LARGE) + member(b"c")
    for rig in rigs:
        rig.join().deliver(0, bomb(payload, num_messages_in_batch=3))
        assert rig.got() == [(id_of(0, 0, 3), b"a")]
    assert len(openings._kept) == (4 if kept_bytes else 0)
    assert not openings._under_way
    for rig in rigs:
        rig.ack(id_of(0, 0, 3))
        assert rig.got() == [(id_of(0, 1, 3), LARGE)]
        rig.ack(id_of(0, 1, 3))
        assert rig.got() == [(id_of(0, 2, 3), b"c")]
        rig.worker.closed("gone")
    assert (openings._kept, openings._under_way) == ({}, set())


def test_an_entry_is_opened_when_there_is_room_for_its_messages() -> None:
    """Not before: it would be dropped again."""
    rig = WebsocketRig(outstanding_max=1).join(2)
    rig.background.held = True
    rig.deliver(0, single(b"0"), 0)
    rig.deliver(1, bomb(), 1)
    assert not rig.background.errands
    rig.ack(id_of(0, partition=0))
    rig.background.carry_out()
    assert [payload for _, payload in rig.got()] == [b"0", LARGE]


def test_a_dropped_batch_is_read_on_behind_what_was_delivered() -> None:
    """Also where messages of it are acknowledged already, or its end cannot be read."""
    rig = WebsocketRig(outstanding_max=1, limits=OpeningLimits(kept_bytes=0)).join()
    payload = member(b"a") + member(LARGE) + member(b"c") + member(b"d") + b"?"
    rig.deliver(0, bomb(payload, num_messages_in_batch=4), ack_set=[0b1101])
    assert rig.got() == [(id_of(0, 0, 4), b"a")]
    for last, following, body in ((0, 2, b"c"), (2, 3, b"d")):
        rig.ack(id_of(0, last, 4))
        assert rig.got() == [(id_of(0, following, 4), body)]
    rig.take_acks()
    rig.ack(id_of(0, 3, 4))
    assert pb.CommandAck.BatchDeSerializeError in [ack.validation_error for ack in rig.take_acks()]
    assert not rig.openings._under_way


def test_a_lie_that_shows_beside_the_loop_is_acknowledged_away_like_any_other() -> None:
    """Else its key would wait for ever; the next message comes."""
    rig = held()
    rig.deliver(0, bomb(uncompressed_size=len(LARGE) + 1))
    rig.deliver(1, single(b"1"))
    rig.background.carry_out()
    (ack,) = rig.take_acks()
    assert ack.validation_error == pb.CommandAck.DecompressionError
    assert rig.got() == [(id_of(1), b"1")]


@pytest.mark.parametrize("how", ["gone", "taken back"])
def test_a_payload_that_is_ready_too_late_goes_nowhere(how: str) -> None:
    """Its client has gone, or what came before it was refused and comes again first; the room it took is free."""
    rig = held()
    rig.deliver(0, single(b"0"))
    rig.deliver(1, bomb())
    (late,) = rig.background.errands
    assert rig.got() == [(id_of(0), b"0")]
    if how == "gone":
        rig.worker.closed("gone")
    else:
        rig.nack(id_of(0))
        rig.clock.advance(rig.request.nack_delay_s + 1)
        assert rig.take_redelivers() == [(0, [0, 1])]
    late.carry_out()
    assert rig.got() == []
    assert not rig.openings._under_way
    assert not rig.openings._wanted
