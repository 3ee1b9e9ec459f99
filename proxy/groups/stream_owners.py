"""The leader's table of owners: who has each stream, for whom it is reserved, and who had it last.

A stream has at most one owner. The streams of a session that was dropped are reserved for it until it has certainly
stopped. Only the last owner of a stream may go on with it: the state of any other session is out of date.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from proxy.groups.leader_session import LeaderSession
    from proxy.groups.memory import GroupMemory
    from proxy.groups.messages import SessionId

Owners: TypeAlias = "tuple[tuple[int, SessionId], ...]"
"""As a record says them, by stream."""


@dataclass(frozen=True, slots=True)
class _Reservation:
    session: SessionId
    until: float
    returns: bool = True
    """Whether the session gets it back if it asks in time."""


class StreamOwners:
    """Changes of owners, as the leader decides them."""

    def __init__(self, memory: GroupMemory, reserved_until: float) -> None:
        """Begin with a record: what its owners have stays reserved for them until then."""
        self._streams_count = memory.streams_count
        self._owners: dict[int, SessionId] = {}
        self._reserved = {stream: _Reservation(owner, reserved_until) for stream, owner in memory.owners}
        self._had_last = dict(memory.had + memory.owners)
        """Who was the last that was given a stream, or may have been."""

    # ---- reads

    @property
    def by_stream(self) -> dict[int, SessionId]:
        """Who has which stream, or will be told that it has."""
        return dict(self._owners)

    @property
    def reserved_for(self) -> list[SessionId]:
        """For whom streams are reserved, once for each of them."""
        return [reservation.session for reservation in self._reserved.values()]

    @property
    def reservations_end_at(self) -> float | None:
        """When the next of them ends, if there is one."""
        return min((reservation.until for reservation in self._reserved.values()), default=None)

    def owner(self, stream: int) -> SessionId | None:
        """Who has it."""
        return self._owners.get(stream)

    def free_streams(self) -> list[int]:
        """Those that any session may be given."""
        return [stream for stream in range(self._streams_count) if self.is_free(stream)]

    def is_free(self, stream: int) -> bool:
        """Whether any session may be given it."""
        return 0 <= stream < self._streams_count and stream not in self._owners and stream not in self._reserved

    def known(self) -> Owners:
        """Who may have which stream, as a record says it."""
        reserved = {stream: reservation.session for stream, reservation in self._reserved.items()}
        return tuple(sorted((reserved | self._owners).items()))

    def had(self, owners: Owners) -> Owners:
        """The last owners of all streams, without these owners."""
        return tuple(sorted(self._had_last.items() - owners))

    # ---- changes

    def own(self, session: LeaderSession, streams: frozenset[int]) -> None:
        """Give a session these, which are free or its own."""
        for stream in streams:
            assert self._owners.get(stream, session.session) == session.session, "a stream has one owner"
            self._owners[stream] = self._had_last[stream] = session.session
        session.granted = streams

    def take_back(self, stream: int) -> None:
        """Its owner has released it."""
        del self._owners[stream]

    def free(self, session: LeaderSession) -> None:
        """Let a session have nothing, and keep nothing for it."""
        for stream in self._owned(session):
            del self._owners[stream]
        self.unreserve(session)
        session.granted = frozenset()

    def reserve_all(self, session: LeaderSession, until: float, now: float, *, returns: bool) -> None:
        """Take everything from a session, and give it to no other before it has certainly stopped.

        `returns` says whether to give it back until then; one that hears nothing would take it each time it asks.
        """
        for stream in self._owned(session):
            del self._owners[stream]
            if until > now:
                self._reserved[stream] = _Reservation(session.session, until, returns)

    def unreserve(self, session: LeaderSession) -> None:
        """Keep nothing for a session."""
        for stream, reservation in list(self._reserved.items()):
            if reservation.session == session.session:
                del self._reserved[stream]

    def kept(self, session: LeaderSession) -> frozenset[int]:
        """The streams that it still has and no other session can have had; they are no longer reserved."""
        mine = frozenset(stream for stream in session.held if self._goes_back(stream, session.session))
        for stream in mine:
            self._reserved.pop(stream, None)  # only for its last owner
        return mine

    def end_reservations(self, now: float) -> bool:
        """End those that are due, and say whether there were any."""
        due = [stream for stream, reservation in self._reserved.items() if now >= reservation.until]
        for stream in due:
            del self._reserved[stream]
        return bool(due)

    def _goes_back(self, stream: int, session: SessionId) -> bool:
        reservation = self._reserved.get(stream)
        return self._had_last.get(stream) == session and (reservation is None or reservation.returns)

    def _owned(self, session: LeaderSession) -> list[int]:
        return [stream for stream, owner in self._owners.items() if owner == session.session]
