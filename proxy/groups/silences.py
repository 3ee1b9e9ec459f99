"""Replicas that have something and say nothing: their leader tells the others, who prepare for taking it over.

What they prepare, the broker's look at a replica that may be dead (`net/group/holder_probes.py`), takes 5 s, and keys
wait for its end. So a silence is told as soon as it is one, and again with each renewal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from proxy.groups.leader_session import LeaderSession
    from proxy.groups.messages import SessionId
    from proxy.groups.timing import GroupTiming


class Silences:
    """As a leader notices them. `reserved_for` are the sessions that streams are reserved for."""

    def __init__(self, timing: GroupTiming, now: float) -> None:
        """The leader begins."""
        self._timing = timing
        self._found_by = now + timing.found_s
        self._looked_at = now

    def due(self, sessions: Mapping[SessionId, LeaderSession], reserved_for: Iterable[SessionId]) -> list[float]:
        """When silences begin that `look` has not found yet, if nothing is heard meanwhile."""
        return [at for at in self._begin(sessions, reserved_for).values() if at > self._looked_at]

    def look(
        self,
        sessions: Mapping[SessionId, LeaderSession],
        reserved_for: Iterable[SessionId],
        now: float,
        *,
        again: bool,
    ) -> list[str]:
        """Name replicas to tell of: all that are silent if one has become so since the last look, or `again`."""
        silent = {replica: at for replica, at in self._begin(sessions, reserved_for).items() if at <= now}
        news = any(at > self._looked_at for at in silent.values())
        self._looked_at = now
        return sorted(silent) if news or again else []

    def _begin(
        self, sessions: Mapping[SessionId, LeaderSession], reserved_for: Iterable[SessionId]
    ) -> dict[str, float]:
        """When the silence of each replica begins that has something.

        Of one that was not heard yet it begins when those that are well have found this leader.
        """
        said = {
            each.session.replica: each.heard_at + self._timing.silent_s for each in sessions.values() if each.granted
        }
        return {each.replica: self._found_by for each in reserved_for if each not in sessions} | said
