"""Where bundles go that workers wait for because their replica does not reach the owner.

Problem: two replicas may be cut off from each other while both reach the broker. Workers at the one then get nothing of
what the other owns, and where it has no other workers of a subscription, its keys stand still. Rule: such a replica
says so to the leader and to the owner (`WorkersWait`), with the replicas that it does reach, and the owner answers
whether it has workers of these bundles, and whom it reaches (`WorkersServed`). A bundle goes to the replica that most
of them reach, if that are more than reach the owner: so to a third one if there is one between, else to where its only
workers are. It goes as any bundle does that is moved, drained and under leases.

Nothing is moved on a guess: who is reached is said by who reaches it, and an owner that does not answer keeps its
bundles until it is dropped. So it does not go back and forth: a replica that is served has a voice for the owner, and
what was moved stays where it is for `PIN_S`, also when the cut is over.

Why no third replica that leads workers on: the chart installs two, and every message would be passed on twice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from proxy.groups.messages import OfReach, SessionId, WorkersServed, WorkersWait

if TYPE_CHECKING:
    from collections.abc import Mapping

FRESH_S: Final = 2.5
"""How long a word counts; it is repeated several times in that while."""
PIN_S: Final = 60.0
"""How long a bundle that was moved stays, so that no balance gives it back meanwhile."""


class _Waiting(NamedTuple):
    said: WorkersWait
    at: float


class _Serving(NamedTuple):
    said: WorkersServed
    at: float


class Reach:
    """What a leader was told of it."""

    def __init__(self) -> None:
        """Nothing yet."""
        self._waiting: dict[tuple[str, str], _Waiting] = {}
        """By the replica whose workers wait, and the owner."""
        self._serving: dict[str, _Serving] = {}
        self._pins: dict[int, tuple[str, float]] = {}
        """The replica that is to have a bundle, and until when."""

    def hear(
        self, said: OfReach, owners: Mapping[int, SessionId], sessions: Mapping[str, SessionId], now: float
    ) -> bool:
        """Whether bundles are to move now; `sessions` may be given some, by replica."""
        if isinstance(said, WorkersWait):
            self._waiting[said.replica, said.owner] = _Waiting(said, now)
        else:
            self._serving[said.owner] = _Serving(said, now)
        self._forget_old(now)
        moves = False
        for bundle, asking in self._asked_for(owners).items():
            chosen = self._choose(bundle, owners[bundle].replica, asking, sessions)
            if chosen is not None:
                moves |= self._pins.get(bundle, ("", now))[0] != chosen
                self._pins[bundle] = chosen, now + PIN_S
        return moves

    def wanted(
        self, sessions: Mapping[str, SessionId], now: float, ordered: Mapping[int, SessionId]
    ) -> dict[int, SessionId]:
        """Which session is to have which bundle, of these sessions by their replicas.

        What operators have `ordered` goes first, and stays where it is when they take it back.
        """
        self._pins = {bundle: pin for bundle, pin in self._pins.items() if bundle not in ordered}
        pinned = {
            bundle: sessions[replica]
            for bundle, (replica, until) in self._pins.items()
            if now < until and replica in sessions
        }
        return {**pinned, **ordered}

    def _asked_for(self, owners: Mapping[int, SessionId]) -> dict[int, list[WorkersWait]]:
        """Who waits for which bundle of the owner that it has still."""
        found: dict[int, list[WorkersWait]] = {}
        for said, _ in self._waiting.values():
            for bundle in said.streams:
                owner = owners.get(bundle)
                if owner is not None and owner.replica == said.owner:
                    found.setdefault(bundle, []).append(said)
        return found

    def _choose(
        self, bundle: int, owner: str, asking: list[WorkersWait], sessions: Mapping[str, SessionId]
    ) -> str | None:
        """The replica that is to have it; None if it stays."""
        serving = self._serving.get(owner)
        if serving is None or bundle not in serving.said.streams:
            return None
        served = bundle in serving.said.served

        def reached_by(replica: str) -> int:
            count = sum(replica == each.replica or replica in each.reached for each in asking)
            return count + (served and (replica == owner or replica in serving.said.reached))

        at_workers = {each.replica for each in asking}
        best = max(sessions, key=lambda each: (reached_by(each), each in at_workers, each), default=owner)
        return best if reached_by(best) > reached_by(owner) else None

    def _forget_old(self, now: float) -> None:
        self._waiting = {key: each for key, each in self._waiting.items() if now < each.at + FRESH_S}
        self._serving = {key: each for key, each in self._serving.items() if now < each.at + FRESH_S}
        self._pins = {bundle: pin for bundle, pin in self._pins.items() if now < pin[1]}
