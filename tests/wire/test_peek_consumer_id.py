"""What is read of a command without parsing it: whose it is, and whether an ACK asks for a receipt."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.wire import frames
from proxy.wire import pulsar_pb2 as pb
from proxy.wire.client_commands import body_of, may_ask_receipt, peek_consumer_id

T = pb.BaseCommand
KINDS = (T.ACK, T.FLOW, T.REDELIVER_UNACKNOWLEDGED_MESSAGES)


def command(kind: int, consumer_id: int) -> pb.BaseCommand:
    """One of them."""
    made = T(type=kind)  # type: ignore[arg-type]
    body = body_of(made)
    body.consumer_id = consumer_id
    if kind == T.ACK:
        body.ack_type = pb.CommandAck.Individual
        for entry in range(40):  # its length takes two bytes
            body.message_id.add(ledgerId=7, entryId=entry)
    elif kind == T.FLOW:
        body.messagePermits = 1
    return made


@pytest.mark.parametrize("kind", KINDS)
@given(consumer_id=st.integers(0, 2**64 - 1))
def test_it_is_the_commands_own(kind: int, consumer_id: int) -> None:
    """Whatever number it has."""
    assert peek_consumer_id(kind, frames.encode_command(command(kind, consumer_id))) == consumer_id


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
def test_garbage_is_harmless(kind: int, data: st.DataObject) -> None:
    """Of a command that is cut or changed there is an id or none, and no error of another kind."""
    frame = bytearray(frames.encode_command(command(kind, 5)))
    for _ in range(data.draw(st.integers(1, 3))):
        frame[data.draw(st.integers(frames.COMMAND_START + 2, len(frame) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(frame[: data.draw(st.integers(frames.COMMAND_START + 2, len(frame)))])
    peeked = peek_consumer_id(kind, cut)
    assert peeked is None or peeked >= 0


def test_an_id_that_does_not_stand_first_is_not_read() -> None:
    """Such a command has to be parsed."""
    whole = frames.encode_command(command(T.FLOW, 5))
    start = frames.COMMAND_START
    turned = whole[start : start + 4] + whole[start + 6 :] + whole[start + 4 : start + 6]
    frame = whole[:start] + turned
    assert frames.parse_command(frame).flow.consumer_id == 5
    assert peek_consumer_id(T.FLOW, frame) is None


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("length", [20, 1 << 16])
def test_a_number_without_end_is_not_added_up(kind: int, length: int) -> None:
    """Each of its bytes says that there is one more: 9 s for half a megabyte, if all were added up."""
    whole = frames.encode_command(command(kind, 5))
    cut = whole.index(b"\x08\x05", frames.COMMAND_START + 2)  # the consumer's id
    assert peek_consumer_id(kind, whole[: cut + 1] + b"\xff" * length + b"\x01") is None
    assert peek_consumer_id(kind, whole[: cut - 1] + b"\xff" * length + whole[cut - 1 :]) is None
    assert not may_ask_receipt(whole + b"\x40" + b"\xff" * length + b"\x01")


@given(request_id=st.integers(0, 2**64 - 1))
def test_an_ack_that_asks_for_a_receipt_is_looked_at(request_id: int) -> None:
    """Whatever number it has, and whatever else is in it."""
    asks = command(T.ACK, 5)
    asks.ack.txnid_most_bits = 1
    asks.ack.request_id = request_id
    assert may_ask_receipt(frames.encode_command(asks))


@given(entry=st.integers(0, 2**63 - 1))
def test_an_ack_that_asks_for_none_is_not_parsed(entry: int) -> None:
    """It ends with the place of a message, or with what is left of a batch."""
    plain = command(T.ACK, 5)
    place = plain.ack.message_id.add(ledgerId=7, entryId=entry)
    assert not may_ask_receipt(frames.encode_command(plain))
    place.ack_set.append(entry)
    assert not may_ask_receipt(frames.encode_command(plain))
