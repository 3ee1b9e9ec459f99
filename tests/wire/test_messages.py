"""MESSAGE frames, read and written by hand, held against protobuf."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.wire import messages
from proxy.wire.errors import FrameError
from proxy.wire.frames import encode_command, encode_message, parse_command
from proxy.wire.messages import NO_EXTRAS, Extras, MessageHead, parse_message
from proxy.wire.pulsar_pb2 import BaseCommand
from tests.wire.builders import MINUS_ONE_PARTITION, UNKNOWN_FIELD, frame_of, golden, message_command, tail_of
from tests.wire.message_frames import message_frame

UINT64_MAX = (1 << 64) - 1

uint64 = st.one_of(st.integers(0, 300), st.integers(0, 1 << 22), st.integers(0, UINT64_MAX))
uint32 = st.one_of(st.integers(0, 3), st.integers(0, (1 << 32) - 1))
words = st.lists(st.integers(-(1 << 63), (1 << 63) - 1), max_size=3)
partitions = st.one_of(st.none(), st.just(-1), st.integers(0, 2000))
tails = st.binary(max_size=60)


def rewritten(frame: bytes, consumer_id: int) -> bytes:
    """The same MESSAGE for another consumer, read and written as the gateway does."""
    _, ledger, entry, count, ack_set, tail, extras = parse_message(frame)
    return message_frame(consumer_id, ledger, entry, count, tail, ack_set or (), extras)


def encoded(command: BaseCommand, tail: bytes) -> bytes:
    """The frame as protobuf writes it."""
    return encode_message(command.SerializeToString(), tail)


@given(uint64, uint64, uint64, uint32, words, partitions, tails)
def test_a_message_is_read_as_protobuf_reads_it(
    consumer: int, ledger: int, entry: int, count: int, ack_set: list[int], partition: int | None, tail: bytes
) -> None:
    """Every number of a MESSAGE command is protobuf's, the first time a layout is seen and when it is known."""
    frame = encoded(message_command(consumer, ledger, entry, count, ack_set, partition), tail)
    for _ in range(2):
        head = parse_message(frame)
        assert head[:6] == (consumer, ledger, entry, count, tuple(ack_set) or None, tail)


@given(uint64, uint64, uint64, uint32, words, partitions, tails)
def test_a_message_is_written_as_protobuf_writes_it(
    consumer: int, ledger: int, entry: int, count: int, ack_set: list[int], partition: int | None, tail: bytes
) -> None:
    """A frame for a worker has the very bytes protobuf would write, the extras of the broker's frame included."""
    source = encoded(message_command(7, ledger, entry, 0, (), partition), tail)
    extras = parse_message(source).extras
    expected = encoded(message_command(consumer, ledger, entry, count, ack_set, partition), tail)
    for _ in range(2):
        assert message_frame(consumer, ledger, entry, count, tail, ack_set, extras) == expected


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 1 << 22), st.integers(0, 2)), min_size=1, max_size=40))
def test_layouts_learned_earlier_never_change_a_result(ids: list[tuple[int, int, int]]) -> None:
    """In any mix of consumers, entry sizes and redelivery counts each frame is read and written for what it is."""
    for consumer, entry, count in ids:
        frame = encoded(message_command(consumer, 9, entry, count), b"t")
        assert parse_message(frame)[:4] == (consumer, 9, entry, count)
        assert rewritten(frame, consumer) == frame


def test_a_known_layout_is_left_as_soon_as_one_byte_differs() -> None:
    """Any change of one byte of a known layout is read as protobuf reads it, or refused where protobuf refuses it."""
    for entry in (5, 300, 70_000):
        frame = encoded(message_command(3, 123_456, entry, 2), b"tail")
        parse_message(frame)
        end = len(frame) - len(b"tail")
        for at in range(8, end):
            for value in range(256):
                changed = frame[:at] + bytes((value,)) + frame[at + 1 :]
                assert outcome(parse_message, changed) == outcome(read_with_protobuf, changed), (at, value)


def outcome(read: object, frame: bytes) -> object:
    """What a reader makes of a frame: a value, or that it refuses."""
    try:
        return read(frame)[:6]  # type: ignore[operator]  # one of the two readers
    except FrameError:
        return FrameError


def read_with_protobuf(frame: bytes) -> tuple[object, ...]:
    """The six parts as protobuf alone gives them."""
    command = parse_command(frame)
    if command.type != BaseCommand.MESSAGE:
        raise FrameError("another type", "here", "a MESSAGE")
    message, ids = command.message, command.message.message_id
    ack_set = tuple(message.ack_set) or None
    return message.consumer_id, ids.ledgerId, ids.entryId, message.redelivery_count, ack_set, tail_of(frame)


def test_what_is_not_interpreted_is_forwarded() -> None:
    """Partition, consumer epoch and fields of a newer broker, at every depth, reach the worker with its consumer id."""
    command = message_command(7, 8, 9, 1, (), 12)
    command.message.message_id.batch_index = 4
    command.message.consumer_epoch = 6
    for part in (command, command.message, command.message.message_id):
        part.MergeFromString(UNKNOWN_FIELD)
    for _ in range(2):
        frame = rewritten(encoded(command, b"tail"), 70_000)
        read = parse_command(frame)
        read.message.consumer_id = 7
        assert read == command
        assert frame.count(UNKNOWN_FIELD) == 3
        assert tail_of(frame) == b"tail"


def test_a_command_in_another_order_is_read_and_written_in_the_usual_one() -> None:
    """Fields may stand in any order, numbers in more bytes than needed; what is written has protobuf's own form."""
    ids = b"\x18\x05" + b"\x10\x89\x00" + b"\x08\x08"
    message = b"\x18\x01" + b"\x12" + bytes((len(ids),)) + ids + b"\x08\x07"
    frame = frame_of(b"\x4a" + bytes((len(message),)) + message + b"\x08\x09", b"tail")
    for _ in range(2):
        assert parse_message(frame)[:6] == (7, 8, 9, 1, None, b"tail")
        assert rewritten(frame, 1) == encoded(message_command(1, 8, 9, 1, (), 5), b"tail")


def test_entries_of_a_consumer_share_their_extras() -> None:
    """However many entries are pending, what they have in common is one object."""
    heads = [parse_message(encoded(message_command(3, ledger, 5), b"")) for ledger in (1, 1, 2, 300, 300)]
    assert {id(head.extras) for head in heads} == {id(heads[0].extras)}
    assert heads[0].extras == Extras(MINUS_ONE_PARTITION, b"", b"")
    assert parse_message(encoded(message_command(3, 1, 5, partition=None), b"")).extras is NO_EXTRAS


def test_a_real_brokers_layout_is_learned_at_once() -> None:
    """Pulsar's own frames, first and repeated deliveries, with and without partitions, are all read the quick way."""
    frames = golden("broker-messages")
    assert len(frames) == 12
    for frame in frames:
        messages._layouts.clear()
        head = parse_message(frame)
        assert len(messages._layouts) == 1
        assert parse_message(frame) == head
        assert rewritten(frame, head.consumer_id) == frame
    heads = [parse_message(frame) for frame in frames]
    assert [head.entry for head in heads] == [0, 1, 2] * 4
    assert [head.redelivery_count for head in heads] == [0, 0, 0, 1, 1, 1] * 2
    assert {head.extras.message_id for head in heads} == {MINUS_ONE_PARTITION, b"\x18\x01"}


def test_caches_are_bounded() -> None:
    """However many consumers come and go, no more layouts and wrappers are kept than the named limits."""
    for consumer in range(messages._MAX_STARTS + 10):
        frame = message_frame(consumer, 1, 2, 0, b"")
        assert len(messages._starts) <= messages._MAX_STARTS
        if consumer < messages._MAX_LAYOUTS + 10:
            assert parse_message(frame).consumer_id == consumer
            assert len(messages._layouts) <= messages._MAX_LAYOUTS


def test_a_frame_of_another_type_is_refused() -> None:
    """Only MESSAGE frames are taken apart."""
    ping = encode_command(BaseCommand(type=BaseCommand.PING))
    with pytest.raises(FrameError, match="a MESSAGE has type 9"):
        parse_message(ping)


@pytest.mark.parametrize("numbers", [(-1, 1, 1, 0), (1, -1, 1, 0), (1, 1, -1, 0), (1, 1, 1, -1), (1, 1 << 64, 1, 0)])
def test_numbers_that_fit_no_field_are_our_mistake(numbers: tuple[int, int, int, int]) -> None:
    """A negative or oversized number is refused instead of being written as another one."""
    with pytest.raises(ValueError, match="does not fit"):
        message_frame(*numbers, b"")


@given(st.binary(min_size=2, max_size=60))
def test_random_commands_are_read_or_refused(command: bytes) -> None:
    """Whatever stands in the command, reading gives a head or a FrameError."""
    with suppress(FrameError):
        assert isinstance(parse_message(frame_of(b"\x08\x09" + command)), MessageHead)
