"""Owners that this replica does not reach, and what its clients wait for there: said until the leader finds a way.

Problem and rule: see `groups.reach`. An owner is not reached from when its signs of life cease (`pulses`), or a leg
to it cannot be had, until one of both can. What is said is what waits just then, so that it ends by itself. As soon as
any replica is suspected, all are asked for signs of life for a while: who is reached has to be known when something
waits, and nothing else needs that.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from proxy.groups.bundles import bundle_of
from proxy.groups.messages import WorkersServed, WorkersWait
from proxy.net.alarm import Alarm

if TYPE_CHECKING:
    from proxy.net.owner.deployment import Deployment
    from proxy.net.owner.pulses import Pulses
    from proxy.net.ports import Clock

    Key = tuple[str, str]

AGAIN_S: Final = 0.5
"""How often it is said while something waits."""
LOOK_AROUND_S: Final = 10.0
"""How long all replicas are asked for signs of life since one was suspected."""


class _NoLeg:
    """Implements `leg_looks.Leg`: a replica is watched, and no leg."""

    name = ""
    owes = False
    paused = False

    def take_heard(self) -> bool:
        """As the port says."""
        return False

    def ping(self) -> None:
        """As the port says."""

    def give_up(self, reason: str) -> None:
        """As the port says: the replica is watched again if that is still wanted."""
        _ = reason


_NO_LEG: Final = _NoLeg()


class UnreachedOwners:
    """Of one replica."""

    def __init__(self, deployment: Deployment, clock: Clock, pulses: Pulses) -> None:
        """All are reached. It hears of others from `pulses`, and of what workers elsewhere wait for."""
        self._deployment = deployment
        self._clock = clock
        self._pulses = pulses
        self._waiting: dict[str, Counter[Key]] = {}
        """What clients wait for, by owner, and how many do."""
        self._lost: set[str] = set()
        self._watched: tuple[str, ...] = ()
        self._look_until = clock.now()
        self._timer = Alarm(clock)
        pulses.lost, pulses.found = self.lost, self.found
        deployment.member.workers_wait = self.hear

    # ---- what clients wait for

    def waits(self, owner: str, key: Key) -> None:
        """A client's SUBSCRIBE is led there."""
        self._waiting.setdefault(owner, Counter())[key] += 1
        if owner in self._lost:
            self._look_around()

    def ended(self, owner: str, key: Key) -> None:
        """It waits no more."""
        waiting = self._waiting[owner]
        waiting[key] -= 1
        if not waiting[key]:
            del waiting[key]
        if not waiting:
            del self._waiting[owner]

    # ---- who is reached

    def suspect(self) -> None:
        """Some replica does not answer; one that is only looked at here does not prolong that."""
        if not self._timer.is_set:
            self._look_around()

    def lost(self, replica: str) -> None:
        """It is not reached."""
        self._lost.add(replica)
        if replica in self._waiting:
            self._look_around()

    def found(self, replica: str) -> None:
        """It is."""
        self._lost.discard(replica)

    def hear(self, said: WorkersWait) -> None:
        """Workers elsewhere wait for what this replica has, if it is meant: tell the leader whether it has workers."""
        if said.owner != self._deployment.replica:
            return
        self._look_around()
        bundles = self._deployment.bundles
        here = tuple(bundle for bundle in said.streams if bundles.open_here(bundle))
        served = tuple(bundle for bundle in here if bundles.serves(bundle))
        self._deployment.tell_reach(
            WorkersServed(self._deployment.group, said.owner, here, served, self._pulses.reached)
        )

    # ---- within

    def _look_around(self) -> None:
        self._look_until = self._clock.now() + LOOK_AROUND_S
        if not self._timer.is_set:
            self._timer.set(AGAIN_S, self._look)

    def _look(self) -> None:
        now = self._clock.now()
        others = self._others()
        self._lost &= others.keys()
        if self._say():
            self._look_until = now + LOOK_AROUND_S
        for replica in self._watched:
            if now >= self._look_until or replica not in others:
                self._pulses.forget(replica, _NO_LEG)
        self._watched = ()
        if now < self._look_until:
            for replica, address in others.items():
                self._pulses.watch(replica, _NO_LEG, address)
            self._watched = tuple(others)
            self._timer.set(AGAIN_S, self._look)
        else:
            self._lost.clear()  # a replica that leads clients there finds out again

    def _others(self) -> dict[str, str]:
        """Where each other replica is."""
        here = self._deployment.replica
        shares = self._deployment.owners.table.shares()
        return {replica: address for replica, address, _ in shares if address and replica != here}

    def _say(self) -> bool:
        """Whether anything waits for an owner that is not reached."""
        count = self._deployment.owners.table.bundles_count
        said = False
        for owner in sorted(self._lost & self._waiting.keys()):
            bundles = tuple(sorted({bundle_of(*key, count) for key in self._waiting[owner]}))
            here = self._deployment.replica
            self._deployment.tell_reach(WorkersWait(self._deployment.group, here, owner, bundles, self._pulses.reached))
            said = True
        return said
