"""The connection in memory between a session and a WebSocket's worker."""

from __future__ import annotations

from proxy.net.frames_in_slices import FEW, FramesInSlices
from proxy.net.slices import SLICE_S, Slices
from proxy.net.websocket.pipe import Pipe
from proxy.wire import commands
from proxy.wire.frames import FrameSplitter
from tests.net.fakes import FakeClock
from tests.net.websocket_rig import MAX_FRAME_BYTES, FakeSession, T


class Ends(FakeSession):
    """Both ends of a pipe, and what happened in which order."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = FakeClock()
        self.told: list[object] = []
        self.pipe = Pipe(self.clock, "192.0.2.9:1")
        self.pipe.open(self, self)

    def frames(self, frames: list[bytes]) -> None:
        """As the client's port says."""
        self.told += frames

    def ended(self, reason: str) -> None:
        """As the client's port says."""
        self.told.append(reason)


PING, PONG = commands.ping(), commands.pong()


def test_nothing_passes_at_once_and_all_in_order() -> None:
    """Neither side is called from within its own call; frames are whole at the client, however they were written."""
    ends = Ends()
    for piece in (PING[:3], PING[3:] + PONG[:5], PONG[5:]):
        ends.pipe.write(piece)
    ends.pipe.send(PING)
    ends.pipe.send(PONG)
    assert (ends.told, ends.commands) == ([], [])
    ends.clock.settle()
    assert ends.told == [PING, PONG]
    assert [command.type for command in ends.commands] == [T.PING, T.PONG]
    assert ends.pipe.peer == "192.0.2.9:1"


def test_who_leaves_has_said_all_that_it_said() -> None:
    """However much that is: in reads of which none waits for its turn of the loop, as the end would not.

    Acknowledgements that were dropped with their connection would be delivered again.
    """
    ends = Ends()
    slices = Slices(ends.clock)
    taken: list[bytes] = []

    def sort(incoming: list[bytes], end: float) -> int:
        for number, frame in enumerate(incoming, 1):
            taken.append(frame)
            ends.clock.oversleep(SLICE_S)
            if ends.clock.now() >= end:
                return number
        return len(incoming)

    frames = FramesInSlices(slices, sort, lambda: None, lambda: None)
    splitter = FrameSplitter(MAX_FRAME_BYTES)
    ends.received = lambda data: frames.take(splitter.feed(data))  # type: ignore[method-assign]
    for _ in range(10 * FEW):
        ends.pipe.send(PING)
    ends.pipe.leave("had enough")
    ends.clock.turn()
    assert taken == [PING] * 10 * FEW


def test_a_close_comes_behind_what_was_written() -> None:
    """Both sides hear of it, once, and what is written later is dropped."""
    ends = Ends()
    ends.pipe.write(PING)
    ends.pipe.send(PONG)
    ends.pipe.close()
    ends.pipe.close()
    ends.pipe.write(PONG)
    assert (ends.told, ends.ends) == ([], [])
    ends.clock.settle()
    assert ends.told == [PING, "closed by the gateway"]
    assert (len(ends.commands), len(ends.ends)) == (1, 1)


def test_an_abort_drops_what_was_written() -> None:
    """The client hears of the end alone."""
    ends = Ends()
    ends.pipe.write(PING)
    ends.pipe.abort()
    ends.clock.settle()
    assert ends.told == ["closed by the gateway"]


def test_who_leaves_hears_nothing_more() -> None:
    """The session gets what was sent before, and the reason."""
    ends = Ends()
    ends.pipe.write(PING)
    ends.pipe.send(PONG)
    ends.pipe.leave("had enough")
    ends.clock.settle()
    assert (ends.told, ends.ends) == ([], ["had enough"])
    assert [command.type for command in ends.commands] == [T.PONG]


def test_paused_reading_holds_the_client_s_bytes_back() -> None:
    """The other direction goes on; when reading goes on, all comes in order."""
    ends = Ends()
    ends.pipe.pause_reading()
    ends.pipe.send(PING)
    ends.pipe.write(PONG)
    ends.clock.settle()
    assert (ends.commands, ends.told) == ([], [PONG])
    ends.pipe.send(PONG)
    ends.pipe.resume_reading()
    assert ends.commands == []
    ends.clock.settle()
    assert [command.type for command in ends.commands] == [T.PING, T.PONG]


def test_only_changes_of_writability_are_told() -> None:
    """And none after the end."""
    ends = Ends()
    for writable in (True, False, False, True):
        ends.pipe.set_writable(writable)
        assert ends.pipe.writable == writable
    ends.pipe.close()
    ends.pipe.set_writable(False)
    assert ends.writability == [False, True]


def test_a_fault_at_one_end_ends_both() -> None:
    """Neither may be left waiting for the other."""

    class Faulty(Ends):
        def frames(self, frames: list[bytes]) -> None:
            super().frames(frames)
            raise RuntimeError("a fault")

    ends = Faulty()
    ends.pipe.write(PING)
    ends.clock.settle()
    assert (len(ends.ends), len(ends.told)) == (1, 2)


def test_what_the_gateway_writes_is_not_too_large() -> None:
    """A slice of a batch is not compressed any more, and larger than any client may send."""
    frame = (MAX_FRAME_BYTES + 100).to_bytes(4, "big") + PING[4:] + bytes(MAX_FRAME_BYTES + 100 - len(PING) + 4)
    ends = Ends()
    ends.pipe.write(frame)
    ends.clock.settle()
    assert ends.told == [frame]
