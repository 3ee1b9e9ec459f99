"""The broker's own queue of a topic: when an owner leaves, the broker promotes from it without asking anybody.

A waiting producer that is closed stays in that queue. When its turn comes, the broker raises the topic's epoch for it,
finds it gone and goes on with the next, whose epoch it writes 100 ms later if the first write is not quite over. One
that fences meanwhile gets the epoch after, and the late write sets the topic's epoch back: the same one is given once
more (seen with 4.0.7 and 4.2.4). So where somebody waits at the broker, or has left while waiting, an owner's leaving
counts as under way for some time after the broker has confirmed it. That is the broker's time: one that stood still
meanwhile (a long collection) has promoted none. So before a producer fences that has waited for this time, the broker
has to answer a question, and gets a moment more.

Source: `AbstractTopic.handleProducerRemoved`, `ServerCnx.handleCloseProducer`,
`ManagedLedgerImpl.asyncUpdateProperties`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from proxy.net.alarm import Alarm

if TYPE_CHECKING:
    from proxy.net.ports import Clock
    from proxy.producers.admission_lock import AdmissionLock

PROMOTION_S_MAX: Final = 0.8
"""Time for a promotion by the broker, after the owner has left. The producer may also wait for one that is connected
elsewhere, so a fencing producer waits no longer for it."""
AWAKE_S_MIN: Final = 0.2
"""More after the broker's answer: what was due while it stood still is done by then."""
ABANDONED_S_MAX: Final = 0.02
"""More for each that left while it waited, whose turn takes a broker some milliseconds."""
ABANDONED_MAX: Final = 200
"""So many of them are waited for: one that fences is not held up for long because others came and went for days."""


class BrokerQueue:
    """What the gateway has in it, and the time that the broker may need to promote it."""

    def __init__(self, clock: Clock, changes: AdmissionLock) -> None:
        """Nothing. `changes` are those of the topic's owner."""
        self._changes = changes
        self._promotions = Alarm(clock)
        self.in_doubt = False
        """The time for a promotion is over, and nothing was heard of it: the broker may have stood still."""
        self._abandoned = 0
        """Producers that left while they waited at the broker, which has them still."""

    @property
    def has_abandoned(self) -> bool:
        """Whether the broker has producers in it that have left."""
        return self._abandoned > 0

    def abandoned(self) -> None:
        """One left while it waited."""
        self._abandoned = min(self._abandoned + 1, ABANDONED_MAX)

    def emptied(self) -> None:
        """The broker has made somebody the owner who came after all of them, or has failed all of them."""
        self._abandoned = 0
        self.settled()

    def moves(self) -> None:
        """The broker may be promoting: no producer fences in that time, which begins anew with each call."""
        self._changes.join(self)
        self._promotions.set(PROMOTION_S_MAX + self._abandoned * ABANDONED_S_MAX, self._time_over)

    def settled(self) -> None:
        """What the broker promoted last is known."""
        self.in_doubt = False
        if self._promotions.is_set:
            self._promotions.cancel()
            self._changes.end(self)

    def doubt_over(self) -> None:
        """The broker has answered, and had a moment since."""
        self.in_doubt = False

    def _time_over(self) -> None:
        self.in_doubt = True
        self._changes.end(self)
