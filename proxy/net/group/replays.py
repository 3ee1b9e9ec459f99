"""This replica's replay requests to its groups' leaders, repeated until they are answered.

Source: issue "groups of replicas", point 5.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from proxy.groups.encoding import encode
from proxy.groups.messages import ReplayDone, ReplayTarget, ReplayWanted

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.groups.streams import GroupId
    from proxy.net.group.ports import GroupMail
    from proxy.net.ports import Clock, Timer

AGAIN_S: Final = 1.0
UNKNOWN: Final = "no leader has answered within {seconds:.0f} s; whether the cursor was moved is not known"


@dataclass(slots=True)
class _Asked:
    wanted: ReplayWanted
    answered: Callable[[str | None], None]
    until: float
    timer: Timer


class GroupReplays:
    """By number."""

    def __init__(self, replica: str, mail: GroupMail, clock: Clock, patience_s: float) -> None:
        """No requests. The leader, even a new one, has `patience_s` to answer."""
        self._replica = replica
        self._mail = mail
        self._clock = clock
        self._patience_s = patience_s
        self._asked: dict[int, _Asked] = {}
        self._numbers = 0

    def ask(self, group: GroupId, target: ReplayTarget, answered: Callable[[str | None], None]) -> None:
        """Ask the leader; `answered` gets the error later, or None."""
        self._numbers += 1
        wanted = ReplayWanted(group, self._replica, self._numbers, target)
        until = self._clock.now() + self._patience_s
        timer = self._clock.call_soon(lambda: self._say(wanted.number))
        self._asked[wanted.number] = _Asked(wanted, answered, until, timer)

    def heard(self, done: ReplayDone) -> None:
        """A leader has answered; once more, if an answer and a question met."""
        if done.asker == self._replica:
            self._end(done.number, done.problem)

    def close(self) -> None:
        """The replica stops; waiting requests get an error."""
        for number in list(self._asked):
            self._end(number, "this replica stops; whether the cursor will be moved is not known")

    def _say(self, number: int) -> None:
        asked = self._asked[number]
        if self._clock.now() >= asked.until:
            self._end(number, UNKNOWN.format(seconds=self._patience_s))
            return
        self._mail.send_all(encode(asked.wanted))
        asked.timer = self._clock.call_later(AGAIN_S, lambda: self._say(number))

    def _end(self, number: int, problem: str | None) -> None:
        asked = self._asked.pop(number, None)
        if asked is not None:
            asked.timer.cancel()
            asked.answered(problem)
