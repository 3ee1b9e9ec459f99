"""Makes the legs of each client: onward to owners for those that came by themselves, none for those led here."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

from proxy.net.owner.legs import ClientLegs
from proxy.net.owner.proof import Told

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.groups.ownership import Owner
    from proxy.limits import Limits
    from proxy.net.group.holder_probes import HolderProbes
    from proxy.net.owner.dialling import ReplicaDialler
    from proxy.net.owner.owners import Owners
    from proxy.net.owner.pulses import Pulses
    from proxy.net.owner.unreached import UnreachedOwners
    from proxy.net.ports import Clock, ElsewhereClient, Receiver, Transport
    from proxy.wire import pulsar_pb2 as pb


class Ways:
    """For all clients of one replica. Its methods are `session.elsewhere.MakeElsewhere`."""

    def __init__(
        self,
        owners: Owners,
        dialler: ReplicaDialler,
        clock: Clock,
        limits: Limits,
        probes: HolderProbes,
        pulses: Pulses,
        unreached: UnreachedOwners,
    ) -> None:
        """`dialler` opens connections to other replicas; `probes`, `pulses` and `unreached` as for `ClientLegs`."""
        self._unreached = unreached
        self._probes = probes
        self._pulses = pulses
        self._owners = owners
        self._dialler = dialler
        self._clock = clock
        self._limits = limits
        self._numbers = count(1)

    def onward(self, client: ElsewhereClient, connect: pb.CommandConnect, transport: Transport) -> ClientLegs:
        """For a client that came here by itself; owners are told its address and its certificate."""
        number = next(self._numbers)

        def dial(owner: Owner, leg: Receiver) -> None:
            teller, peer, certificate = self._owners.replica, transport.peer, transport.peer_certificate
            self._dialler.dial(owner.address, Told(owner.replica, teller, peer, certificate, client=number), leg)

        return self._legs(client, connect, dial, transport.peer)

    def here_only(self, client: ElsewhereClient, connect: pb.CommandConnect, transport: Transport) -> ClientLegs:
        """For a client that another replica led here."""
        return self._legs(client, connect, None, transport.peer)

    def _legs(
        self,
        client: ElsewhereClient,
        connect: pb.CommandConnect,
        dial: Callable[[Owner, Receiver], None] | None,
        peer: str,
    ) -> ClientLegs:
        owners, clock, limits = self._owners, self._clock, self._limits
        told = self._probes, self._pulses, self._unreached
        return ClientLegs(client, connect, owners, dial, clock, limits, *told, peer)
