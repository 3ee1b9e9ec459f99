"""Lets the broker look whether a suspected replica's consumers are alive, before the next one asks for their places.

Problem: an owner that stands still, or is cut off, keeps its consumer at the broker. A consumer beside it is refused
unless the broker finds the owner's connection dead, and for that it waits 5 s (`connectionLivenessCheckTimeoutMillis`),
which would begin only when the next owner asks. Rule: a replica whose clients consume at an owner asks as soon as its
connection to that is silent, or the leader says that it hears nothing of it, with a consumer of the same slots that
grants no permits. If the owner is well the broker refuses that within milliseconds, and nothing has happened. If its
connection is dead the broker lets the probe in 5 s later, and the probe leaves: the place is free for the next owner.
Of a subscription that direct workers share for now, the owner's `sentinel` is asked for instead.

Of a group's streams only the leader knows who has them, so its replica asks, for each of the silent replica's: they may
be on several connections (`upstream_connections_per_broker`), and the broker looks at them at the same time.

Nothing is delivered to such a consumer, and only a lease lets the next owner deliver: so G1 to G4 do not depend on it.

Source: Pulsar, `connectionLivenessCheckTimeoutMillis`; seen with 4.2.4 and 4.0.7 (`faults/test_owners_hung.py`,
`faults/test_streams_hung.py`).
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final, NamedTuple

import structlog

from proxy.groups.streams import hash_range
from proxy.net.broker.consumer import GatewayConsumer
from proxy.net.subscription.policy import is_migrating
from proxy.net.subscription.sentinel import sentinel_subscribe
from proxy.net.subscription.upstream import ALL_SLOTS, claim
from proxy.wire import pulsar_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Collection

    from proxy.core.hash_ranges import HashRange
    from proxy.core.positions import Position
    from proxy.net.group.member import GroupMember
    from proxy.net.ports import BrokerDirectory, Clock

    Key = tuple[str, str]

AGAIN_S: Final = 3.0
"""Before the same place is asked for again: an owner may stand still twice in a few seconds."""
PROBES_MAX: Final = 64
"""At a time: what a broker finds dead is a connection, with all that is consumed on it."""

log = structlog.get_logger("keyline.owner")


class Claim(NamedTuple):
    """What one consumer at the broker has to itself."""

    topic: str
    subscription: str
    slots: HashRange = ALL_SLOTS
    """Those of an owner by default."""


class HolderProbes:
    """Implements `broker.consumer.ConsumerOwner` for all of its probes."""

    def __init__(self, replica: str, brokers: BrokerDirectory, clock: Clock, migrating: Collection[str] = ()) -> None:
        """`replica` names the probes at the broker; `migrating` as `migrating_subscriptions` is configured."""
        self._migrating = migrating
        self._replica = replica
        self._brokers = brokers
        self._clock = clock
        self._consumed: dict[str, Counter[Key]] = {}
        """What clients of this replica consume at each other one, and how many consumers do."""
        self._asked_at: dict[Claim, float] = {}
        self._under_way: dict[GatewayConsumer, Claim] = {}

    def begun(self, owner: str, key: Key) -> None:
        """A client consumes a subscription there, of those that the broker keeps: of others a probe would make one."""
        self._consumed.setdefault(owner, Counter())[key] += 1

    def ended(self, owner: str, key: Key) -> None:
        """One consumer fewer."""
        consumed = self._consumed[owner]
        consumed[key] -= 1
        if not consumed[key]:
            del consumed[key]
        if not consumed:
            del self._consumed[owner]

    def suspect(self, owner: str) -> None:
        """Nothing is heard of it; to be said again while that lasts."""
        for key in list(self._consumed.get(owner, ())):
            self._probe(Claim(*key))

    def suspect_in(self, member: GroupMember, replica: str) -> None:
        """The same of a replica that has streams of a group; nothing if the leader of that is not here."""
        leader = member.manager.leader
        if leader is not None:
            for stream in leader.streams_of(replica):
                self._probe(Claim(*member.group, hash_range(stream, leader.streams_count)))

    # ---- ConsumerOwner

    def consumer_ready(self, consumer: GatewayConsumer) -> None:
        """The former consumer was dead; this one makes room for the next owner's."""
        self._under_way.pop(consumer, None)
        consumer.close()

    def consumer_received(self, consumer: GatewayConsumer, position: Position, payload: bytes) -> None:
        """It grants no permits."""

    def consumer_lost(self, consumer: GatewayConsumer, reason: str) -> None:
        """The owner's is alive; or the broker cannot be asked."""
        _ = reason
        self._under_way.pop(consumer, None)

    # ---- within

    def _probe(self, claimed: Claim) -> None:
        """Ask for a place, unless that was done just now."""
        now = self._clock.now()
        asked_just_now = now - self._asked_at.get(claimed, now - AGAIN_S) < AGAIN_S
        if asked_just_now or len(self._under_way) >= PROBES_MAX or claimed in self._under_way.values():
            return
        if len(self._asked_at) >= PROBES_MAX:
            self._asked_at = {each: at for each, at in self._asked_at.items() if now - at < AGAIN_S}
        self._asked_at[claimed] = now
        log.info("replica silent, its consumer is probed", **claimed._asdict())
        probe = GatewayConsumer(self._subscribe(claimed), self._brokers, self, fetches=False)
        self._under_way[probe] = claimed
        probe.open()

    def _subscribe(self, claimed: Claim) -> pb.CommandSubscribe:
        """Where to begin stays unsaid: the subscription is there, and its cursor stays where it is."""
        name = f"{self._replica}-probe"
        topic, subscription, slots = claimed
        if is_migrating((topic, subscription), self._migrating):
            return sentinel_subscribe((topic, subscription), name)
        subscribe = pb.CommandSubscribe(
            topic=topic,
            subscription=subscription,
            subType=pb.CommandSubscribe.Key_Shared,
            consumer_name=name,
            durable=True,
            force_topic_creation=False,
        )
        claim(subscribe, slots)
        return subscribe
