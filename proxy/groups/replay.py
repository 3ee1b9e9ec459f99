"""A group's replay from another position: all streams stop, the cursor is moved, all continue.

Problem: all replicas share one cursor, and a move during deliveries would mix old messages with new ones. Rule: it is
moved while no replica has a stream. So a worker's messages of a key were acknowledged, or released at the deadline as
in any hand-over, before the first message from the new position arrives.

Source: issue "groups of replicas", point 5; EIP-0028 leaves it to the implementation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from proxy.groups.messages import ReplayDone, ReplayTarget, ReplayWanted

if TYPE_CHECKING:
    from proxy.groups.timing import GroupTiming


@dataclass(frozen=True, slots=True)
class Reposition:
    """Move the subscription's cursor, which no replica consumes now; then call `repositioned`."""

    target: ReplayTarget


@dataclass(frozen=True, slots=True)
class Answer:
    """Let this reach the replica that asked."""

    message: ReplayDone


ReplayAct: TypeAlias = Reposition | Answer


class GroupReplay:
    """What a leader knows of replays: one at a time, and how the last one ended."""

    def __init__(self, timing: GroupTiming) -> None:
        """No replay is requested."""
        self._timing = timing
        self._wanted: ReplayWanted | None = None
        self._until = 0.0
        self._last: ReplayDone | None = None
        self.moving = False
        """Whether the cursor is being moved: no session may have a stream."""

    @property
    def under_way(self) -> bool:
        """Whether all sessions must release all streams."""
        return self._wanted is not None

    def want(self, wanted: ReplayWanted, now: float) -> list[ReplayAct]:
        """A replica asks; it asks again until it is answered."""
        if self._last is not None and _is_same(self._last, wanted):
            return [Answer(self._last)]
        if self._wanted is None:
            self._wanted = wanted
            self._until = now + self._timing.replay_s
            return []
        if _is_same(self._wanted, wanted):
            return []
        return [_answer(wanted, "another replay of this group is under way; wait for its end")]

    def free(self, *, free: bool, had: str, now: float) -> list[ReplayAct]:
        """Whether no session has a stream any more; `had` describes the owners."""
        if self._wanted is None or self.moving:
            return []
        if free:
            self.moving = True
            return [Reposition(self._wanted.target)]
        if now >= self._until:
            return self._end(f"not every stream was released within {self._timing.replay_s:.0f} s: {had}")
        return []

    def repositioned(self, problem: str | None) -> list[ReplayAct]:
        """The cursor was moved, or could not be; an unrequested result is from an earlier leader's request."""
        if not self.moving:
            return []
        self.moving = False
        return self._end(problem)

    def _end(self, problem: str | None) -> list[ReplayAct]:
        assert self._wanted is not None
        answer = _answer(self._wanted, problem)
        self._last, self._wanted = answer.message, None
        return [answer]


def _is_same(one: ReplayWanted | ReplayDone, other: ReplayWanted) -> bool:
    """Whether both are of one wish."""
    return (one.asker, one.number) == (other.asker, other.number)


def _answer(wanted: ReplayWanted, problem: str | None) -> Answer:
    return Answer(ReplayDone(wanted.group, wanted.asker, wanted.number, problem))
