"""All replicas in owner mode as one of them knows them, as frozen values for the admin API."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from proxy.errors import Conflict, NotFound
from proxy.groups.kept_orders import names_of

if TYPE_CHECKING:
    from proxy.net.owner.deployment import Deployment
    from proxy.net.owner.door import ReplicaDoor
    from proxy.net.ports import Clock
    from proxy.net.server_statistics import ServerStatistics


@dataclass(frozen=True, slots=True)
class ReplicaShare:
    """What a replica has, by the group's last record."""

    replica: str
    address: str
    """Where other replicas find it."""
    bundles: int


@dataclass(frozen=True, slots=True)
class DeploymentStatistics:
    """Everything at this moment."""

    replica: str
    """This one."""
    state: str
    """Of its session: it delivers in `replaying` and `updating`."""
    lease_left_s: float
    leader: str | None
    epoch: int
    """Of the leader that wrote the last record."""
    bundles_count: int
    """Into how many parts all subscriptions are divided; 0 before the first record."""
    bundles_without_owner: int
    replicas: tuple[ReplicaShare, ...]
    """All of them, by name."""
    drained: bool
    """Whether an operator has ordered this replica to own nothing."""
    bundles_here: int
    bundles_leaving: int
    """Bundles that this replica has, and releases."""
    subscriptions_here: int
    """Subscriptions that it serves as their owner."""
    handed_over_total: int
    """Subscriptions that it has handed over."""
    handed_over_undrained_total: int
    """Of these, those of which workers had something still."""
    legs_accepted_total: int
    """Connections that other replicas opened for their clients."""
    connections_refused_total: int
    """Connections to the replicas' port that did not prove to be a replica's."""


@dataclass(frozen=True, slots=True)
class DeploymentSummary:
    """This replica's part in numbers; all 0 in any other mode."""

    leads: bool = False
    epoch: int = 0
    replicas: int = 0
    lease_left_s: float = 0.0
    drained: bool = False
    bundles_here: int = 0
    bundles_leaving: int = 0
    bundles_without_owner: int = 0
    subscriptions_here: int = 0
    handed_over_total: int = 0
    handed_over_undrained_total: int = 0
    legs_here: int = 0
    """Connections of other replicas' clients that are open here."""
    legs_accepted_total: int = 0
    legs_received_bytes_total: int = 0
    """From other replicas' clients: acknowledgements and requests, mostly."""
    connections_unproven: int = 0
    connections_refused_total: int = 0


NO_DEPLOYMENT: Final = DeploymentSummary()


class DeploymentView:
    """Reads one replica's part in it."""

    def __init__(self, deployment: Deployment, clock: Clock) -> None:
        """`door` is set when the port is open."""
        self._deployment = deployment
        self._clock = clock
        self.door: ReplicaDoor | None = None

    @property
    def replica(self) -> str:
        """This one."""
        return self._deployment.replica

    def addresses(self) -> dict[str, str]:
        """Where the other replicas are found, by name."""
        return {replica: address for replica, address, _ in self._shares() if replica != self.replica and address}

    def stand_down(self, replica: str) -> int:
        """That replica stops: its clients get nothing more from here; how many messages of here they have still."""
        return 0 if self.door is None else self.door.stand_down(replica)

    def find(self, replica: str) -> str:
        """The whole name of a replica, by that or by its configured one. Raises `NotFound`."""
        names = sorted({self.replica, *self.addresses()})
        for name in names:
            if replica in names_of(name):
                return name
        raise NotFound(f"the deployment has no replica {replica}; it has: {', '.join(names)}")

    def _shares(self) -> list[tuple[str, str, int]]:
        return self._deployment.owners.table.shares()

    def streams(self, topic: str, subscription: str) -> bool:
        """Whether replicas share a subscription by streams, each for its own workers."""
        return (topic, subscription) in self._deployment.owners.streamed

    def owner_of(self, topic: str, subscription: str) -> str | None:
        """The replica that owns a subscription; None if none is known or needed."""
        if self.streams(topic, subscription):
            return None
        owner = self._deployment.owners.table.owner_of(topic, subscription)
        return None if owner is None else owner.replica

    def drain(self, *, drained: bool) -> None:
        """Let this replica own nothing, or its share again. Raises `Conflict` for the last one that owns anything."""
        if drained and not any(bundles for replica, _, bundles in self._shares() if replica != self.replica):
            raise Conflict("no other replica owns anything: who would serve the subscriptions?")
        self._deployment.drain(drained=drained)

    def summary(self, led_here: ServerStatistics) -> DeploymentSummary:
        """For metrics; `led_here` is about the connections of other replicas' clients."""
        told = self.statistics()
        return DeploymentSummary(
            leads=told.leader == told.replica,
            epoch=told.epoch,
            replicas=len(told.replicas) or 1,  # this one, before the first record
            lease_left_s=told.lease_left_s,
            drained=told.drained,
            bundles_here=told.bundles_here,
            bundles_leaving=told.bundles_leaving,
            bundles_without_owner=told.bundles_without_owner,
            subscriptions_here=told.subscriptions_here,
            handed_over_total=told.handed_over_total,
            handed_over_undrained_total=told.handed_over_undrained_total,
            legs_here=led_here.connections,
            legs_accepted_total=told.legs_accepted_total,
            legs_received_bytes_total=led_here.counters["bytes_received_total"],
            connections_unproven=0 if self.door is None else self.door.statistics().unproven,
            connections_refused_total=told.connections_refused_total,
        )

    def statistics(self) -> DeploymentStatistics:
        """Freeze it."""
        deployment = self._deployment
        session, table = deployment.member.session, deployment.owners.table
        here = deployment.bundles.statistics()
        stages = Counter(here.bundles.values())
        shares = self._shares()
        owned = sum(bundles for _, _, bundles in shares)
        port = None if self.door is None else self.door.statistics()
        return DeploymentStatistics(
            replica=deployment.replica,
            state=session.state.value,
            lease_left_s=max(session.lease_until - self._clock.now(), 0.0),
            leader=table.leader,
            epoch=table.epoch,
            bundles_count=table.bundles_count,
            bundles_without_owner=table.bundles_count - owned,
            replicas=tuple(ReplicaShare(*share) for share in shares),
            drained=deployment.drained,
            bundles_here=len(here.bundles) - stages["releasing"],
            bundles_leaving=stages["releasing"],
            subscriptions_here=here.subscriptions,
            handed_over_total=here.given_back_total,
            handed_over_undrained_total=here.overdue_total,
            legs_accepted_total=0 if port is None else port.proven_total,
            connections_refused_total=0 if port is None else port.refused_total,
        )
