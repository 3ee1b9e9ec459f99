"""Moves the cursor of a group's subscription while no replica consumes it.

A consumer of all slots requests it, so that the broker refuses if another consumer still has one of them. It asks some
times: one that has a stream's place for a moment may be there to make room (`holder_probes`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from proxy.net.alarm import Alarm
from proxy.net.broker.consumer import GatewayConsumer
from proxy.net.message_ids import UINT64_MAX
from proxy.net.subscription.upstream import ALL_SLOTS, claim
from proxy.wire import pulsar_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.core.positions import Position
    from proxy.groups.messages import ReplayTarget
    from proxy.groups.streams import GroupId
    from proxy.net.ports import BrokerDirectory, Clock, Timer

ANSWER_S_MAX: Final = 15.0
"""A broker that moves a cursor by time looks for the message first."""
TRIES: Final = 3
AGAIN_S: Final = 0.5
"""Between two of them."""


class GroupReposition:
    """Implements `broker.consumer.ConsumerOwner`. Made for one move."""

    def __init__(
        self,
        group: GroupId,
        target: ReplayTarget,
        brokers: BrokerDirectory,
        clock: Clock,
        done: Callable[[str | None], None],
    ) -> None:
        """`done` is called once, with the error or None; `begin` begins."""
        self._target = target
        self._done = done
        self._over = False
        self._asked = False
        self._tries = 0
        self._again = Alarm(clock)
        self._brokers = brokers
        self._timer: Timer = clock.call_later(ANSWER_S_MAX, self._too_late)
        self._subscribe = subscribe = pb.CommandSubscribe(
            topic=group.topic,
            subscription=group.subscription,
            subType=pb.CommandSubscribe.Key_Shared,
            consumer_name="keyline-replay",
        )
        claim(subscribe, ALL_SLOTS)
        self._consumer: GatewayConsumer | None = None

    def begin(self) -> None:
        """Ask the broker."""
        self._tries += 1
        self._consumer = GatewayConsumer(self._subscribe, self._brokers, self, fetches=False)
        self._consumer.open()

    def close(self) -> None:
        """No result is wanted any more."""
        self._over = True
        self._timer.cancel()
        self._again.cancel()
        if self._consumer is not None:
            self._consumer.close()

    def consumer_ready(self, consumer: GatewayConsumer) -> None:
        """As it says."""
        self._asked = True
        consumer.seek(_seek(self._target), self._end)

    def consumer_received(self, consumer: GatewayConsumer, position: Position, payload: bytes) -> None:
        """It has no permits."""

    def consumer_lost(self, consumer: GatewayConsumer, reason: str) -> None:
        """As it says: also because the broker is about to move the cursor, and will say so."""
        if self._asked:
            return
        if consumer.error_code == pb.ConsumerAssignError and self._tries < TRIES:
            self._again.set(AGAIN_S, self.begin)
        else:
            self._end(reason)

    def _too_late(self) -> None:
        self._end(f"the broker did not answer within {ANSWER_S_MAX:.0f} s; whether the cursor was moved is not known")

    def _end(self, problem: str | None) -> None:
        if not self._over:
            self.close()
            self._done(problem)


def _seek(target: ReplayTarget) -> pb.CommandSeek:
    seek = pb.CommandSeek()
    if target.position is not None:
        ledger, entry = target.position
        # Negative ones are those of a client's "earliest"; on the wire they are unsigned.
        seek.message_id.ledgerId, seek.message_id.entryId = ledger & UINT64_MAX, entry & UINT64_MAX
    else:
        assert target.published_ms is not None
        seek.message_publish_time = target.published_ms
    return seek
