"""This replica's part in the deployment: one session from its start to its drain, and what everybody is told by it.

Every replica takes part with equal weight, whether it has workers or not: workers may come to any of them, and a
replica owns subscriptions for those of others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

from proxy.groups.bundles import deployment_of
from proxy.groups.encoding import encode
from proxy.groups.messages import SessionId
from proxy.net.group.member import GroupMember
from proxy.net.group.members import GroupPost
from proxy.net.group.streamed import StreamedSubscriptions
from proxy.net.group.topic import PulsarGroupTopic
from proxy.net.group.topic_name import group_topic_name
from proxy.net.owner.bundle_streams import BundleStreams
from proxy.net.owner.owners import Owners
from proxy.net.owner.shared_orders import SharedOrders
from proxy.net.owner.tail import OwnerTail

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.groups.memory import GroupMemory
    from proxy.groups.messages import OfReach
    from proxy.net.group.settings import GroupSettings
    from proxy.net.ports import Brokers, Clock
    from proxy.net.subscription.directory import Subscriptions

WEIGHT = 1
"""Of every replica; one that an operator drains has none."""

log = structlog.get_logger("keyline.owner")


class Deployment:
    """Owner of the group of all replicas, as far as it is here."""

    def __init__(self, replica: str, address: str, brokers: Brokers, clock: Clock, settings: GroupSettings) -> None:
        """`replica` names this process, and no process before it; `address` is where other replicas find it."""
        self.replica = replica
        timing = settings.timing()
        self.group = deployment_of(settings.group_deployment)
        topic = group_topic_name(settings.groups_namespace, self.group)
        self.post = GroupPost(settings.groups_namespace, replica, brokers, clock)
        """Of all groups of this replica."""
        self._mail = self.post.mail
        self.bundles = BundleStreams(clock, timing.send_s, self._opened, self._told)
        self.owners = Owners(replica, self.bundles, StreamedSubscriptions(settings))
        self.member = GroupMember(
            self.group, SessionId(replica, 1), settings.group_bundles, timing, clock, self._mail, self._ended
        )
        self.member.session.address = address
        self.post.members.add(self.member)
        self.bundles.serve(self.member)
        self._topic = PulsarGroupTopic(topic, brokers, clock, self.member, self.group)
        self._clock = clock
        self._orders: SharedOrders | None = None
        self._tail = OwnerTail(topic, replica, brokers, clock, self._learn)
        self._weight = WEIGHT
        self._started = False
        self._when_left: Callable[[], None] | None = None
        self._left = False

    def share_orders(self, subscriptions: Subscriptions) -> None:
        """Keep operators' orders for all replicas; before `start`."""
        self._orders = SharedOrders(self.replica, subscriptions, self._clock, self._tell_leader, self.group)

    def tell_reach(self, message: OfReach) -> None:
        """To the leader, and what is of an owner to that one too."""
        told = {self.member.session.leader: None}
        if message.owner != self.replica:
            told[message.owner] = None
        for replica in told:
            if replica is not None:
                self._mail.send(replica, encode(message, self.group))

    def start(self) -> None:
        """Take part."""
        self._mail.start()
        self._tail.open()
        self.member.join(self._topic, self.bundles, self._weight)
        self._started = True

    @property
    def drained(self) -> bool:
        """Whether an operator has ordered it to give away what it owns."""
        return not self._weight

    def drain(self, *, drained: bool) -> None:
        """Own nothing from now on, and lead workers to others; or take part again. It ends with the process."""
        self._weight = 0 if drained else WEIGHT
        if self._started:
            self.member.weigh(self._weight)

    def leave(self, left: Callable[[], None]) -> None:
        """Give everything back; `left` is called when nothing is here any more."""
        if self._left:
            left()
        else:
            self._when_left = left
            self.member.leave()

    def close(self) -> None:
        """Hear and say nothing more."""
        self.member.close()
        if self._orders is not None:
            self._orders.close()
        self.bundles.close()
        self._tail.close()
        self._topic.stop()
        self._mail.stop()

    def _learn(self, record: GroupMemory) -> None:
        if self._orders is not None:
            self._orders.learn(record)
        self.owners.learn(record)

    def _tell_leader(self, message: bytes) -> None:
        leader = self.member.session.leader
        if leader is not None:
            self._mail.send(leader, message)

    def _opened(self) -> None:
        self.owners.changed()

    def _told(self) -> None:
        version = self.member.session.version
        if version is not None:
            self._tail.expect(version)

    def _ended(self) -> None:
        self._left = True
        if self._when_left is not None:
            left, self._when_left = self._when_left, None
            left()
