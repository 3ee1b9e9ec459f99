"""A replica that wants a group to deliver again: it asks until it is answered."""

from __future__ import annotations

import pytest

from proxy.groups.encoding import decode_message
from proxy.groups.messages import ReplayDone, ReplayTarget, ReplayWanted
from proxy.net.group.replays import AGAIN_S, GroupReplays
from tests.groups.rig import GROUP
from tests.net.fakes import FakeClock

PATIENCE_S = 10.0
TARGET = ReplayTarget(published_ms=5)


class Rig:
    """One replica, whose mail the test reads."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.asked: list[ReplayWanted] = []
        self.answers: list[str | None] = []
        self.replays = GroupReplays("here", self, self.clock, PATIENCE_S)

    def send(self, replica: str, data: bytes) -> None:
        """As `GroupMail` says."""
        pytest.fail(f"{replica} is asked, which may not lead any more: {data!r}")

    def send_all(self, data: bytes) -> None:
        """As `GroupMail` says."""
        message = decode_message(data)
        assert isinstance(message, ReplayWanted)
        self.asked.append(message)

    def ask(self) -> None:
        """An operator wants one."""
        self.replays.ask(GROUP, TARGET, self.answers.append)
        self.clock.advance(0.0)


def test_it_asks_again_until_it_is_answered() -> None:
    """With one number, so that a leader knows that it is one wish; an answer that comes twice does nothing."""
    rig = Rig()
    rig.ask()
    rig.clock.advance(2 * AGAIN_S)
    assert rig.asked == [ReplayWanted(GROUP, "here", 1, TARGET)] * 3
    rig.replays.heard(ReplayDone(GROUP, "there", 1, "not ours"))
    for _ in range(2):
        rig.replays.heard(ReplayDone(GROUP, "here", 1, None))
    rig.clock.advance(PATIENCE_S)
    assert rig.answers == [None]
    assert len(rig.asked) == 3
    rig.ask()
    assert rig.asked[-1].number == 2


def test_what_nobody_answers_is_not_known() -> None:
    """The operator is told so in the end; also if this replica stops before."""
    rig = Rig()
    rig.ask()
    rig.clock.advance(PATIENCE_S + AGAIN_S)
    rig.ask()
    rig.replays.close()
    unknown, stopped = rig.answers
    assert unknown is not None
    assert unknown.startswith("no leader has answered within 10 s")
    assert stopped is not None
    assert stopped.startswith("this replica stops")
    rig.clock.advance(PATIENCE_S)
    assert len(rig.answers) == 2
