"""How long the members of a group wait for each other. All times are in seconds, on each machine's own clock."""

from __future__ import annotations

from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupTiming:
    """Raises ValueError for times that do not fit together; the text says which and why."""

    find_leader_s: float = 1.0
    """After which a session asks for the leader again."""
    heartbeat_s: float = 1.0
    """How often a session reports at least."""
    renew_s: float = 1.0
    """How often the leader renews a lease."""
    lease_s: float = 5.0
    """How long a lease lasts, from the report that the leader renewed it for."""
    drop_s: float = 7.0
    """After which the leader gives up a session that it does not hear from, and leases its streams to others."""
    drain_s: float = 10.0
    """How long workers may keep what they have of a stream that moves; what is left then is delivered again."""
    not_replaying_s: float = 20.0
    """How long a change of a session's streams may take altogether."""
    fence_spread_s: float = 1.0
    """Candidates take a leader's producer away at different moments within this time, or they would do so to each
    other."""
    balance_delay_s: float = 0.1
    """Joins and leaves within this time are one change."""
    idle_s: float = 30.0
    """How long a leader stays that has no session."""
    retire_s: float = 2.0
    """How long a leader whose replica leaves may need to hand over what that had, before another leads."""
    replay_s: float = 30.0
    """How long all sessions together may need to release everything, so that the cursor can be moved."""
    lead_s: float = 10.0
    """How long a leader leads at least before it lets a replica lead that leads fewer groups."""
    give_way_s: float = 0.2
    """How long those that wait to lead may need to let that one wait before them."""
    checkpoint_s: float = 10.0
    """How often the group's progress is stored, if there is any."""

    @property
    def silent_s(self) -> float:
        """How long a leader says nothing before another takes its producer away: three renewals have not come.

        One that was only late loses nothing but the lead: what sessions have they keep under the next one.
        """
        return 3 * self.renew_s

    @property
    def found_s(self) -> float:
        """How long those that are well need at most to find a new leader, which announces itself.

        It is short, so that the broker's look at the others is over when the leases of the leader before are.
        """
        return self.renew_s / 4

    def last_lease_s(self, before_s: float) -> float:
        """How long any lease lasts at most that another gave before it heard that it had lost the producer.

        Args:
            before_s: the length of its leases, by its last record.
        """
        return max(before_s, self.lease_s) * 1.1

    def kept_until(self, before_s: float, granted_at: float, now: float) -> float:
        """Until when a leader that begins now keeps what sessions had under the one before.

        By then their leases are over, and those that are well have found this leader.

        Args:
            before_s: as for `last_lease_s`.
            granted_at: when this leader was given the producer.
            now: when it begins to lead: it has read the topic, and stored its first record.
        """
        return max(granted_at + self.last_lease_s(before_s), now + self.find_leader_s)

    @property
    def send_s(self) -> float:
        """How long before a lease ends the last message is dispatched: by then it must have left.

        Else every replica whose leader is lost would be late with what it dispatched in the last moment, and would give
        the connections of healthy workers up for it.
        """
        return self.lease_s / 20

    def __post_init__(self) -> None:
        """Check."""
        for field in fields(self):
            if getattr(self, field.name) <= 0:
                message = f"{field.name} is {getattr(self, field.name)}: it should be above 0"
                raise ValueError(message)
        self._before("lease_s", "drop_s", "a stream would be leased to others while its session still delivers")
        self._before("drain_s", "not_replaying_s", "a session would be given up while it drains as it may")
        self._before("not_replaying_s", "replay_s", "a replay would be given up before the slowest session is dropped")
        # Two may be lost one after the other without a consequence.
        self._before("renew_s", "lease_s", "one lost renewal would end a lease", times=3)
        self._before("heartbeat_s", "lease_s", "one lost report would end a lease", times=3)

    def _before(self, first: str, second: str, why: str, *, times: int = 1) -> None:
        shorter, longer = getattr(self, first), getattr(self, second)
        if shorter * times >= longer:
            factor = f"{times} times " if times > 1 else ""
            message = f"{second} is {longer} s: it should be above {factor}{first}, which is {shorter} s, or {why}"
            raise ValueError(message)
