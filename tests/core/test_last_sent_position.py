"""PIP-282's last sent position: the worked example, the two issues, and a model that keeps the sent set."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.core.last_sent_position import LEDGER_ENDS_KEPT, LastSentPosition, format_ranges
from proxy.core.positions import Position, format_position, pack, parse


def shown(positions: LastSentPosition) -> tuple[str, str]:
    """Return last sent position and individually sent positions as the PIP prints them."""
    assert positions.position is not None
    return format_position(positions.position), format_ranges(positions.individually_sent())


def read_all(positions: LastSentPosition, *texts: str) -> None:
    """Read positions in this order."""
    for text in texts:
        positions.read(parse(text))


def hold_all(positions: LastSentPosition, *texts: str) -> None:
    """Hold positions in this order."""
    for text in texts:
        positions.hold(parse(text))


def test_the_worked_example_comes_out_letter_for_letter() -> None:
    """Every step of the PIP's example shows the PIP's two lines."""
    positions = LastSentPosition(parse("3:0"))
    assert shown(positions) == ("3:0", "[]")
    read_all(positions, *(f"3:{entry}" for entry in range(1, 11)))
    hold_all(positions, "3:4", "3:6", "3:7")
    assert shown(positions) == ("3:3", "[(3:4, 3:5], (3:7, 3:10]]")
    positions.sent(parse("3:7"))
    assert shown(positions) == ("3:3", "[(3:4, 3:5], (3:6, 3:10]]")
    positions.sent(parse("3:6"))
    assert shown(positions) == ("3:3", "[(3:4, 3:10]]")
    positions.sent(parse("3:4"))
    assert shown(positions) == ("3:10", "[]")


def test_a_worker_joining_between_read_and_dispatch_is_given_the_position_sent() -> None:
    """Issue 1: of 1:6 to 1:11 read, 1:7 and 1:8 wait, and a joining worker may have nothing above 1:6."""
    positions = LastSentPosition(parse("1:5"))
    read_all(positions, "1:6", "1:7", "1:8", "1:9", "1:10", "1:11")
    hold_all(positions, "1:7", "1:8")
    assert shown(positions) == ("1:6", "[(1:8, 1:11]]")


def test_a_message_without_permits_lies_above_the_last_sent_position() -> None:
    """Issue 2: 2:2 was read and not sent, so it may not go to the worker that joins now."""
    positions = LastSentPosition()
    read_all(positions, "2:1", "2:2")
    positions.hold(parse("2:2"))
    assert shown(positions) == ("2:1", "[]")


def test_nothing_read_is_no_position() -> None:
    """Before the first read there is neither a position nor a range."""
    positions = LastSentPosition()
    assert positions.position is None
    assert positions.highest_read is None
    assert positions.individually_sent() == []


def test_the_position_before_a_ledgers_first_entry_is_the_last_one_read() -> None:
    """With 4:0 waiting, everything up to the last entry read of ledger 3 is sent."""
    positions = LastSentPosition(parse("3:4"))
    read_all(positions, "3:5", "4:0", "4:1")
    positions.hold(parse("4:0"))
    assert shown(positions) == ("3:5", "[(4:0, 4:1]]")


def test_the_position_before_a_ledgers_first_entry_is_shown_as_minus_one_where_unknown() -> None:
    """Nothing of an earlier ledger was read, so 4:-1 stands for "everything before 4:0"."""
    positions = LastSentPosition()
    positions.read(parse("4:0"))
    positions.hold(parse("4:0"))
    assert shown(positions) == ("4:-1", "[]")


def test_no_range_appears_between_the_end_of_a_ledger_and_the_next() -> None:
    """3:5 and 4:0 both wait and nothing lies between them, so nothing was sent between them."""
    positions = LastSentPosition(parse("3:4"))
    read_all(positions, "3:5", "4:0", "5:0", "5:1")
    hold_all(positions, "3:5", "4:0", "5:0")
    assert shown(positions) == ("3:4", "[(5:0, 5:1]]")
    positions.sent(parse("4:0"))
    assert shown(positions) == ("3:4", "[(3:5, 4:0], (5:0, 5:1]]")


def test_a_stuck_position_keeps_the_ledger_ends_above_it() -> None:
    """However many ledgers were read since 3:0 began to wait, the ranges above it end where those ledgers did."""
    positions = LastSentPosition()
    for ledger in range(3, 3 + 3 * LEDGER_ENDS_KEPT):
        read_all(positions, f"{ledger}:0", f"{ledger}:1")
        positions.hold(pack(ledger, 0))
    ranges = positions.individually_sent()
    assert ranges == [(pack(ledger, 0), pack(ledger, 1)) for ledger in range(3, 3 + 3 * LEDGER_ENDS_KEPT)]


def test_an_initial_position_before_a_ledger_is_kept() -> None:
    """A subscription that starts at the beginning of a ledger has sent everything before its first entry."""
    positions = LastSentPosition(parse("4:-1"))
    positions.read(parse("4:0"))
    positions.hold(parse("4:0"))
    assert shown(positions) == ("4:-1", "[]")


def test_a_redelivered_position_moves_nothing_back() -> None:
    """Reading a lower position again leaves the highest, and sending what never waited is harmless."""
    positions = LastSentPosition(parse("3:0"))
    read_all(positions, "3:1", "3:2", "3:1")
    positions.sent(parse("3:1"))
    assert shown(positions) == ("3:2", "[]")
    assert positions.highest_read == parse("3:2")


def test_what_waits_can_be_asked() -> None:
    """Held positions are counted once each, and named."""
    positions = LastSentPosition(parse("3:9"))
    hold_all(positions, "3:5", "3:5", "3:7")
    positions.sent(parse("3:7"))
    assert positions.held_count == 1
    assert positions.is_held(parse("3:5"))
    assert not positions.is_held(parse("3:7"))


def test_a_position_that_was_not_read_cannot_wait() -> None:
    """Holding what lies above everything read is a bug in the caller."""
    positions = LastSentPosition(parse("3:1"))
    with pytest.raises(AssertionError, match="3:2 is held and was not read"):
        positions.hold(parse("3:2"))


def test_one_stuck_position_does_not_let_others_pile_up() -> None:
    """While 3:0 waits for ever, a million others may wait and go: memory stays with what waits."""
    positions = LastSentPosition()
    read_all(positions, "3:0")
    positions.hold(parse("3:0"))
    for entry in range(1, 2_000):
        positions.read(pack(3, entry))
        positions.hold(pack(3, entry))
        positions.sent(pack(3, entry))
    assert len(positions._heap) < 100
    assert shown(positions) == ("3:-1", "[(3:0, 3:1999]]")


def test_ledgers_left_behind_are_forgotten_once_nothing_in_them_waits() -> None:
    """The remembered ends of ledgers are bounded by a constant and the ledgers above the lowest waiting position."""
    positions = LastSentPosition()
    for ledger in range(1_000):
        positions.read(pack(ledger, 0))
        positions.hold(pack(ledger, 0))
        positions.sent(pack(max(ledger - 3, 0), 0))
    assert len(positions._ledger_ends) <= LEDGER_ENDS_KEPT
    assert shown(positions)[0] == "996:0"


class SentSet:
    """The PIP's own representation: every position, and the set of those sent."""

    def __init__(self) -> None:
        """Start with nothing read."""
        self.reads: list[Position] = []
        self.waiting: set[Position] = set()

    def position(self) -> Position | None:
        """Return the highest position read such that nothing at or below it waits."""
        sent = [read for read in self.reads if not any(waiting <= read for waiting in self.waiting)]
        return sent[-1] if sent else None

    def individually_sent(self) -> list[Position]:
        """Return the positions sent above it."""
        last = self.position()
        return [read for read in self.reads if read not in self.waiting and (last is None or read > last)]


@given(
    st.lists(st.sampled_from(["next", "skip", "new ledger"]), min_size=1, max_size=25),
    st.lists(st.tuples(st.sampled_from(["hold", "sent"]), st.integers(0, 24)), max_size=40),
)
def test_the_complement_says_what_the_sent_set_says(reads: list[str], steps: list[tuple[str, int]]) -> None:
    """For every position read, "at or below the last sent" and "individually sent" agree with the PIP's sets."""
    positions, model, at = LastSentPosition(), SentSet(), pack(1, -1)
    for read in reads:
        at = {"next": at + 1, "skip": at + 3, "new ledger": pack((at >> 40) + 1, 0)}[read]
        positions.read(at)
        model.reads.append(at)
    for step, index in steps:
        position = model.reads[index % len(model.reads)]
        getattr(positions, step)(position)
        model.waiting = model.waiting | {position} if step == "hold" else model.waiting - {position}
        last, ranges = positions.position, positions.individually_sent()
        model_last = model.position()
        below = [read for read in model.reads if last is not None and read <= last]
        assert below == [read for read in model.reads if model_last is not None and read <= model_last]
        inside = [read for read in model.reads if any(lower < read <= upper for lower, upper in ranges)]
        assert inside == model.individually_sent()
        assert positions.held_count == len(model.waiting)
