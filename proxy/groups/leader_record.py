"""The leader's record: what it knows that the next leader has to know, what of it is in the topic, and what is due.

A set of streams is stored before its session is told. States of streams are stored at intervals. One record is written
at a time.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from proxy.groups.kept_orders import OrdersKept
from proxy.groups.leader_session import LeaderSession, State
from proxy.groups.messages import Version

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from proxy.groups.kept_orders import KeptOrders
    from proxy.groups.memory import GroupMemory
    from proxy.groups.messages import Report, SessionId
    from proxy.groups.stream_owners import StreamOwners
    from proxy.groups.streams import StreamState
    from proxy.groups.timing import GroupTiming


class LeaderRecord:
    """Methods that write return the record; `written` is to be called when the topic has it."""

    def __init__(self, memory: GroupMemory, owners: StreamOwners, timing: GroupTiming, now: float) -> None:
        """Begin with this leader's first record, which is in the topic."""
        self._first = memory
        self._owners = owners
        self._timing = timing
        self._states = {state.stream: state for state in memory.states}
        self._states_stored = dict(self._states)
        self._addresses = dict(memory.addresses)
        self._orders = OrdersKept(memory.orders)
        self._orders_unstored = False
        self._owners_stored = memory.owners
        self._replays = memory.replays
        self._number = 0
        self._unstored: list[LeaderSession] = []
        """Sessions whose sets of streams are not in the topic yet."""
        self._being_stored: list[LeaderSession] = []
        self._storing = False
        self._checkpoint_at = now + timing.checkpoint_s

    # ---- reads

    @property
    def states(self) -> dict[int, StreamState]:
        """How far each stream is, as far as it was ever said."""
        return dict(self._states)

    @property
    def replays(self) -> int:
        """How often the cursor was moved, or is about to be."""
        return self._replays

    @property
    def under_way(self) -> bool:
        """Whether a record is being written, or sets of streams wait for one."""
        return self._storing or bool(self._unstored)

    @property
    def complete(self) -> bool:
        """Whether the topic has the owners as they are."""
        return self._owners.known() == self._owners_stored

    @property
    def needed(self) -> bool:
        """Whether the topic says something that the next leader needs."""
        return bool(self._owners_stored)

    def wanted(self, streams_count: int, sessions: Mapping[str, SessionId]) -> dict[int, SessionId]:
        """Which session is to have which stream because operators ask for it."""
        return self._orders.wanted(streams_count, sessions)

    # ---- what sessions and operators say

    def note_address(self, report: Report) -> None:
        """Where a session's replica is found by others."""
        if report.address:
            self._addresses[report.session.replica] = report.address

    def note(self, report: Report, states: Iterable[StreamState]) -> None:
        """Only of what it owns; and acknowledged is acknowledged, until the cursor is moved."""
        if report.replays != self._replays:
            return
        for state in states:
            if self._owners.owner(state.stream) != report.session:
                continue
            before = self._states.get(state.stream, state).acknowledged
            known = [position for position in (before, state.acknowledged) if position is not None]
            self._states[state.stream] = replace(state, acknowledged=max(known, default=None), finished=False)

    def keep_orders(self, orders: KeptOrders) -> bool:
        """Have them in the next record, and say whether they are news."""
        news = self._orders.keep(orders)
        self._orders_unstored |= news
        return news

    def renumber(self, session: LeaderSession, now: float) -> None:
        """Give a session's new set of streams its number; the session is told when a record has it."""
        self._number += 1
        session.version = Version(self._first.epoch, self._number)
        session.stored = False
        session.not_replaying_since = now
        self._unstored.append(session)

    # ---- the cursor

    def before_reposition(self, replicas: Collection[str]) -> GroupMemory:
        """Write that the cursor is moved, before it is: a session that comes back must not take it for a repetition."""
        self._replays += 1
        return self._write(replicas)

    def repositioned(self) -> None:
        """The cursor was moved: what was known of streams is over."""
        self._states.clear()

    # ---- writing

    def due(self, replicas: Collection[str], now: float, *, retiring: bool) -> GroupMemory | None:
        """Write what is due, if anything is; `replicas` have sessions. A leader that retires stores every change."""
        if self._storing:
            return None
        if self._unstored:
            self._being_stored, self._unstored = self._unstored, []
            return self._write(replicas)
        if self._orders_unstored or (retiring and not self.complete):
            return self._write(replicas)
        if now < self._checkpoint_at:
            return None
        self._checkpoint_at = now + self._timing.checkpoint_s
        return None if self._states == self._states_stored else self._write(replicas)

    def written(self, now: float) -> list[LeaderSession]:
        """The record is in the topic: these sessions are told their sets of streams now."""
        self._storing = False
        told, self._being_stored = self._being_stored, []
        told = [each for each in told if each.state is not State.DROPPED and each not in self._unstored]
        for session in told:
            session.stored = True
            if session.deaf:
                session.not_replaying_since = now  # it had nothing to answer before
        return told

    def _write(self, replicas: Collection[str]) -> GroupMemory:
        self._storing = True
        self._orders_unstored = False
        self._states_stored = dict(self._states)
        self._owners_stored = owners = self._owners.known()
        here = {owner.replica for _, owner in owners}.union(replicas)
        self._addresses = {replica: at for replica, at in self._addresses.items() if replica in here}
        return replace(
            self._first,
            number=self._number,
            owners=owners,
            states=tuple(state for _, state in sorted(self._states.items())),
            replays=self._replays,
            had=self._owners.had(owners),
            addresses=tuple(sorted(self._addresses.items())),
            orders=self._orders.all(),
            lease_s=self._timing.lease_s,
        )
