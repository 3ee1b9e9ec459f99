"""Frames out of a stream, and the command in one."""

import struct
import sys
from contextlib import suppress
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.wire import commands
from proxy.wire.errors import FrameError
from proxy.wire.frames import (
    MESSAGES_WITH_TEXT_MAX,
    MIN_FRAME_BYTES,
    FrameSplitter,
    encode_command,
    encode_message,
    frame_type,
    is_cut,
    parse_command,
    payload_start,
    type_stands_once,
)
from proxy.wire.pulsar_pb2 import BaseCommand, CommandAck, PersistenceError
from proxy.wire.varints import varint
from tests.wire.builders import UNKNOWN_FIELD, frame_of, golden, message_command

LIMIT = 1 << 16
FLOW = BaseCommand(type=BaseCommand.FLOW)
FLOW.flow.consumer_id = 3
FLOW.flow.messagePermits = 1000
FLOW_FRAME = frame_of(FLOW.SerializeToString())

frames_strategy = st.lists(
    st.builds(frame_of, st.binary(min_size=2, max_size=40), st.binary(max_size=300)), min_size=1, max_size=8
)


def cut(stream: bytes, at: list[int]) -> list[bytes]:
    """The stream in pieces, cut at these offsets."""
    edges = sorted({0, len(stream), *(offset for offset in at if offset < len(stream))})
    return [stream[start:end] for start, end in pairwise(edges)]


def feed_all(splitter: FrameSplitter, pieces: list[bytes]) -> list[bytes]:
    """All frames out of these pieces."""
    return [frame for piece in pieces for frame in splitter.feed(piece)]


@given(frames_strategy, st.lists(st.integers(min_value=0, max_value=2000)))
def test_frames_do_not_depend_on_how_the_stream_is_cut(frames: list[bytes], at: list[int]) -> None:
    """Frames come out whole, once and in order, each with its size field, wherever the network cuts the stream."""
    splitter = FrameSplitter(LIMIT)
    assert feed_all(splitter, cut(b"".join(frames), at)) == frames
    assert splitter._held_bytes == 0


@given(
    st.lists(
        st.builds(
            frame_of,
            st.sampled_from([FLOW.SerializeToString(), b"\x08\x09" + bytes(6), b"\x08\x09" + bytes(120)]),
            st.binary(max_size=300),
        ),
        max_size=8,
    ),
    st.lists(st.integers(min_value=0, max_value=2000)),
)
def test_tails_of_large_messages_may_stand_apart(frames: list[bytes], at: list[int]) -> None:
    """Those of other commands and of small messages do not; each cut frame and the next tail are the frame."""
    splitter = FrameSplitter(LIMIT, apart=True)
    splitter._apart_bytes = 100
    found = feed_all(splitter, cut(b"".join(frames), at))
    are_cut = [is_cut(frame) for frame in found]
    assert are_cut.count(True) == len(splitter.tails)
    assert [frame + splitter.tails.popleft() if is_cut(frame) else frame for frame in found] == frames
    for frame, apart in zip(frames, are_cut, strict=True):
        large_tail = frame[8:10] == b"\x08\x09" and payload_start(frame) < len(frame) and len(frame) > 104
        assert large_tail or not apart


def test_of_a_large_message_in_few_pieces_the_tail_stands_apart() -> None:
    """In one, and in several of which the first has the whole command."""
    frame = frame_of(b"\x08\x09" + bytes(20), bytes(200_000))
    for at in (0, 100, 60_000):
        splitter = FrameSplitter(1 << 20, apart=True)
        (found,) = feed_all(splitter, cut(frame, [at, 130_000]))
        assert (found, list(splitter.tails)) == (frame[:30], [bytes(200_000)])


@given(frames_strategy)
def test_frames_come_out_byte_by_byte_as_they_do_whole(frames: list[bytes]) -> None:
    """Each frame appears with its last byte, no sooner and no later."""
    stream = b"".join(frames)
    splitter = FrameSplitter(LIMIT)
    out = [splitter.feed(stream[at : at + 1]) for at in range(len(stream))]
    assert [frame for found in out for frame in found] == frames
    ends = {sum(map(len, frames[: index + 1])) - 1 for index in range(len(frames))}
    assert {at for at, found in enumerate(out) if found} == ends
    assert FrameSplitter(LIMIT).feed(stream) == frames


@given(frames_strategy, st.frozensets(st.integers(0, 255)), st.integers(min_value=0, max_value=2000))
def test_a_leading_run_and_what_is_behind_it_are_the_stream(
    frames: list[bytes], kinds: frozenset[int], end: int
) -> None:
    """The run has the first frames of these types, all of them; it ends before any other, and before a piece of one."""
    stream = b"".join(frames)[:end]
    whole = FrameSplitter(LIMIT).feed(stream)
    splitter = FrameSplitter(LIMIT)
    size, count = splitter.leading_run(stream, kinds)
    rest = splitter.feed(stream[size:])
    assert stream[:size] == b"".join(whole[:count])
    assert rest == whole[count:]
    plain = [
        frame[8] == 8 and frame[9] < 128 and frame[9] in kinds and type_stands_once(frame, 0, payload_start(frame))
        for frame in whole
    ]
    assert count == (plain.index(False) if False in plain else len(plain))


def test_no_run_begins_within_a_frame_or_behind_an_error() -> None:
    """What is held comes first, and nothing is read behind a size that was wrong."""
    splitter, kinds = FrameSplitter(LIMIT), frozenset({frame_type(FLOW_FRAME)})
    assert splitter.leading_run(FLOW_FRAME * 3, kinds) == (3 * len(FLOW_FRAME), 3)
    splitter.feed(FLOW_FRAME[:5])
    assert splitter.leading_run(FLOW_FRAME, kinds) == (0, 0)
    with pytest.raises(FrameError):
        splitter.feed(b"\xff" * 20)
    assert splitter.leading_run(FLOW_FRAME, kinds) == (0, 0)


@pytest.mark.parametrize("sizes", [(LIMIT, 2), (6, 1), (6, 3), (2**32 - 1, 2**32 - 1), (0, 0)])
def test_a_run_ends_before_a_size_that_cannot_be_right(sizes: tuple[int, int]) -> None:
    """`feed` refuses it as ever."""
    splitter = FrameSplitter(LIMIT)
    wrong = struct.pack(">II", *sizes) + b"\x08" * 20
    size, count = splitter.leading_run(FLOW_FRAME + wrong, frozenset(range(128)))
    assert (size, count) == (len(FLOW_FRAME), 1)
    with pytest.raises(FrameError):
        splitter.feed(wrong)


def test_a_run_has_no_frame_above_the_limit_and_none_whose_type_is_longer() -> None:
    """Both are for `feed`, which refuses the one and leaves the other to a parse."""
    every = frozenset(range(256))
    large = frame_of(b"\x08\x06", bytes(LIMIT - 9))
    assert FrameSplitter(LIMIT).leading_run(large, every) == (0, 0)
    assert FrameSplitter(LIMIT).leading_run(frame_of(b"\x08\x86\x01"), every) == (0, 0)


@given(st.sampled_from((0x0A, 0x32, 0x52, 0xA2)), st.binary(max_size=300))
def test_a_body_that_fills_the_command_leaves_no_room_for_another_type(tag: int, body: bytes) -> None:
    """One byte or two of tag and of length, as every client writes them."""
    command = b"\x08\x06" + (varint(tag) if tag < 0x80 else b"\xa2\x01") + varint(len(body)) + body
    assert type_stands_once(frame_of(command), 0, 8 + len(command))
    assert not type_stands_once(frame_of(command + b"\x08\x04"), 0, 8 + len(command) + 2)


@given(st.binary(max_size=40))
def test_what_stands_once_is_what_protobuf_reads(rest: bytes) -> None:
    """Where the type stands once, no reader finds another one, whatever follows it."""
    command = b"\x08\x06" + rest
    if type_stands_once(frame_of(command), 0, 8 + len(command)):
        with suppress(FrameError):
            assert parse_command(frame_of(command)).type == BaseCommand.SEND


def test_a_type_that_stands_twice_is_in_no_run() -> None:
    """The last one counts for a broker, with a body before it or without, in whatever length."""
    kinds = frozenset({int(BaseCommand.SEND)})
    for between in (b"", b"\x32\x04\x08\x01\x10\x02", b"\xb2\x80\x80\x00\x00", b"\x32\x84\x80\x00\x08\x01\x10\x02"):
        frame = frame_of(b"\x08\x06" + between + FLOW.SerializeToString())
        assert FrameSplitter(LIMIT).leading_run(frame, kinds) == (0, 0)


def test_a_type_behind_a_body_whose_length_looks_like_the_rest_is_in_no_run() -> None:
    """A length of two bytes, the first of which is what a length of one byte would have to be: 0xC8 0x00 is 72."""
    command = b"\x08\x06\x32\xc8\x00" + bytes(72) + b"\x08\x0c"
    command += b"\x3a\x7d" + bytes(204 - len(command) - 2)
    assert len(command) - 4 == 0xC8
    assert FrameSplitter(LIMIT).leading_run(frame_of(command), frozenset({int(BaseCommand.SEND)})) == (0, 0)


def test_every_truncation_waits_for_the_rest() -> None:
    """The start of a frame, however long, gives nothing and is no error; the rest completes it."""
    for size in range(len(FLOW_FRAME)):
        splitter = FrameSplitter(LIMIT)
        assert splitter.feed(FLOW_FRAME[:size]) == []
        assert splitter._held_bytes == size
        assert splitter.feed(FLOW_FRAME[size:]) == [FLOW_FRAME]


def test_a_large_frame_in_many_pieces_is_copied_a_constant_number_of_times() -> None:
    """Unless they are very many, its pieces are joined once, when its end is there: none is copied while it waits."""
    frame = frame_of(b"\x08\x06", bytes(5 << 20))
    splitter = FrameSplitter(6 << 20)
    pieces = [frame[at : at + (64 << 10)] for at in range(0, len(frame), 64 << 10)]
    for piece in pieces[:-1]:
        assert splitter.feed(piece) == []
    assert [id(piece) for piece in splitter._pieces] == [id(piece) for piece in pieces[:-1]]
    assert splitter.feed(pieces[-1]) == [frame]


@pytest.mark.parametrize("apart", [False, True])
def test_a_frame_in_the_smallest_pieces_takes_little_more_memory_than_its_bytes(apart: bool) -> None:  # noqa: FBT001
    """Each piece is an object of its own, of many times its size; and no byte is joined again and again."""
    tail = bytes(range(251)) * 800
    frame = frame_of(message_command(1, 7, 4).SerializeToString(), tail)
    splitter = FrameSplitter(len(frame), apart=apart)
    pieces = [frame[at : at + 2] for at in range(0, len(frame), 2)]
    for piece in pieces[:-1]:
        assert splitter.feed(piece) == []
    held = sum(sys.getsizeof(piece) for piece in splitter._pieces) + sys.getsizeof(splitter._pieces)
    assert held < 1.3 * len(frame)
    whole = splitter.feed(pieces[-1] + FLOW_FRAME)
    assert (whole[0] + b"".join(splitter.tails), whole[1]) == (frame, FLOW_FRAME)
    assert bool(splitter.tails) is apart
    assert splitter._pieces == []


@pytest.mark.parametrize(
    ("sizes", "what"),
    [
        ((0, 0), "total size 0"),
        ((5, 1), "total size 5"),
        ((LIMIT - 3, 2), "total size"),
        ((0xFFFF_FFFF, 2), "total size"),
        ((20, 17), "command size of 17"),
        ((20, 0xFFFF_FFFF), "command size"),
        ((20, 1), "command size of 1"),
        ((20, 0), "command size of 0"),
    ],
)
def test_a_size_that_cannot_be_right_is_refused_for_good(sizes: tuple[int, int], what: str) -> None:
    """A wrong size is refused whole, byte by byte and behind a good frame, and nothing fed later is believed."""
    wrong = struct.pack(">II", *sizes)
    for pieces in ([wrong], [wrong[at : at + 1] for at in range(8)], [FLOW_FRAME + wrong]):
        splitter = FrameSplitter(LIMIT)
        with pytest.raises(FrameError, match=what):
            feed_all(splitter, pieces)
        with pytest.raises(FrameError, match=what):
            splitter.feed(FLOW_FRAME)


def test_a_wrong_total_size_is_refused_without_the_next_four_bytes() -> None:
    """A peer that sends four bytes of nonsense is not waited for."""
    for size in (0, 5, LIMIT - 3):
        with pytest.raises(FrameError):
            FrameSplitter(LIMIT).feed(struct.pack(">I", size))
        splitter = FrameSplitter(LIMIT)
        assert feed_all(splitter, cut(struct.pack(">I", size)[:3], [1, 2])) == []
        with pytest.raises(FrameError):
            splitter.feed(struct.pack(">I", size)[3:])


def test_the_limit_counts_the_whole_frame() -> None:
    """A frame of exactly the limit passes, one byte more does not."""
    frame = frame_of(b"\x08\x06", bytes(LIMIT - 10))
    assert len(frame) == LIMIT
    assert FrameSplitter(LIMIT).feed(frame) == [frame]
    with pytest.raises(FrameError, match=f"at most {LIMIT - 4}"):
        FrameSplitter(LIMIT).feed(frame_of(b"\x08\x06", bytes(LIMIT - 9)))


def test_a_limit_below_every_frame_is_our_mistake() -> None:
    """A limit that no frame could meet is refused where it is set."""
    FrameSplitter(MIN_FRAME_BYTES)
    with pytest.raises(ValueError, match="max_frame_bytes"):
        FrameSplitter(MIN_FRAME_BYTES - 1)


@given(st.binary(max_size=200))
def test_random_bytes_give_frames_or_a_frame_error(data: bytes) -> None:
    """Whatever a peer sends, the splitter and both readers answer with a value or a FrameError."""
    with suppress(FrameError):
        for frame in FrameSplitter(LIMIT).feed(data):
            frame_type(frame)
            parse_command(frame)


@given(st.binary(min_size=2, max_size=60))
def test_a_random_command_gives_a_command_or_a_frame_error(command: bytes) -> None:
    """Whatever stands in a command, reading it never raises anything but a FrameError."""
    frame = frame_of(command)
    for read in (frame_type, parse_command):
        with suppress(FrameError):
            read(frame)


@pytest.mark.parametrize("number", BaseCommand.Type.values())
def test_the_type_is_read_without_a_parse_and_with_one(number: int) -> None:
    """The type is the same whether it stands first or, against every known implementation, last."""
    encoded = BaseCommand(type=number).SerializeToString()  # type: ignore[arg-type]  # a number of that enum
    assert frame_type(frame_of(encoded)) == number
    assert frame_type(frame_of(b"\x92\x01\x00" + encoded)) == number


def test_a_type_newer_than_ours_is_still_a_number() -> None:
    """A command of a later protocol can be relayed: its type is told, though it cannot be parsed."""
    assert frame_type(frame_of(b"\x08\x7e\xf2\x07\x00")) == 126
    with pytest.raises(FrameError):
        parse_command(frame_of(b"\x08\x7e\xf2\x07\x00"))


def test_a_command_comes_back_as_it_was_encoded() -> None:
    """Encoding and parsing are each other's inverse, payload or not."""
    assert encode_command(FLOW) == FLOW_FRAME
    assert parse_command(FLOW_FRAME) == FLOW
    assert payload_start(FLOW_FRAME) == len(FLOW_FRAME)
    message = message_command(1, 2, 3)
    frame = encode_message(message.SerializeToString(), b"tail")
    assert parse_command(frame) == message
    assert frame[payload_start(frame) :] == b"tail"


def test_unknown_fields_survive_a_parse_and_an_encoding() -> None:
    """A relay that changes one field of a command forwards the fields it does not know."""
    frame = frame_of(FLOW.SerializeToString() + UNKNOWN_FIELD)
    command = parse_command(frame)
    command.flow.consumer_id = 4
    assert UNKNOWN_FIELD in encode_command(command)


def test_a_truncated_command_is_no_command() -> None:
    """No prefix of a command is taken for a command."""
    encoded = golden("python-consumer")[3][8:]
    for size in range(2, len(encoded)):
        with pytest.raises(FrameError):
            parse_command(frame_of(encoded[:size]))


@pytest.mark.parametrize("field", ["topic", "subscription", "subType", "consumer_id", "request_id"])
def test_a_command_without_a_required_field_names_it(field: str) -> None:
    """The error says which required field is missing, so that a client's author can mend it."""
    command = parse_command(golden("python-consumer")[3])
    command.subscribe.ClearField(field)
    with pytest.raises(FrameError, match=field):
        parse_command(frame_of(command.SerializePartialToString()))


def test_a_type_without_its_body_is_refused() -> None:
    """A command that says FLOW and holds no flow would read as one with all its numbers zero."""
    with pytest.raises(FrameError, match="'flow' must be present"):
        parse_command(frame_of(b"\x08\x0b"))


@pytest.mark.parametrize("kind", [BaseCommand.PING, BaseCommand.PONG])
def test_a_ping_needs_no_body(kind: BaseCommand.Type) -> None:
    """A ping or pong says all it has to say by its type."""
    assert parse_command(frame_of(BaseCommand(type=kind).SerializeToString())).type == kind


def test_text_that_is_no_utf8_is_refused() -> None:
    """Names reach the gateway as text or not at all, at every depth of a command."""
    subscribe = golden("python-consumer")[3][8:]
    for text in (b"orders", b"keyline.batch-index"):
        assert text in subscribe
        with pytest.raises(FrameError, match="UTF-8"):
            parse_command(frame_of(subscribe.replace(text, b"\xff" * len(text))))


def test_a_refused_acknowledgement_whose_text_is_no_utf8_is_refused() -> None:
    """Most answers to acknowledgements have no text, and are not looked through for one."""
    answer = commands.ack_response(3, CommandAck(request_id=9), PersistenceError, "\x7f\x7f")[8:].replace(
        b"\x7f", b"\xff"
    )
    assert parse_command(frame_of(answer.replace(b"\xff", b"a"))).ackResponse.message == "aa"
    with pytest.raises(FrameError, match="UTF-8"):
        parse_command(frame_of(answer))


def test_a_command_has_no_more_than_the_body_that_its_type_calls_for() -> None:
    """A CONNECT with 880,000 properties of a SUBSCRIBE stopped the event loop for a second, and kept 55 MiB."""
    connect = golden("python-consumer")[0][8:]
    parse_command(frame_of(connect + UNKNOWN_FIELD))
    other = BaseCommand()
    subscribe = other.subscribe
    subscribe.topic, subscribe.subscription, subscribe.subType = "orders", "s", subscribe.Key_Shared
    subscribe.consumer_id = subscribe.request_id = 1
    for _ in range(1_000):
        subscribe.metadata.add(key="", value="")
    unknown = b"\x82\x7d" + varint(2_000) + bytes(2_000)
    for besides in (other.SerializePartialToString(), unknown, connect[2:] * 50):
        with pytest.raises(FrameError, match="bytes besides 'connect'"):
            parse_command(frame_of(connect + besides))


def test_a_command_has_so_many_properties_at_most() -> None:
    """Each is looked at. Ids and hash ranges have no text and are not: a worker may have one of each slot."""
    lookup = BaseCommand(type=BaseCommand.LOOKUP)
    lookup.lookupTopic.topic, lookup.lookupTopic.request_id = "orders", 1
    for _ in range(MESSAGES_WITH_TEXT_MAX - 1):
        lookup.lookupTopic.properties.add(key="a", value="b")
    parse_command(frame_of(lookup.SerializeToString()))
    lookup.lookupTopic.properties.add(key="a", value="b")
    with pytest.raises(FrameError, match=f"more than {MESSAGES_WITH_TEXT_MAX} properties"):
        parse_command(frame_of(lookup.SerializeToString()))
    again = BaseCommand(type=BaseCommand.REDELIVER_UNACKNOWLEDGED_MESSAGES)
    again.redeliverUnacknowledgedMessages.consumer_id = 1
    for entry in range(70_000):
        again.redeliverUnacknowledgedMessages.message_ids.add(ledgerId=1, entryId=entry)
    parse_command(frame_of(again.SerializeToString()))


def test_an_error_says_what_where_and_what_would_be_right() -> None:
    """Whoever reads the log line can tell which bytes are wrong and what was expected; no payload is quoted."""
    with pytest.raises(FrameError) as caught:
        FrameSplitter(LIMIT).feed(struct.pack(">II", 20, 99) + b"secret")
    error = caught.value
    assert str(error) == f"{error.what}, {error.where}; {error.right}"
    assert (error.what, error.where) == ("a command size of 99", "in a frame of total size 20")
    assert "secret" not in str(error)
