"""A subscription's consumers at the broker, by stream: see `subscription_inflow`.

An ordinary subscription has one, under `WHOLE`. One that a group shares has as many as streams are leased to this
replica: none at first, and none again when all went to others, while its workers stay.

What is told of all of them in one word is a summary: the sum of permits and connects, the state and the error of the
first that is not ready.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.net.subscription.upstream import UpstreamState
from proxy.wire.messages import NO_EXTRAS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from proxy.net.subscription.inflow import Inflow
    from proxy.net.subscription.intake import Intake
    from proxy.net.subscription.settings import SubscriptionSettings
    from proxy.wire.messages import Extras


class Inflows:
    """Owner of the consumers of one subscription."""

    def __init__(self) -> None:
        """None yet."""
        self._inflows: dict[int, Inflow] = {}
        self._connects_before = self._budget_stops_before = 0
        """Of those that were taken away: what is counted never falls."""
        self.latest: Intake | None = None
        """The one that read last, also when its consumer is gone: see `extras`."""

    def __len__(self) -> int:
        """How many there are."""
        return len(self._inflows)

    def __iter__(self) -> Iterator[Inflow]:
        """All of them, as of now: they may come and go meanwhile."""
        return iter(list(self._inflows.values()))

    def get(self, stream: int) -> Inflow | None:
        """The one of this stream, if there is one."""
        return self._inflows.get(stream)

    def add(self, inflow: Inflow) -> None:
        """One more, of a stream that has none."""
        assert inflow.stream not in self._inflows, inflow.stream
        self._inflows[inflow.stream] = inflow

    def take(self, stream: int) -> Inflow:
        """Take the one of this stream away, to be closed; KeyError if there is none."""
        inflow = self._inflows.pop(stream)
        self._connects_before += inflow.upstream.connects
        self._budget_stops_before += inflow.window.budget_stops
        return inflow

    def first_ready(self) -> Inflow | None:
        """One by which the broker can be told something; None if it cannot be told now."""
        return next((inflow for inflow in self._inflows.values() if inflow.upstream.link is not None), None)

    def close(self, done: Callable[[], None] | None = None, *, tell_broker: bool = True) -> None:
        """End all of them for good; `done` when each is, see `Inflow.close`. They stay here, closed."""
        inflows = list(self)
        left = len(inflows) + 1

        def one_less() -> None:
            nonlocal left
            left -= 1
            if not left and done is not None:
                done()

        for inflow in inflows:
            inflow.close(one_less, tell_broker=tell_broker)
        one_less()

    def bound(self, settings: SubscriptionSettings) -> None:
        """An operator changed the subscription's limits."""
        for inflow in self:
            window = inflow.window
            window.budget_bytes = settings.subscription_memory_bytes
            window.look_ahead_per_worker = settings.look_ahead_messages_per_worker
            window.look_ahead_total = settings.look_ahead_messages_per_subscription

    # ---- all in one word --------------------------------------------------------------------------------------

    @property
    def queued_messages(self) -> int:
        """Messages that wait until they, or what came before them, are opened."""
        return sum(inflow.intake.queue.messages for inflow in self._inflows.values())

    @property
    def queued_bytes(self) -> int:
        """What these cost."""
        return sum(inflow.intake.queue.bytes_held for inflow in self._inflows.values())

    @property
    def extras(self) -> Extras:
        """What is common to the frames of all entries: as the broker last sent it, by whichever consumer."""
        return NO_EXTRAS if self.latest is None else self.latest.extras

    @property
    def stands(self) -> bool:
        """Whether one of those that are here has been subscribed ever."""
        return any(inflow.upstream.connects for inflow in self._inflows.values())

    @property
    def at_end_of_topic(self) -> bool:
        """Whether the topic is terminated, and read to its end by all that are here."""
        return bool(self._inflows) and all(inflow.at_end_of_topic for inflow in self._inflows.values())

    @property
    def behind(self) -> bool:
        """Whether the broker may have more for one of them than it was asked for; also where there is none."""
        return not self._inflows or any(inflow.behind for inflow in self._inflows.values())

    @property
    def state(self) -> UpstreamState:
        """Ready when all are, else that of the first that is not.

        Ready too without any: a replica that has no lease wants nothing of the broker, and pages nobody for it.
        """
        states = (inflow.upstream.state for inflow in self._inflows.values())
        ready = UpstreamState.READY
        return next((state for state in states if state is not ready), ready)

    @property
    def last_error(self) -> str:
        """Why the first of those is not subscribed that failed; empty if none did."""
        return next((inflow.upstream.last_error for inflow in self if inflow.upstream.last_error), "")

    @property
    def connects(self) -> int:
        """Times that one was subscribed."""
        return self._connects_before + sum(inflow.upstream.connects for inflow in self._inflows.values())

    @property
    def permits(self) -> int:
        """Messages granted and not arrived."""
        return sum(inflow.window.outstanding for inflow in self._inflows.values())

    @property
    def budget_stops(self) -> int:
        """Times a grant was refused because the bytes were spent."""
        return self._budget_stops_before + sum(inflow.window.budget_stops for inflow in self._inflows.values())
