"""Whom a topic's election does not ask for at present, and until when.

When the broker takes the topic from its owner (an unload, a restart), the owner comes back within moments, and
everybody else would spend its epoch and fence it: so newcomers are held for a grace. When the broker has trouble with
the topic rather than with a producer, the next is not asked at once: in a moment all would have been refused who have
a place in the queue.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from proxy.producers.election import Hold

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.net.ports import Clock, Timer
    from proxy.producers.election import Acts, Election

EXPECTED_S_MAX: Final = 300.0
"""How long an owner that the broker closed is remembered while nobody else wants the topic."""
TROUBLE_S_MIN: Final = 0.1
TROUBLE_S_MAX: Final = 2.0
"""How long nobody is asked for after the broker had trouble; doubled each time in a row."""
RETURN_TRIES_S: Final = (0.05, 0.1, 0.2)
"""When a former owner is tried again: the broker may not have noticed yet that its old connection is closed."""


class ElectionHolds:
    """Of one topic."""

    def __init__(
        self,
        election: Election[Any],
        clock: Clock,
        grace_s: float,
        unsettled_until: float,
        do: Callable[[Acts[Any]], None],
    ) -> None:
        """`do` carries out what comes of a hold's beginning or end.

        Until `unsettled_until` the gateway has not been up for long: owners of before it are still coming back.
        """
        self._election = election
        self._clock = clock
        self._grace_s = grace_s
        self._unsettled_until = unsettled_until
        self._do = do
        self._tries = 0
        self._troubles = 0
        self._expected_until: float | None = None
        """How long the owner is remembered that the broker closed; None if nobody is expected."""
        self._timer: Timer | None = None

    @property
    def idle(self) -> bool:
        """Whether nothing is held that will be let go."""
        return self._timer is None

    @property
    def unsettled(self) -> bool:
        """Whether owners of before the gateway's start may still come back."""
        return self._clock.now() < self._unsettled_until

    def owner_closed(self) -> None:
        """The broker took the topic from its owner, which is expected back."""
        if self._grace_s:
            self._expected_until = self._clock.now() + EXPECTED_S_MAX
            self._hold(Hold.NEWCOMERS, self._grace_s if self._election.waiting else EXPECTED_S_MAX)

    def newcomer(self, *, unsettled: bool) -> None:
        """One comes: from now on an owner that may come back has so long, also one that nothing is known of yet."""
        if self._expected_until is not None and self._election.held is Hold.NEWCOMERS:
            if not self._election.waiting:
                self._hold(Hold.NEWCOMERS, self._grace_s)
        elif unsettled and self._election.idle and self._election.held is Hold.NOBODY:
            self._hold(Hold.NEWCOMERS, self._unsettled_until - self._clock.now())

    def try_again(self) -> bool:
        """Hold everybody until a former owner that was refused is tried again; False after some times."""
        if self._tries >= len(RETURN_TRIES_S):
            return False
        self._hold(Hold.EVERYBODY, RETURN_TRIES_S[self._tries])
        self._tries += 1
        return True

    def refused(self) -> None:
        """One that was asked for will not be tried again."""
        self._tries = 0

    def trouble(self) -> None:
        """The broker cannot serve the topic at present."""
        self._troubles += 1
        self._hold(Hold.EVERYBODY, min(TROUBLE_S_MIN * 2 ** (self._troubles - 1), TROUBLE_S_MAX))

    def promoted(self) -> None:
        """Somebody owns the topic: nobody is expected back, and there is no trouble."""
        self._tries = self._troubles = 0
        self.release()

    def release(self) -> None:
        """Hold nobody any more."""
        self.stop()
        self._expected_until = None
        self._let_go()

    def stop(self) -> None:
        """Let nobody go any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _hold(self, held: Hold, delay_s: float) -> None:
        self.stop()
        self._timer = self._clock.call_later(delay_s, self._let_go)
        self._do(self._election.hold(held))

    def _let_go(self) -> None:
        """Whoever is the best is asked for, also if the owner has not come back.

        If nobody is there the owner is expected still: a broker that restarts takes those that wait with it, and the
        grace begins with the first to be back.
        """
        self._timer = None
        left_s = 0.0 if self._expected_until is None else self._expected_until - self._clock.now()
        if left_s > 0 and self._election.idle:
            self._hold(Hold.NEWCOMERS, left_s)
            return
        self._expected_until = None
        self._do(self._election.hold(Hold.NOBODY))
