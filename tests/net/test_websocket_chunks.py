"""Messages in chunks, put together again: whole, twice, without an end, without a beginning, and too large."""

from __future__ import annotations

import pytest

from proxy.net.websocket import chunks
from proxy.net.websocket.chunks import WHOLE_S_MAX, Chunks
from proxy.net.websocket.message_position import WHOLE, MessagePosition
from proxy.net.websocket.opening import TooLargeError, read_entry
from proxy.wire.messages import NO_EXTRAS, MessageHead
from tests.net.fakes import FakeClock
from tests.net.websocket_rig import WebsocketRig, chunk, id_of, single


def place(entry: int, partition: int = 0) -> MessagePosition:
    """Where a chunk lies."""
    return MessagePosition(partition, 7, entry, WHOLE, 0)


class Rig:
    """Chunks of messages of three, six bytes each."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.discarded: list[MessagePosition] = []
        self.chunks = Chunks(self.clock, lambda places, _: self.discarded.extend(places))

    def add(
        self, entry: int, number: int, partition: int = 0, payload: bytes = b"123456"
    ) -> tuple[bytes, tuple[MessagePosition, ...]] | None:
        """One more."""
        head = MessageHead(0, 7, entry, 0, None, chunk(number, 3, payload), NO_EXTRAS)
        return self.chunks.add(read_entry(head, "t", partition))


def test_a_message_is_whole_with_its_last_chunk() -> None:
    """Its payload, and the places of the chunks before; nothing of it is left."""
    rig = Rig()
    assert (rig.add(0, 0, payload=b"a"), rig.add(3, 1, payload=b"b")) == (None, None)
    assert rig.add(5, 2, payload=b"c") == (b"abc", (place(0), place(3)))
    rig.clock.advance(WHOLE_S_MAX)
    assert not rig.discarded
    assert rig.clock.waiting == 0


def test_partitions_are_told_apart() -> None:
    """A producer numbers its messages anew in each, so the same name means another message there."""
    rig = Rig()
    for number in range(2):
        for partition in range(2):
            assert rig.add(number, number, partition, b"ab"[partition : partition + 1]) is None
    for partition in range(2):
        whole = b"ab"[partition : partition + 1] * 3
        assert rig.add(2, 2, partition, whole[:1]) == (whole, (place(0, partition), place(1, partition)))


def test_what_a_producer_sends_twice_is_acknowledged_and_used_once() -> None:
    """It reconnected in the middle. What is delivered again is the same chunk, and not acknowledged."""
    rig = Rig()
    for entry, number in ((0, 0), (1, 0), (2, 1), (0, 0), (3, 1)):
        assert rig.add(entry, number) is None
    assert rig.discarded == [place(1), place(3)]
    assert rig.add(4, 2) == (b"123456" * 3, (place(0), place(2)))


def test_what_is_never_whole_is_acknowledged_after_a_minute() -> None:
    """Its producer died; its key would wait for ever."""
    rig = Rig()
    rig.add(0, 0)
    rig.clock.advance(WHOLE_S_MAX - 1)
    rig.add(1, 1)
    assert not rig.discarded
    rig.clock.advance(1)
    assert rig.discarded == [place(0), place(1)]
    rig.add(2, 2)
    rig.clock.advance(WHOLE_S_MAX)
    assert rig.discarded == [place(0), place(1), place(2)], "an end without a beginning too"


def test_what_is_taken_back_is_forgotten_with_its_time() -> None:
    """Of one partition; halves and chunks without a beginning."""
    rig = Rig()
    rig.add(0, 0)
    rig.add(1, 0, 1)
    rig.add(5, 2)
    rig.chunks.forget(0)
    rig.clock.advance(WHOLE_S_MAX)
    assert rig.discarded == [place(1, 1)]


def test_what_is_too_large_is_refused_loudly(monkeypatch: pytest.MonkeyPatch) -> None:
    """By what is here together; what was whole holds no room."""
    monkeypatch.setattr(chunks, "CHUNKED_BYTES_MAX", 20)
    rig = Rig()
    for start in range(0, 30, 3):
        assert [rig.add(start + number, number) is None for number in range(3)] == [True, True, False]
    rig.add(40, 0, 0)
    rig.add(41, 0, 1)
    rig.add(42, 1, 0)
    with pytest.raises(TooLargeError, match="6 bytes; the limit is 20"):
        rig.add(43, 1, 1)


def test_a_message_that_is_too_large_closes_the_websocket(monkeypatch: pytest.MonkeyPatch) -> None:
    """Later messages of its key must not overtake it, and it must not be lost: another kind of client may read it."""
    monkeypatch.setattr(chunks, "CHUNKED_BYTES_MAX", 20)
    rig = WebsocketRig().join()
    rig.deliver(1, chunk(0, 2, b"x", total_chunk_msg_size=21))
    ((code, reason),) = rig.socket.closes
    assert (code, "the limit is 20" in reason) == (1009, True)
    assert not rig.take_acks()


def test_half_a_message_goes_back_with_what_goes_back() -> None:
    """Else its end, which comes again behind it, would be alone."""
    rig = WebsocketRig(nack_delay_s=1.0).join()
    rig.deliver(1, single())
    rig.deliver(2, chunk(0, 2, b"x"))
    rig.nack(id_of(1))
    rig.clock.advance(1)
    assert rig.take_redelivers() == [(0, [1, 2])]
