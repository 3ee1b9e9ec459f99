"""What a gateway has besides in owner mode, but for the listener: all that needs no event loop.

So the simulator of whole deployments runs what a gateway runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from proxy.net.group.holder_probes import HolderProbes
from proxy.net.owner.deployment import Deployment
from proxy.net.owner.dialling import ReplicaDialler
from proxy.net.owner.door import Led, Numbered, ReplicaDoor
from proxy.net.owner.pulses import Pulses
from proxy.net.owner.questions import Answering
from proxy.net.owner.standstill import Standstill
from proxy.net.owner.unreached import UnreachedOwners
from proxy.net.owner.ways import Ways
from proxy.views.deployment import DeploymentView
from proxy.views.other_replicas import OtherReplicas

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from proxy.limits import Limits
    from proxy.net.group.settings import GroupSettings
    from proxy.net.owner.proof import Secret, Told
    from proxy.net.owner.questions import AnswerQuestion
    from proxy.net.ports import Brokers, Clock, Connector

GAP_OF_PULSE: Final = 0.6
"""A side that is silent for two intervals is given up, and what it said last may be older than one and a third."""


class OwnerParts:
    """The deployment, the way of clients to other owners, and the door for other replicas."""

    def __init__(
        self,
        replica: str,
        address: str,
        connector: Connector,
        secret: Secret,
        number: Numbered,
        brokers: Brokers,
        clock: Clock,
        limits: Limits,
        settings: GroupSettings,
        migrating: Collection[str],
    ) -> None:
        """`replica` names this process, `address` is its port for others, `connector` opens connections to theirs.

        `migrating` as `migrating_subscriptions` is configured.
        """
        self._clock = clock
        self._secret = secret
        self._number = number
        self.deployment = Deployment(replica, address, brokers, clock, settings)
        self.view = DeploymentView(self.deployment, clock)
        # A replica that stands still is given up about when its lease ends.
        pulse_s = min(limits.keep_alive_s, settings.group_lease_s / 2)
        standstill = Standstill(clock, GAP_OF_PULSE * pulse_s)
        dialler = self.dialler = ReplicaDialler(connector, secret, clock, number, standstill)
        self.others = OtherReplicas(self.view, dialler)
        probes = HolderProbes(replica, brokers, clock, migrating)

        def suspected(other: str) -> None:
            probes.suspect(other)
            unreached.suspect()

        self._pulses = Pulses(replica, clock, pulse_s, dialler.dial, suspected)
        unreached = UnreachedOwners(self.deployment, clock, self._pulses)
        self.ways = Ways(self.deployment.owners, dialler, clock, limits, probes, self._pulses, unreached)
        self.deployment.member.replica_silent = probes.suspect
        self.door: ReplicaDoor | None = None

    def new_door(self, admit: Callable[[str], Led], answer: AnswerQuestion) -> ReplicaDoor:
        """Make the door: `admit` gives the receiver for other replicas' clients, `answer` what operators ask there."""

        def let_in(told: Told) -> Led:
            if told.purpose == "pulse":
                return self._pulses.accept(told.teller)
            return Answering(answer, self._clock) if told.purpose == "question" else admit(told.peer)

        door = ReplicaDoor(self.deployment.replica, self._secret, self._clock, self._number, let_in, self._pulses)
        self.door = self.view.door = door
        return door
