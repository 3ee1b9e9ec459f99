"""What one client consumes at other replicas: each consumer by the leg to its owner, one leg for each owner.

A SUBSCRIBE whose owner is not known waits for it, within a bound: bundles that move have an owner again after some ten
milliseconds, or, when their owner has died, after `group_drop_s`. One that is led to a replica which is not the owner
any more, or not yet, comes back and is led again, and so does one that waits here while its bundle moves away. The
client hears nothing of all that; when the bound is over it is told to try again. That is the last resort: a C++ client
(and those on top of it; seen with 3.13) that is refused the first SUBSCRIBE of a consumer does not ask again before its
time is up.

An owner that does not answer (`pulses`) may stand still: the broker is asked to look at its consumers
(`holder_probes`), so that the next owner gets them as soon as it may have them. An owner that stands still, or is cut
off, ends nothing itself. So when another replica has had the bundle of a consumer for `SUPERSEDED_S`, and its former
owner has not closed it, the leg to that owner is given up with all that it has; at once if it was dropped.

On a connection that another replica opened nothing is led on (`dial` None): its consumers are served here, or
refused as soon as it is known that another has them. So two replicas whose tables differ never send a client round.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import structlog

from proxy.groups.ownership import Owner
from proxy.net.alarm import Alarm
from proxy.net.owner.asked import RequestRoom
from proxy.net.owner.fresh_credentials import FreshCredentials
from proxy.net.owner.joining import Joining
from proxy.net.owner.leg import OwnerLeg
from proxy.net.owner.owners import HERE, is_elsewhere
from proxy.net.relay.requests import BYTES_FULL, leaves_no_room
from proxy.wire import commands
from proxy.wire import pulsar_pb2 as pb
from proxy.wire.client_commands import error_frame, refusal_frame
from proxy.wire.frames import encode_command

if TYPE_CHECKING:
    from proxy.limits import Limits
    from proxy.net.group.holder_probes import HolderProbes
    from proxy.net.owner.owners import Owners, Place
    from proxy.net.owner.pulses import Pulses
    from proxy.net.owner.unreached import UnreachedOwners
    from proxy.net.ports import Clock, ElsewhereClient, Receiver

    Key = tuple[str, str]
    """Topic and subscription."""

_T = pb.BaseCommand

LEGS_MAX: Final = 64
"""Owners that one client connection may be led to at a time, each by a connection."""
OWNER_S_MAX: Final = 20.0
"""How long a SUBSCRIBE is led about before the client is told to try again; clients wait for 30 s. Workers may keep a
bundle that moves for `group_drain_s`, 10 s."""
HERE_S_MAX: Final = 1.0
"""How long one that was led here waits for a lease that is on its way."""
SUPERSEDED_S: Final = 0.5
"""How long a former owner's CLOSE_CONSUMER may be on its way behind the record that names the next one."""
SUPERSEDED: Final = "another replica owns it now"
USED_ANEW: Final = "it has not confirmed the end of a consumer whose id another has now"
AGAIN_S: Final = 0.1
"""Before a SUBSCRIBE that was refused is led again: by then a record or a lease has arrived that was on its way."""
BROKER_AGAIN_S: Final = 1.0
"""Before one is led again that the owner's broker refused for a fault of its own."""

log = structlog.get_logger("keyline.owner")


class ClientLegs:
    """Implements `session.elsewhere.Elsewhere`, and `leg.LegsOfClient` towards its legs."""

    def __init__(
        self,
        client: ElsewhereClient,
        connect: pb.CommandConnect,
        owners: Owners,
        dial: Callable[[Owner, Receiver], None] | None,
        clock: Clock,
        limits: Limits,
        probes: HolderProbes,
        pulses: Pulses,
        unreached: UnreachedOwners,
        peer: str,
    ) -> None:
        """`connect` is the client's CONNECT; `dial` opens its legs, None where nothing is led on.

        `probes` is told what is consumed where, `pulses` of legs, and `unreached` of what waits for whom; `peer` is the
        client's address.
        """
        self._unreached = unreached
        self._peer = peer
        self._probes = probes
        self._pulses = pulses
        self._client = client
        self._fresh = FreshCredentials(connect, client.send)
        self._owners = owners
        self._dial = dial
        self._clock = clock
        self._limits = limits
        self._room = RequestRoom(limits.relayed_requests_max)
        self._legs: dict[str, OwnerLeg] = {}
        """By replica."""
        self._consumers: dict[int, OwnerLeg | None] = {}
        """None for one that is led nowhere now."""
        self._joining: dict[int, Joining] = {}
        """Of these, those without an answer."""
        self._joining_bytes = 0  # of their SUBSCRIBEs
        self._served: dict[int, Key] = {}
        """Topic and subscription of those that an owner has let in."""
        self._probed: dict[int, tuple[str, Key]] = {}
        """Of these, the owner and the key of those whose subscription the broker keeps."""
        self._superseded = Alarm(clock)
        self._told_writable = True

    # ---- session.elsewhere.Elsewhere

    def __contains__(self, consumer_id: int) -> bool:
        """As it says."""
        return consumer_id in self._consumers

    def __len__(self) -> int:
        """As it says."""
        return len(self._consumers)

    def ready(self, consumer_id: int) -> bool:
        """As it says."""
        return consumer_id not in self._joining

    def subscribe(self, command: pb.CommandSubscribe, frame: bytes, here: Callable[[], None]) -> None:
        """As it says. A connection has so many consumers here, too, as it may have workers."""
        consumer_id = command.consumer_id
        if leaves_no_room(self._joining_bytes, len(frame)):
            self._client.send(error_frame(pb.TooManyRequests, BYTES_FULL, command.request_id))
            return
        if len(self._consumers) >= self._limits.workers_per_connection_max:
            message = f"Connection reached max consumers limit: {self._limits.workers_per_connection_max}"
            self._client.send(error_frame(pb.ConsumerBusy, message, command.request_id))
            return
        joining = Joining(command, frame, here, lambda: self._look(joining), self._clock)
        joining.deadline.set(HERE_S_MAX if self._dial is None else OWNER_S_MAX, lambda: self._too_late(joining))
        self._consumers[consumer_id] = None
        self._joining[consumer_id] = joining
        self._joining_bytes += len(frame)
        self._owners.wait(joining.look)
        self._look(joining)

    def data(self, consumer_id: int, frame: bytes) -> None:
        """As it says; one that waits has nothing to acknowledge, and grants permits when it is answered."""
        leg = self._consumers[consumer_id]
        if leg is not None:
            leg.data(frame)

    def request(self, kind: int, body: Any, frame: bytes) -> None:
        """As it says."""
        leg = self._consumers[body.consumer_id]
        if leg is not None:
            leg.request(kind, body, frame)
        elif kind == _T.CLOSE_CONSUMER:
            self._forget(body.consumer_id)
            self._client.send(commands.success(body.request_id))
        else:
            self._client.send(refusal_frame(kind, body, "the owner of this subscription is not known yet"))

    def transaction_ended(self, request: pb.CommandEndTxn) -> None:
        """As it says: in the client's own words, which an owner takes from a replica only, and does not answer."""
        if self._legs:
            frame = encode_command(_T(type=_T.END_TXN, endTxn=request))
            for leg in self._legs.values():
                leg.news(frame)

    def auth_response(self, response: pb.AuthData, frame: bytes) -> bool:
        """As it says. A client answers challenges in turn; which is whose it does not say: owners come first."""
        if self._fresh.answered(response):
            for joining in list(self._joining.values()):
                self._look(joining)
            return True
        for leg in self._legs.values():
            if leg.challenged:
                leg.auth_response(frame)
                return True
        return False

    def client_writable(self, writable: bool) -> None:  # noqa: FBT001 - the port's one bit of news
        """As it says."""
        for leg in self._legs.values():
            leg.client_writable(writable)

    def close(self) -> None:
        """As it says."""
        for consumer_id in [*self._joining, *self._served]:
            self._forget(consumer_id)
        self._consumers.clear()
        legs, self._legs = self._legs, {}
        for leg in legs.values():
            self._pulses.forget(leg.owner.replica, leg)
            leg.close()

    # ---- leg.LegsOfClient

    def subscribed(self, consumer_id: int) -> None:
        """As it says."""
        command, leg = self._joining[consumer_id].command, self._consumers[consumer_id]
        self._joined(consumer_id)
        if not self._served:
            self._owners.wait(self._look_at_served)
        key = self._served[consumer_id] = (command.topic, command.subscription)
        if command.durable and leg is not None:
            self._probed[consumer_id] = probed = (leg.owner.replica, key)
            self._probes.begun(*probed)
        # Of this one alone: a connection may have thousands, which come one after the other.
        if leg is not None and is_elsewhere(self._owners.place(command.topic, command.subscription), leg.owner.replica):
            self._look_at_served()

    def subscribe_refused(self, consumer_id: int, code: int) -> bool:
        """As it says."""
        joining = self._joining.get(consumer_id)
        if joining is None or not joining.deadline.is_set:
            return False
        self._consumers[consumer_id] = None
        joining.again.set(AGAIN_S if code == pb.ServiceNotReady else BROKER_AGAIN_S, joining.look)
        return True

    def consumer_ended(self, consumer_id: int) -> None:
        """As it says."""
        self._forget(consumer_id)

    def leg_refused(self, leg: OwnerLeg, refusal: pb.CommandError) -> bool:
        """As it says: with other credentials."""
        return self._fresh.refused(leg.credentials_version, refusal)

    def leg_connected(self, leg: OwnerLeg) -> None:
        """As it says."""
        self._fresh.accepted()
        self._unreached.found(leg.owner.replica)

    def leg_writable_changed(self) -> None:
        """As it says."""
        writable = all(leg.writable for leg in self._legs.values())
        if writable != self._told_writable:
            self._told_writable = writable
            self._client.elsewhere_writable(writable)

    def leg_ended(self, leg: OwnerLeg) -> None:
        """As it says."""
        self._pulses.forget(leg.owner.replica, leg)
        if self._legs.get(leg.owner.replica) is leg:
            del self._legs[leg.owner.replica]
            if leg.unreached:
                self._unreached.lost(leg.owner.replica)
        self.leg_writable_changed()

    # ---- within

    def _look(self, joining: Joining) -> None:
        """Lead a consumer to its owner, if there is one now."""
        command = joining.command
        consumer_id = command.consumer_id
        if self._joining.get(consumer_id) is not joining:
            return
        place, leg = self._owners.place(command.topic, command.subscription), self._consumers[consumer_id]
        if leg is not None and is_elsewhere(place, leg.owner.replica):
            self._leave_former(leg)
            leg = self._consumers.get(consumer_id)
        if leg is not None or self._joining.get(consumer_id) is not joining:
            return
        self._leave_closing(consumer_id, place)
        if place is HERE:
            self._forget(consumer_id)
            if self._dial is None and (command.topic, command.subscription) in self._owners.streamed:
                # Its replica has other `streamed_subscriptions`; the worker is served all the same.
                log.warning("worker of streams led here", topic=command.topic, subscription=command.subscription)
            joining.here()
        elif isinstance(place, Owner):
            if self._dial is None:
                self._refuse(joining, f"the owner of this subscription is {place.replica}")
            else:
                self._lead(place, joining, partial(self._dial, place))

    def _lead(self, owner: Owner, joining: Joining, dial: Callable[[Receiver], None]) -> None:
        leg = self._legs.get(owner.replica)
        if leg is None and self._fresh.refusal is not None:
            return  # the client's answer leads it on
        self._wait_for(owner.replica, joining)
        if leg is None:
            if len(self._legs) >= LEGS_MAX:
                self._refuse(joining, f"a connection is led to at most {LEGS_MAX} other replicas at a time")
                return
            leg = self._new_leg(owner)
            self._legs[owner.replica] = leg
            self._pulses.watch(owner.replica, leg, owner.address)
            leg.open(dial)
        if leg.subscribe(joining.command, joining.frame):
            self._consumers[joining.command.consumer_id] = leg
        else:
            self._refuse(joining, f"too much waits for the connection to {owner.replica}")

    def _new_leg(self, owner: Owner) -> OwnerLeg:
        of_client = self._client, self._fresh.identity, self._clock, self._limits, self, self._peer
        return OwnerLeg(owner, *of_client, self._room, self._fresh.version)

    def _look_at_served(self) -> None:
        """Wait for former owners to close what is another's now, if anything is; not for one that was dropped."""
        lost = self._lost_bundles()
        for leg in dict.fromkeys(lost.values()):
            if not self._owners.table.has(leg.owner.replica):
                leg.give_up(SUPERSEDED)
            elif not self._superseded.is_set:
                self._superseded.set(SUPERSEDED_S, partial(self._give_up_former, lost))

    def _leave_former(self, leg: OwnerLeg) -> None:
        """A SUBSCRIBE waits at a replica that owns its subscription no more."""
        if leg.connected:
            self._look_at_served()  # it refuses that itself, and may have other consumers of this client
        else:
            leg.give_up(SUPERSEDED)  # it may stand still, and the next one is asked at once

    def _leave_closing(self, consumer_id: int, place: Place) -> None:
        """What another owner still sends to a closed consumer of this id would pass for what comes from there."""
        for leg in list(self._legs.values()):
            if leg.closes(consumer_id) and is_elsewhere(place, leg.owner.replica):
                leg.give_up(USED_ANEW)

    def _give_up_former(self, before: dict[int, OwnerLeg]) -> None:
        """What was lost `before` had its time; what was lost since has as much."""
        lost = self._lost_bundles()
        for leg in dict.fromkeys(leg for each, leg in lost.items() if before.get(each) is leg):
            leg.give_up(SUPERSEDED)
        self._look_at_served()

    def _lost_bundles(self) -> dict[int, OwnerLeg]:
        """Consumers whose leg leads to a replica that does not own their subscription any more."""
        lost: dict[int, OwnerLeg] = {}
        joining = {each: (one.command.topic, one.command.subscription) for each, one in self._joining.items()}
        for consumer_id, key in (self._served | joining).items():
            leg = self._consumers[consumer_id]
            if leg is not None and is_elsewhere(self._owners.place(*key), leg.owner.replica):
                lost[consumer_id] = leg
        return lost

    def _too_late(self, joining: Joining) -> None:
        """What its last owner says now is the answer; where it has none, there is none."""
        refusal = self._fresh.refusal
        if self._consumers.get(joining.command.consumer_id) is not None:
            return
        if refusal is None:
            self._refuse(joining, "the owner of this subscription is not known yet")
        else:
            self._refuse(joining, refusal.message, refusal.error)

    def _refuse(self, joining: Joining, reason: str, code: int = pb.ServiceNotReady) -> None:
        """The client, or the replica at its side, tries again, unless another code says that it is of no use."""
        self._forget(joining.command.consumer_id)
        self._client.send(error_frame(code, reason, joining.command.request_id))

    def _forget(self, consumer_id: int) -> None:
        self._consumers.pop(consumer_id, None)
        probed = self._probed.pop(consumer_id, None)
        if probed is not None:
            self._probes.ended(*probed)
        self._joined(consumer_id)
        if self._served.pop(consumer_id, None) is not None and not self._served:
            self._owners.forget(self._look_at_served)
            self._superseded.cancel()

    def _joined(self, consumer_id: int) -> None:
        joining = self._joining.pop(consumer_id, None)
        if joining is not None:
            self._joining_bytes -= len(joining.frame)
            joining.stop()
            self._owners.forget(joining.look)
            self._wait_for("", joining)

    def _wait_for(self, owner: str, joining: Joining) -> None:
        """A SUBSCRIBE waits for another owner's answer than before, or for none."""
        before, joining.waits_for = joining.waits_for, owner
        if before != owner:
            key = joining.command.topic, joining.command.subscription
            if before:
                self._unreached.ended(before, key)
            if owner:
                self._unreached.waits(owner, key)
