"""One topic's election in relation to other replicas: its announcements, and how long it gives way.

It always announces its best producer, also during a hold (the owner is expected to return, or the broker reports
errors): a hold is short, and a promotion at another replica meanwhile would take a better producer's turn, or fence the
returning owner. But no election gives way for long to a producer that does not become the owner: its replica may hold
it, or wait for a broker that has forgotten it. So there is a patience, which is longer than any hold, and ends only
while no owner is known anywhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from proxy.net.alarm import Alarm
from proxy.producers.rivals import EXPIRY_S
from proxy.producers.standing import Place

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.net.election.rivals import ProducerRivals
    from proxy.net.ports import Clock
    from proxy.producers.election import Acts, Election


class TopicRivalry:
    """Of one topic."""

    def __init__(
        self,
        topic: str,
        election: Election[Any],
        clock: Clock,
        rivals: ProducerRivals,
        grace_s: float,
        do: Callable[[Acts[Any]], None],
    ) -> None:
        """`do` carries out what comes of it; `grace_s` is how long newcomers are held at most."""
        self._topic = topic
        self._election = election
        self._rivals = rivals
        self._patience_s = EXPIRY_S + grace_s
        self._do = do
        self._patience = Alarm(clock)
        election.hear(rivals.place(topic))

    def heard(self) -> None:
        """Something else is known of other replicas, or nothing any more."""
        self._do(self._election.hear(self._rivals.place(self._topic)))

    def closed(self) -> None:
        """The broker has closed the topic, as we see it: others may not."""
        self._rivals.tell_closed(self._topic)

    def fenced(self, epoch: int) -> None:
        """A producer connected here has taken the topic by fencing: a broker does not inform the former owner."""
        self._rivals.tell_fenced(self._topic, epoch)

    def closed_elsewhere(self) -> None:
        """The same, as others see it."""
        self._do(self._election.recall())

    def settled(self, *, owned: bool, epoch: int | None) -> None:
        """The effects of a change are complete; `owned` is whether a producer connected here owns the topic."""
        self._tell(owned=owned, epoch=epoch)
        if not self._election.outranked or self._election.elsewhere.owned or owned:
            self._patience.cancel()
        elif not self._patience.is_set:
            self._patience.set(self._patience_s, self._lose_patience)

    def close(self) -> None:
        """The election is over here."""
        self._patience.cancel()
        self._rivals.tell(self._topic, None)

    def _tell(self, *, owned: bool, epoch: int | None) -> None:
        best = self._election.best
        concerns = best is not None or (owned and self._election.elsewhere.best is not None)
        standing = None if best is None else self._election.standing(best)
        self._rivals.tell(self._topic, Place(standing, owned, epoch) if concerns else None)

    def _lose_patience(self) -> None:
        self._do(self._election.lose_patience())
