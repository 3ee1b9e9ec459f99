"""Candidates temporarily excluded from a topic's election, with the time each exclusion ends.

When the broker closes the topic's owner (an unload, a restart), the owner returns within moments, and a promotion of
another producer would use a new epoch and fence it: so new producers are held for a grace time. When the broker reports
an error of the topic rather than of a producer, the next is not asked at once: otherwise the whole queue would be
refused in a moment. An owner may return too early and be refused for such an error: the grace time then begins anew.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from proxy.net.alarm import Alarm
from proxy.producers.election import Hold
from proxy.wire import pulsar_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.net.ports import Clock
    from proxy.producers.election import Acts, Election

TOPIC_ERRORS: Final = frozenset({pb.ServiceNotReady, pb.MetadataError, pb.PersistenceError})
"""Errors of a broker that cannot serve the topic now, for any producer."""
ENDINGS: Final = frozenset({pb.TopicTerminatedError})
"""Errors that end every waiting producer. A broker returns them once, and lets the next producer wait forever."""
EXPECTED_S_MAX: Final = 300.0
"""Time for which an owner that the broker closed is remembered while no other producer waits."""
UNAVAILABLE_S_MIN: Final = 0.1
UNAVAILABLE_S_MAX: Final = 2.0
"""Back-off after an error of the broker; doubled at each consecutive error."""
REFUSED_S_MAX: Final = 30.0
"""Time from its first refusal for which an owner is waited for that is refused again and again."""
RETURN_TRIES_S: Final = (0.05, 0.1, 0.2)
"""Retries of a former owner: the broker may not have noticed yet that its old connection is closed."""


class ElectionBackOff:
    """The back-off of one topic's election."""

    def __init__(
        self,
        election: Election[Any],
        clock: Clock,
        grace_s: float,
        unsettled_until: float,
        do: Callable[[Acts[Any]], None],
    ) -> None:
        """`do` executes the effects of a hold's start or end.

        Until `unsettled_until` the gateway has not been up for long: earlier owners may still return.
        """
        self._election = election
        self._clock = clock
        self._grace_s = grace_s
        self._unsettled_until = unsettled_until
        self._do = do
        self._tries = 0
        self._failures = 0
        self._expected_until: float | None = None
        """Until when the owner that the broker closed is remembered; None if none is expected."""
        self._refused_until: float | None = None
        """Until when an owner that is refused again and again is waited for; None if none was refused."""
        self._newcomers_until = 0.0
        """Until when new producers are held, also while all are held for a shorter time."""
        self._timer = Alarm(clock)

    @property
    def idle(self) -> bool:
        """Whether there is no hold that will end."""
        return not self._timer.is_set

    @property
    def unsettled(self) -> bool:
        """Whether owners from before the gateway's start may still return."""
        return self._clock.now() < self._unsettled_until

    def owner_closed(self) -> None:
        """The broker closed the topic's owner, which is expected to return."""
        if self._grace_s:
            self._expected_until = self._clock.now() + EXPECTED_S_MAX
            self._hold(Hold.NEWCOMERS, self._grace_s if self._election.waiting else EXPECTED_S_MAX)

    def newcomer(self, *, unsettled: bool) -> None:
        """A producer arrives: from now on the grace time of a returning owner runs, also of an unknown one."""
        if self._expected_until is not None and self._election.held is Hold.NEWCOMERS:
            if not self._election.waiting:
                self._hold(Hold.NEWCOMERS, self._grace_s)
        elif unsettled and self._election.idle and self._election.held is Hold.NONE:
            self._hold(Hold.NEWCOMERS, self._unsettled_until - self._clock.now())

    def try_again(self) -> bool:
        """Hold all producers until a refused former owner is retried; False after the last retry."""
        if self._tries >= len(RETURN_TRIES_S):
            return False
        self._hold(Hold.ALL, RETURN_TRIES_S[self._tries])
        self._tries += 1
        return True

    def refused(self) -> None:
        """A refused producer will not be retried."""
        self._tries = 0

    def unavailable(self, *, returning: bool) -> None:
        """The broker cannot serve the topic now, as it told one that is `returning` or not."""
        self._failures += 1
        if returning:
            now = self._clock.now()
            self._refused_until = self._refused_until or now + REFUSED_S_MAX
            self._newcomers_until = min(now + self._grace_s, self._refused_until)
        self._hold(Hold.ALL, min(UNAVAILABLE_S_MIN * 2 ** (self._failures - 1), UNAVAILABLE_S_MAX))

    def promoted(self) -> None:
        """The topic has an owner: no return is expected, and errors are over."""
        self._tries = self._failures = 0
        self._refused_until = None
        self.release()

    def release(self) -> None:
        """End every hold."""
        self.stop()
        self._expected_until = None
        self._newcomers_until = 0.0
        self._let_go()

    def stop(self) -> None:
        """Cancel the end of a hold."""
        self._timer.cancel()

    def _hold(self, held: Hold, delay_s: float) -> None:
        if held is Hold.NEWCOMERS:
            self._newcomers_until = self._clock.now() + delay_s
        self._timer.set(delay_s, self._let_go)
        self._do(self._election.hold(held))

    def _let_go(self) -> None:
        """The best producer is promoted, even if the owner has not returned; a new one only after the grace time.

        If the queue is empty, the owner is still expected: a restart of a broker also disconnects waiting producers,
        and the grace time starts with the first one that returns.
        """
        now = self._clock.now()
        left_s = 0.0 if self._expected_until is None else self._expected_until - now
        if left_s > 0 and self._election.idle:
            self._hold(Hold.NEWCOMERS, left_s)
            return
        grace_left_s = min(self._newcomers_until - now, self._grace_s)
        if grace_left_s > 0 and self._election.held is Hold.ALL:
            self._hold(Hold.NEWCOMERS, grace_left_s)
            return
        self._expected_until = None
        self._do(self._election.hold(Hold.NONE))
