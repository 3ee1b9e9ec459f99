"""All groups of this replica.

They share one mail; each has a topic and a member. A restarted process is a new replica to its groups: streams of the
old one are given to others when it has certainly stopped, and the two are never confused.
"""

from __future__ import annotations

from functools import partial
from heapq import nsmallest
from typing import TYPE_CHECKING

from proxy.groups.messages import SessionId
from proxy.net.group.assignment import GroupAssignment, SharedSubscription
from proxy.net.group.holder_probes import HolderProbes
from proxy.net.group.member import GroupMember, Leading
from proxy.net.group.members import GroupPost
from proxy.net.group.replays import GroupReplays
from proxy.net.group.reposition import ANSWER_S_MAX
from proxy.net.group.topic import PulsarGroupTopic
from proxy.net.group.topic_name import group_topic_name
from proxy.net.group.views import GroupsPage, group_statistics, group_summary

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from proxy.groups.messages import ReplayTarget
    from proxy.groups.streams import GroupId
    from proxy.net.group.settings import GroupSettings
    from proxy.net.group.views import GroupStatistics, GroupSummary
    from proxy.net.ports import Brokers, Clock


class Groups:
    """Owner of this replica's assignments, and of what they share."""

    def __init__(
        self,
        replica: str,
        brokers: Brokers,
        clock: Clock,
        settings: GroupSettings,
        post: GroupPost | None = None,
    ) -> None:
        """`replica` is a name unique to this process; `start` begins.

        `post` is the replica's where it has one besides, which is started and stopped by its owner.
        """
        self.replica = replica
        self._brokers = brokers
        self._clock = clock
        self._settings = settings
        self._timing = settings.timing()
        self._own_post = post is None
        post = post or GroupPost(settings.groups_namespace, replica, brokers, clock)
        self.members, self.mail = post.members, post.mail
        patience_s = self._timing.replay_s + ANSWER_S_MAX + self._timing.drop_s
        self._replays = GroupReplays(replica, self.mail, clock, patience_s)
        self.members.replayed = self._replays.heard
        self._probes = HolderProbes(replica, brokers, clock)
        self._topics: dict[GroupId, PulsarGroupTopic] = {}
        self._assignments: dict[GroupId, GroupAssignment] = {}
        self._sessions = 0
        self._leading = Leading()
        self._when_left: Callable[[], None] | None = None

    def start(self) -> None:
        """Receive messages of other replicas."""
        if self._own_post:
            self.mail.start()

    def new_assignment(self, subscription: SharedSubscription) -> GroupAssignment:
        """For a subscription that is to be shared."""
        return GroupAssignment(subscription, self._timing, self.join, self.leave)

    def join(self, assignment: GroupAssignment, workers_count: int) -> GroupMember:
        """Join the assignment's group."""
        self._sessions += 1
        session = SessionId(self.replica, self._sessions)
        member = GroupMember(
            assignment.group,
            session,
            self._settings.group_streams,
            self._timing,
            self._clock,
            self.mail,
            assignment.left,
            self._leading,
        )
        member.replica_silent = partial(self._probes.suspect_in, member)
        self.members.add(member)
        topic = group_topic_name(self._settings.groups_namespace, assignment.group)
        self._topics[assignment.group] = PulsarGroupTopic(topic, self._brokers, self._clock, member)
        self._assignments[assignment.group] = assignment
        member.join(self._topics[assignment.group], assignment, workers_count)
        return member

    def replay(self, group: GroupId, target: ReplayTarget, answered: Callable[[str | None], None]) -> bool:
        """Replay the whole group from another position; `answered` gets the error later, or None.

        False for a group that this replica is not in: then nothing is requested.
        """
        if group not in self._assignments:
            return False
        self._replays.ask(group, target, answered)
        return True

    def leave(self, assignment: GroupAssignment) -> None:
        """Leave the group, with or without remaining streams."""
        member = self.members.find(assignment.group)
        assert member is not None, "an assignment left twice"
        member.close()
        self.members.remove(assignment.group)
        self._topics.pop(assignment.group).stop()
        del self._assignments[assignment.group]
        self._say_if_left()

    def leave_all(self, left: Callable[[], None]) -> None:
        """The replica stops: release all streams; `left` is called when none is left, possibly at once."""
        self._when_left = left
        for assignment in list(self._assignments.values()):
            assignment.leave()
        self._say_if_left()

    def close(self) -> None:
        """Stop sending and receiving."""
        self._replays.close()
        for assignment in list(self._assignments.values()):
            assignment.close()
        if self._own_post:
            self.mail.stop()

    # ---- reads

    def page(self, after: str | None, limit: int) -> GroupsPage:
        """Freeze some groups, by topic and subscription; `after` is `next` of the page before."""
        assignments = {"/".join(group): assignment for group, assignment in self._assignments.items()}
        names = nsmallest(limit + 1, (name for name in assignments if after is None or name > after))
        told = [self.summary(assignments[name].group) for name in names[:limit]]
        page = tuple(summary for summary in told if summary is not None)
        return GroupsPage(
            self._settings.groups_mode, self.replica, page, names[limit - 1] if len(names) > limit else None
        )

    def summary(self, group: GroupId) -> GroupSummary | None:
        """Freeze one's numbers; None for a group that this replica is not in."""
        assignment = self._assignments.get(group)
        return None if assignment is None else group_summary(assignment, self._clock.now())

    def statistics(self, group: GroupId) -> GroupStatistics | None:
        """Freeze one; None for a group that this replica is not in."""
        assignment = self._assignments.get(group)
        return None if assignment is None else group_statistics(assignment, self._clock.now())

    def summaries(self) -> Iterator[GroupSummary]:
        """Each as of the moment of its iteration; groups left meanwhile are omitted."""
        for group in list(self._assignments):
            summary = self.summary(group)
            if summary is not None:
                yield summary

    def _say_if_left(self) -> None:
        if self._when_left is not None and not self._assignments:
            left, self._when_left = self._when_left, None
            left()
