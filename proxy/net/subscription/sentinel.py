"""Lets a broker find out that the owner of a migrating subscription is dead, before the keep-alive does.

Problem: a broker looks whether a consumer's connection lives when another consumer wants its place
(`connectionLivenessCheckTimeoutMillis`, 5 s). Beside direct workers an owner consumes with AUTO_SPLIT, where there is
place for all: so an owner that hangs keeps its share of the keys until the broker's keep-alive, about a minute. Rule:
on the connection of that consumer the owner has one more, the sentinel, of type Exclusive. A replica that suspects the
owner asks for the sentinel's place. If the owner is well, the broker refuses that within milliseconds; if its
connection is dead, the broker closes it 5 s later, and both consumers end with it.

The sentinel's subscription is the same topic's, because only that is at the same broker for certain; why not a
producer: the gateway may not be allowed to produce there. It is not durable, so it holds no message back and goes with
its consumer. It is given no messages. Its cursor follows the topic, so that operators see no backlog grow.

A client may take the sentinel's place, if it may consume the topic. Then things are as without a sentinel.

Source: Pulsar, `AbstractDispatcherSingleActiveConsumer.addConsumer`; seen with 4.2.4 and 4.0.7
(`tests/integration/test_owners_killed.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import structlog

from proxy.net.alarm import Alarm
from proxy.net.broker.consumer import GatewayConsumer
from proxy.wire import pulsar_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.core.positions import Position
    from proxy.net.ports import BrokerLink, Clock

SUFFIX: Final = "-keyline-owner"
"""Behind the name of the subscription, which a namespace may oblige to begin with the role (`subscriptionAuthMode`)."""
AGAIN_S: Final = 2.0
"""Before a sentinel that was refused or lost is tried again; its connection may be about to go."""
AGAIN_S_MAX: Final = 60.0
"""The pause doubles up to this while it is refused again and again: it may not be allowed, now or ever."""
FOLLOW_S: Final = 30.0
"""How far the cursor is behind the newest message that came here."""
LATEST: Final = (1 << 63) - 1
"""Ledger and entry of the end of a topic, as clients name it."""

log = structlog.get_logger("keyline.owner")


class Sentinel:
    """Implements `broker.consumer.ConsumerOwner`."""

    def __init__(
        self,
        key: tuple[str, str],
        replica: str,
        clock: Clock,
        link: Callable[[], BrokerLink | None],
        highest: Callable[[], Position],
    ) -> None:
        """Of a subscription, by topic and name.

        `link` is the connection of the owner's consumer, None while that has none; `highest` the newest position that
        has come there, negative before the first.
        """
        self._key = key
        self._replica = replica
        self._link = link
        self._highest = highest
        self._followed = -1
        self._consumer: GatewayConsumer | None = None
        self._timer = Alarm(clock)
        self._again_s = AGAIN_S
        """Before the next try; longer than at first once it was refused."""

    def stand(self) -> None:
        """Stand on the connection that the owner's consumer has now, and nowhere else."""
        self._again_s = AGAIN_S
        self._try()

    def _try(self) -> None:
        self.leave()
        link = self._link()
        if link is not None:
            subscribe = sentinel_subscribe(self._key, self._replica)
            self._consumer = GatewayConsumer(subscribe, _Here(link), self, fetches=False)
            self._consumer.open()

    def leave(self) -> None:
        """The owner's consumer goes; harmless once more."""
        self._timer.cancel()
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None

    # ---- ConsumerOwner

    def consumer_ready(self, consumer: GatewayConsumer) -> None:
        """Others may ask for its place now."""
        _ = consumer
        self._again_s = AGAIN_S
        self._follow_later()

    def consumer_received(self, consumer: GatewayConsumer, position: Position, payload: bytes) -> None:
        """It grants no permits."""

    def consumer_lost(self, consumer: GatewayConsumer, reason: str) -> None:
        """The former owner's may be there still; or the connection has gone, then `stand` follows."""
        _ = consumer
        self.leave()
        if self._again_s == AGAIN_S:
            log.info("sentinel refused or lost", topic=self._key[0], subscription=self._key[1], reason=reason)
        self._timer.set(self._again_s, self._try)
        self._again_s = min(2 * self._again_s, AGAIN_S_MAX)

    # ---- within

    def _follow(self) -> None:
        highest = self._highest()
        if highest > self._followed and self._consumer is not None:
            self._followed = highest
            self._consumer.acknowledge_up_to(highest)
        self._follow_later()

    def _follow_later(self) -> None:
        self._timer.set(FOLLOW_S, self._follow)


class _Here:
    """Implements `ports.BrokerDirectory`: the broker of one connection."""

    def __init__(self, link: BrokerLink) -> None:
        self._link = link

    def locate(self, topic: str, found: Callable[[BrokerLink | Exception], None]) -> None:
        """As the port says, at once."""
        _ = topic
        found(self._link)


def sentinel_subscribe(key: tuple[str, str], consumer_name: str) -> pb.CommandSubscribe:
    """The SUBSCRIBE of a sentinel, or for its place, without ids."""
    topic, subscription = key
    subscribe = pb.CommandSubscribe(
        topic=topic,
        subscription=subscription + SUFFIX,
        subType=pb.CommandSubscribe.Exclusive,
        consumer_name=consumer_name,
        durable=False,
        initialPosition=pb.CommandSubscribe.Latest,
        force_topic_creation=False,
    )
    subscribe.start_message_id.ledgerId = subscribe.start_message_id.entryId = LATEST
    return subscribe
