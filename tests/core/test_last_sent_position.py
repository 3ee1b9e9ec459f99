"""PIP-282's last sent position: the worked example, the two issues, and a model that keeps the sent set."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from proxy.core.last_sent_position import format_ranges, individually_sent, last_sent_position
from proxy.core.positions import format_position, pack


def parse(text: str) -> int:
    """The position that the PIP writes so."""
    ledger, entry = text.split(":")
    return pack(int(ledger), int(entry))


def shown(highest_read: str, *unsent: str) -> tuple[str, str]:
    """Return last sent position and individually sent positions as the PIP prints them."""
    highest, waiting = parse(highest_read), [parse(text) for text in unsent]
    last = last_sent_position(highest, waiting)
    assert last is not None
    return format_position(last), format_ranges(individually_sent(highest, waiting))


def test_the_worked_example_comes_out_letter_for_letter() -> None:
    """Every step of the PIP's example shows the PIP's two lines, in whatever order what waits is given."""
    assert shown("3:0") == ("3:0", "[]")
    assert shown("3:10", "3:7", "3:4", "3:6") == ("3:3", "[(3:4, 3:5], (3:7, 3:10]]")
    assert shown("3:10", "3:4", "3:6") == ("3:3", "[(3:4, 3:5], (3:6, 3:10]]")
    assert shown("3:10", "3:4") == ("3:3", "[(3:4, 3:10]]")
    assert shown("3:10") == ("3:10", "[]")


def test_a_worker_joining_between_read_and_dispatch_is_given_the_position_sent() -> None:
    """Issue 1: of 1:6 to 1:11 read, 1:7 and 1:8 wait, and a joining worker may have nothing above 1:6."""
    assert shown("1:11", "1:7", "1:8") == ("1:6", "[(1:8, 1:11]]")


def test_a_message_without_permits_lies_above_the_last_sent_position() -> None:
    """Issue 2: 2:2 was read and not sent, so it may not go to the worker that joins now."""
    assert shown("2:2", "2:2") == ("2:1", "[]")


def test_nothing_read_is_no_position() -> None:
    """Before the first read there is neither a position nor a range, whatever waited before a seek."""
    for unsent in ([], [pack(1, 1)]):
        assert last_sent_position(-1, unsent) is None
        assert individually_sent(-1, unsent) == []


def test_what_lies_above_everything_read_says_nothing() -> None:
    """A seek back came between: the rest of before it is on its way out."""
    assert shown("3:5", "3:4", "7:0") == ("3:3", "[(3:4, 3:5]]")


def test_the_position_before_a_ledgers_first_entry_is_shown_as_minus_one() -> None:
    """4:-1 stands for "everything before 4:0": no entry lies between it and the last of ledger 3."""
    assert shown("4:0", "4:0") == ("4:-1", "[]")
    assert shown("4:1", "4:0") == ("4:-1", "[(4:0, 4:1]]")


@given(
    st.lists(st.sampled_from(["next", "skip", "new ledger"]), min_size=1, max_size=25),
    st.sets(st.integers(0, 24)),
)
def test_the_complement_says_what_the_sent_set_says(reads: list[str], waiting: set[int]) -> None:
    """For every position read, "at or below the last sent" and "individually sent" agree with the PIP's sets."""
    read, at = [], pack(1, -1)
    for step in reads:
        at = {"next": at + 1, "skip": at + 3, "new ledger": pack((at >> 40) + 1, 0)}[step]
        read.append(at)
    unsent = {position for index, position in enumerate(read) if index in waiting}
    below = [position for position in read if not any(lower <= position for lower in unsent)]
    last, ranges = last_sent_position(read[-1], unsent), individually_sent(read[-1], unsent)
    assert last is not None
    assert [position for position in read if position <= last] == below
    above = [position for position in read if position not in unsent and position not in below]
    assert [position for position in read if any(lower < position <= upper for lower, upper in ranges)] == above
