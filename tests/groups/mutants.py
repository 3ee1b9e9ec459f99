"""Faults put into groups of replicas by hand: see `tests.sim.mutants`. Their simulator is in `test_lives`."""

from __future__ import annotations

from typing import Final

from tests.sim.mutant import Mutant

SESSION: Final = "proxy/groups/session.py"
HELD: Final = "proxy/groups/held_streams.py"
LEADER: Final = "proxy/groups/leader.py"
LEADER_RECORD: Final = "proxy/groups/leader_record.py"
OWNERS: Final = "proxy/groups/stream_owners.py"
BALANCE: Final = "proxy/groups/balance.py"
LEADER_SESSION: Final = "proxy/groups/leader_session.py"
MANAGER: Final = "proxy/groups/manager.py"
MEMBER: Final = "proxy/net/group/member.py"
ASSIGNMENT: Final = "proxy/net/group/assignment.py"
GROUPS: Final = "proxy/net/group/groups.py"
TOPIC: Final = "proxy/net/group/topic.py"
SWEEP: Final = "proxy/net/group/sweep.py"
LOOK: Final = "proxy/net/group/topic_look.py"
GROUP_TOPICS: Final = "proxy/net/group/topics.py"
READER: Final = "proxy/net/group/topic_reader.py"
PRODUCER: Final = "proxy/net/broker/producer.py"
ELECTION: Final = "proxy/producers/election.py"
TOPIC_ELECTION: Final = "proxy/net/election/election.py"
BACK_OFF: Final = "proxy/net/election/back_off.py"
BROKER_QUEUE: Final = "proxy/net/election/broker_queue.py"
OWNERSHIP_CHANGES: Final = "proxy/net/session/ownership_changes.py"
RIVALS: Final = "proxy/producers/rivals.py"
LEASES: Final = "proxy/core/stream_leases.py"
STREAMS_HERE: Final = "proxy/core/streams_here.py"

PROTOCOL: Final = " ".join(f"tests/groups/test_{name}.py" for name in ("session", "leader", "manager", "lives"))
TOPIC_TESTS: Final = "tests/net/test_group_topic.py"
SWEEP_TESTS: Final = "tests/net/test_group_sweep.py"
GROUP_TOPICS_TESTS: Final = "tests/net/test_group_topics.py"
PAUSES: Final = "tests/groups/test_pauses.py"
ASSIGNMENT_TESTS: Final = "tests/net/test_group_assignment.py"
RIVALRY: Final = "tests/producers/test_election.py tests/producers/test_rivals.py tests/net/test_producer_rivals.py"
CORE: Final = "tests/core/test_streams_here.py"
OWNERSHIP: Final = "tests/net/test_session_producers.py"


def _mutant(name: str, file: str, right: str, wrong: str, tests: str) -> Mutant:
    return Mutant(f"groups: {name}", file, right, wrong, tests, simulated=False)


MUTANTS = (
    _mutant(
        "what was overtaken is heard",
        SESSION,
        "or message.header.stamp <= self._last_stamp",
        "",
        PROTOCOL,
    ),
    _mutant(
        "a session without a lease goes on delivering",
        HELD,
        "                acts.append(Hold(stream))\n",
        "",
        PROTOCOL,
    ),
    _mutant(
        "a stream of another cut is kept",
        HELD,
        "        acts: list[StreamAct] = [Release(stream, now) for stream in sorted(self._holdings)]\n"
        "        self._forgetting.update(self._holdings)\n"
        "        self._holdings = dict.fromkeys(self._holdings, Holding.RELEASING)\n",
        "        acts: list[StreamAct] = []\n",
        PROTOCOL,
    ),
    _mutant(
        "a session that was overtaken is believed",
        LEADER_SESSION,
        "if report.beat <= self.heard:",
        "if False:",
        PROTOCOL,
    ),
    _mutant(
        "a change is over before all is given back",
        LEADER_SESSION,
        "return Event.CHANGED if self.revoked <= finished else Event.CHANGING",
        "return Event.CHANGED",
        PROTOCOL,
    ),
    _mutant(
        "what a dropped session has goes to others at once",
        OWNERS,
        "            if until > now:\n",
        "            if False:\n",
        PROTOCOL,
    ),
    _mutant(
        "a new leader keeps nothing for those who had it",
        OWNERS,
        "for stream, owner in memory.owners}",
        "for stream, owner in ()}",
        PROTOCOL,
    ),
    _mutant(
        "one that comes back goes on with what others had since",
        OWNERS,
        "return self._had_last.get(stream) == session and",
        "return self.is_free(stream) and",
        PROTOCOL,
    ),
    _mutant(
        "who looks for a leader gives up what the one before may have leased it since",
        LEADER,
        "        if session.version is not None:\n            self._owners.free(session)",
        "        if True:\n            self._owners.free(session)",
        PROTOCOL,
    ),
    _mutant(
        "the next leader does not know who had what nobody has",
        LEADER_RECORD,
        "            had=self._owners.had(owners),\n",
        "            had=(),\n",
        PROTOCOL,
    ),
    _mutant(
        "a set of streams is told before it is stored",
        LEADER,
        "            return [self._messages.told(session, self._record.replays)] if session.stored else []",
        "            return [self._messages.told(session, self._record.replays)]",
        PROTOCOL,
    ),
    _mutant(
        "an epoch is used twice",
        MANAGER,
        "before, epoch=before.epoch + 1,",
        "before, epoch=before.epoch,",
        PROTOCOL,
    ),
    _mutant(
        "a leader goes before what its replica had is others'",
        MANAGER,
        "        over = self.leader.settled or now >= self._retired_until\n",
        "        over = True\n",
        PAUSES,
    ),
    _mutant(
        "a leader that goes leaves no record of what is free",
        LEADER_RECORD,
        " or (retiring and not self.complete):\n",
        ":\n",
        PAUSES,
    ),
    _mutant(
        "a leader that goes does not hear that its own session has gone",
        MEMBER,
        "        if isinstance(message, Disconnect):  # a leader here must know before it hands over\n",
        "        if False:\n",
        "tests/net/test_group_member.py",
    ),
    _mutant(
        "a new leader is not announced",
        LEADER,
        "        return [Announce(LeaderBegan(self.group, self._replica, self.epoch))]\n",
        "        return []\n",
        PAUSES,
    ),
    _mutant(
        "a leader is asked each time that it is announced",
        SESSION,
        "        if stamp <= self._last_stamp:\n",
        "        if False:\n",
        PROTOCOL,
    ),
    _mutant(
        "a stream is kept while the cursor is moved",
        LEADER,
        "frozenset() if self._replay.moving else self._owners.kept(session)",
        "self._owners.kept(session)",
        "tests/groups/test_replay.py",
    ),
    _mutant(
        "streams are taken from others for a session that does not hear the leader",
        BALANCE,
        "    sessions = [each for each in sessions if each.confirmed]\n",
        "",
        PROTOCOL,
    ),
    _mutant(
        "a session that does not hear the leader gets back what it had each time it asks",
        OWNERS,
        "(reservation is None or reservation.returns)",
        "True",
        PROTOCOL,
    ),
    _mutant(
        "the cursor is moved before everything was given back",
        LEADER,
        "        free = not known and not self._record.under_way\n",
        "        free = True\n",
        "tests/groups/test_replay.py",
    ),
    _mutant(
        "what was acknowledged before a replay is not delivered again",
        ASSIGNMENT,
        "                self._dispatcher.outstanding.forget_acknowledged()\n",
        "                pass\n",
        ASSIGNMENT_TESTS,
    ),
    _mutant(
        "who was not there when the cursor was moved remembers what was before",
        SESSION,
        "        if (streams_count, replays) == (self.streams_count, self.replays):\n",
        "        if streams_count == self.streams_count:\n",
        PROTOCOL,
    ),
    _mutant(
        "a stream is opened while others are there that have to be forgotten",
        HELD,
        "        if self._forgetting or self.leaving:\n",
        "        if self.leaving:\n",
        PROTOCOL,
    ),
    _mutant(
        "a stream without a lease comes back by itself",
        ASSIGNMENT,
        "        consumer.upstream.hold_back()\n",
        "        pass\n",
        ASSIGNMENT_TESTS,
    ),
    _mutant(
        "what was queued before the process stood still is sent",
        "proxy/aio/transport.py",
        "        if self._pieces and flush_by < math.inf and time.monotonic() >= flush_by:\n",
        "        if False:\n",
        "tests/net/test_aio.py",
    ),
    _mutant(
        "what is pushed leaves without a look at its lease",
        "proxy/aio/transport.py",
        " and self._flush_by == math.inf:\n",
        ":\n",
        "tests/net/test_aio.py",
    ),
    _mutant(
        "frames may leave at any time",
        "proxy/net/subscription/subscription.py",
        "            subscriber.link.limit(leases.end - self.state.now())\n",
        "            pass\n",
        ASSIGNMENT_TESTS,
    ),
    _mutant(
        "what was given up is drained",
        ASSIGNMENT,
        "        left_s = 0.0 if consumer is not None and consumer.upstream.parked else max(deadline",
        "        left_s = max(deadline",
        ASSIGNMENT_TESTS,
    ),
    _mutant(
        "the cursor is moved before it is stored that it will be",
        LEADER_RECORD,
        "        self._replays += 1\n",
        "        self._replays += 0\n",
        "tests/groups/test_replay.py",
    ),
    _mutant(
        "leaders stay where they are",
        "proxy/groups/succession.py",
        "    if own not in leads or leads[own] - min(leads.values()) <= 1:\n",
        "    if True:\n",
        "tests/groups/test_succession.py",
    ),
    _mutant(
        "who waits to lead lets nobody go first",
        MANAGER,
        "        waits_too = self.state is State.CANDIDATE and replica != self._replica\n",
        "        waits_too = False\n",
        "tests/groups/test_succession.py",
    ),
    _mutant(
        "nobody insists where a broker has forgotten who waits",
        MEMBER,
        "            self._topic.insist()\n",
        "            pass\n",
        "tests/net/test_group_member.py",
    ),
    _mutant(
        "a leader that is silent keeps all standing",
        MEMBER,
        "            self._topic.fence()\n",
        "            pass\n",
        "tests/net/test_group_member.py",
    ),
    _mutant(
        "nobody asks whether a silent replica's streams are consumed",
        GROUPS,
        "        member.replica_silent = partial(self._probes.suspect_in, member)\n",
        "",
        "tests/sim/test_deployment.py::test_keys_of_a_replica_that_stands_still_wait_as_short_by_streams_as_with_an_owner",
    ),
    _mutant(
        "streams that are kept for a silent replica are not asked for",
        LEADER,
        "for stream, session in self._owners.known() if session.replica == replica]",
        "for stream, session in self.owners.items() if session.replica == replica]",
        "tests/groups/test_leader.py",
    ),
    _mutant(
        "a leader finds that leases are over at its next renewal",
        LEADER,
        ", self._gives_way_at, self._owners.reservations_end_at]\n",
        ", self._gives_way_at]\n",
        "tests/groups/test_leader.py",
    ),
    _mutant(
        "a leader finds that a session is overdue at its next renewal",
        LEADER,
        "        times += [session.overdue_at(self._timing) for session in self._sessions.values()]\n",
        "",
        "tests/groups/test_leader.py",
    ),
    _mutant(
        "a leader finds that a replica is silent at its next renewal",
        LEADER,
        "        times += self._silences.due(self._sessions, self._owners.reserved_for)\n",
        "",
        "tests/groups/test_leader.py",
    ),
    _mutant(
        "what a silent leader consumes is looked at when another leads",
        MEMBER,
        "            self.replica_silent(self.session.leader)\n",
        "            pass\n",
        "tests/net/test_group_member.py",
    ),
    _mutant(
        "leases of the leader before are waited for since the first record",
        MANAGER,
        "self._timing, self._granted_at, now)\n",
        "self._timing, now, now)\n",
        "tests/groups/test_manager.py",
    ),
    _mutant(
        "a bundle that an operator has moved goes back when the order is taken back",
        "proxy/groups/reach.py",
        " for bundle, pin in self._pins.items() if bundle not in ordered}\n",
        " for bundle, pin in self._pins.items()}\n",
        "tests/groups/test_reach.py",
    ),
    _mutant(
        "a cursor is not moved because somebody looks whether a replica lives",
        "proxy/net/group/reposition.py",
        " and self._tries < TRIES:\n",
        " and not self._tries:\n",
        "tests/net/test_group_reposition.py",
    ),
    _mutant(
        "who hears nothing at all fences a leader",
        MEMBER,
        "            and now - self._heard_self_at < 2 * self._timing.find_leader_s\n",
        "",
        "tests/net/test_group_member.py",
    ),
    _mutant(
        "a leader that stood still speaks on",
        MANAGER,
        "        stood_still = now - self._ran_at > self._timing.silent_s\n",
        "        stood_still = False\n",
        "tests/groups/test_manager.py",
    ),
    _mutant(
        "what is being closed is not told to the next leader",
        HELD,
        "        return tuple(self.state_of(stream) for stream in self._holdings)\n",
        "        return tuple(self.state_of(each) for each, how in self._holdings.items() if how is Holding.HELD)\n",
        "tests/groups/test_session.py",
    ),
    _mutant(
        "a replica that leaves opens what it has closed",
        HELD,
        "        if self._forgetting or self.leaving:\n",
        "        if self._forgetting:\n",
        "tests/groups/test_session.py",
    ),
    _mutant(
        "a lease is as long as the session's own replica is configured",
        SESSION,
        "sent_at + self._lease_s\n",
        "sent_at + self._timing.lease_s\n",
        "tests/groups/test_session.py",
    ),
    _mutant(
        "longer leases of the leader before are not waited for",
        "proxy/groups/timing.py",
        "max(before_s, self.lease_s) * 1.1",
        "self.lease_s * 1.1",
        "tests/groups/test_leader.py",
    ),
    _mutant(
        "an order that was taken back comes again with a late repetition",
        "proxy/groups/kept_orders.py",
        "(orders.number <= before.number or orders.overlooks(before))",
        "orders.overlooks(before)",
        "tests/net/test_shared_orders.py",
    ),
    _mutant(
        "a replica that was cut off overrides what the next owner had kept",
        "proxy/groups/kept_orders.py",
        "(orders.number <= before.number or orders.overlooks(before))",
        "orders.number <= before.number",
        "tests/net/test_shared_orders.py",
    ),
    _mutant(
        "a subscription that an operator has moved is moved back",
        BALANCE,
        "        movable = each.granted - wanted.keys()\n",
        "        movable = each.granted\n",
        "tests/groups/test_ownership.py",
    ),
    _mutant(
        "legs of a replica that shows no sign of life stay",
        "proxy/net/owner/pulses.py",
        "        for leg in legs:\n            leg.give_up(reason)\n",
        "",
        "tests/net/test_owner_pulses.py",
    ),
    _mutant(
        "a replica's clients stay when it shows no sign of life",
        "proxy/net/owner/door.py",
        "        self._pulses.watch(told.teller, knock)\n",
        "",
        "tests/net/test_owner_door.py",
    ),
    _mutant(
        "a connection for signs of life that was lost is not dialled again",
        "proxy/net/owner/pulses.py",
        "            self._redial.set(REDIAL_S, self._consider_dialling)\n",
        "            pass\n",
        "tests/net/test_owner_pulses.py",
    ),
    _mutant(
        "a worker that waits at a former owner is refused",
        "proxy/net/session/worker.py",
        "        if lead_on is not None:\n",
        "        if False:\n",
        "tests/net/test_owner_legs.py",
    ),
    _mutant(
        "an owner goes on with what it was given beside a dead one",
        "proxy/net/subscription/upstream.py",
        "        if self.former.asked or self._was_beside():\n",
        "        if self.former.asked:\n",
        "tests/net/test_subscription_owned.py",
    ),
    _mutant(
        "who leads keeps its consumer of the group's topic",
        READER,
        "        self.close()\n        self._read(self._memory)\n",
        "        self._timer.cancel()\n        self._read(self._memory)\n",
        "tests/net/test_group_topic.py",
    ),
    _mutant(
        "a leader that was overtaken waits in line again at once",
        MANAGER,
        "        Event.OVERTAKEN: _AGAIN_LATER,\n",
        "        Event.OVERTAKEN: _AGAIN,\n",
        "tests/groups/test_manager.py",
    ),
    _mutant(
        "a leader is taken for silent that could not be heard yet",
        MEMBER,
        "                if self._heard_self_at == -inf:\n",
        "                if self._over:\n",
        "tests/net/test_group_member.py",
    ),
    _mutant(
        "a leader does not hear of the next",
        MANAGER,
        "        overtaken = self.leader is not None and epoch > self.leader.epoch\n",
        "        overtaken = False\n",
        "tests/groups/test_manager.py",
    ),
    _mutant(
        "a stream goes while workers have some of it",
        ASSIGNMENT,
        "if release.stage is Stage.DRAINING and not streams_here.pending_in(self._dispatcher, stream):",
        "if release.stage is Stage.DRAINING:",
        ASSIGNMENT_TESTS,
    ),
    _mutant(
        "a stream goes before the broker has confirmed its acks",
        ASSIGNMENT,
        "            release.unconfirmed = set(outstanding.unconfirmed)\n",
        "            release.unconfirmed = set()\n",
        ASSIGNMENT_TESTS,
    ),
    _mutant(
        "what was read ahead stays when its stream goes",
        ASSIGNMENT,
        "        streams_here.forget_stream(self._dispatcher, stream, self._now())\n",
        "",
        ASSIGNMENT_TESTS,
    ),
    _mutant(
        "a stream that goes is fetched",
        ASSIGNMENT,
        "            consumer.fetching = False\n",
        "",
        ASSIGNMENT_TESTS,
    ),
    _mutant(
        "the deadline of an earlier release closes a stream",
        ASSIGNMENT,
        "        release.deadline.cancel()\n        self._drop(",
        "        self._drop(",
        ASSIGNMENT_TESTS,
    ),
    _mutant(
        "a worker that comes while the session leaves gets nothing",
        ASSIGNMENT,
        "            self.workers_changed(len(subscription.subscribers))\n",
        "",
        ASSIGNMENT_TESTS,
    ),
    _mutant(
        "leases never run out",
        LEASES,
        "        return now >= self.until\n",
        "        return False\n",
        "tests/core/test_stream_leases.py tests/core/test_streams_here.py",
    ),
    _mutant(
        "what waited for a lease is not looked at",
        STREAMS_HERE,
        "        dispatcher.settle_waiting(now)\n        dispatcher.serve_begun(now)\n",
        "        assert now >= 0\n",
        CORE,
    ),
    _mutant(
        "a producer that comes too late is kept",
        TOPIC,
        "        if not self._wanted or self._held is not None:\n            producer.close()\n            return\n",
        "",
        "tests/net/test_group_topic.py",
    ),
    _mutant(
        "a record that may not have been stored is no loss",
        TOPIC,
        '        self._lose(f"a record was not stored within {STORE_S_MAX:g} s")\n',
        "        return\n",
        "tests/net/test_group_topic.py",
    ),
    _mutant(
        "the last record of a group is let go",
        READER,
        "            consumer.acknowledge_up_to(self._memory_at)\n",
        "            consumer.acknowledge_up_to(position)\n",
        "tests/net/test_group_topic.py",
    ),
    _mutant(
        "a better producer of another replica is not waited for",
        ELECTION,
        "        if due is None or (self._gives_way(due) and not self._impatient):\n",
        "        if due is None:\n",
        RIVALRY,
    ),
    _mutant(
        "a turn is kept from a better producer of another replica",
        ELECTION,
        "        if contender.stage is Stage.PARKED and self._gives_way(contender):\n",
        "        if False:\n",
        RIVALRY,
    ),
    _mutant(
        "the broker's trouble ends the grace of a returning owner",
        BACK_OFF,
        "        if grace_left_s > 0 and self._election.held is Hold.ALL:\n",
        "        if False:\n",
        OWNERSHIP,
    ),
    _mutant(
        "an owner that is refused for ever is waited for as long",
        BACK_OFF,
        "            self._newcomers_until = min(now + self._grace_s, self._refused_until)\n",
        "            self._newcomers_until = now + self._grace_s\n",
        OWNERSHIP,
    ),
    _mutant(
        "patience with a producer of another replica has no end",
        ELECTION,
        "        self._impatient = True\n",
        "        self._impatient = False\n",
        RIVALRY,
    ),
    _mutant(
        "a replica that is not heard of any more is believed for ever",
        RIVALS,
        "each[1] + EXPIRY_S <= now",
        "False",
        RIVALRY,
    ),
    _mutant(
        "a producer that nobody waits for any more holds its topic",
        PRODUCER,
        "or (self.state is State.OVER and not isinstance(reply, Exception)):",
        "or False:",
        "tests/net/test_gateway_producer.py",
    ),
    _mutant(
        "a topic is removed that says who may deliver",
        LEADER,
        "return self.settled and not self._sessions and not self._record.needed",
        "return self.settled and not self._sessions",
        "tests/groups/test_manager.py",
    ),
    _mutant(
        "the deployment's topic goes with its last replica",
        MANAGER,
        "if ended and not is_deployment(self.group):",
        "if ended:",
        "tests/groups/test_manager.py",
    ),
    _mutant(
        "a group that comes back begins with the first epoch again",
        TOPIC,
        "memory = replace(memory, epoch=int(self._clock.time() * 1_000))",
        "pass",
        TOPIC_TESTS,
    ),
    _mutant(
        "a replica does not wait for its group's topic to go",
        MEMBER,
        "self.manager.state is ManagerState.OUT and not self._removing and",
        "self.manager.state is ManagerState.OUT and",
        "tests/net/test_group_member.py",
    ),
    _mutant(
        "a topic is swept at once",
        LOOK,
        "self._timer.set(timing.alone_s, lambda: self._alone(due + timing.late_s))",
        "self._timer.set(0.0, lambda: self._alone(due + timing.late_s))",
        SWEEP_TESTS,
    ),
    _mutant(
        "a replica that stood still sweeps a topic",
        LOOK,
        "if self._clock.now() > latest:",
        "if self._clock.now() > latest + 1_000:",
        SWEEP_TESTS,
    ),
    _mutant(
        "the deployment's topic is swept",
        SWEEP,
        "self._done = {group_topic_name(namespace, DEPLOYMENT)}",
        "self._done: set[str] = set()",
        SWEEP_TESTS,
    ),
    _mutant(
        "an operator may remove the deployment's topic",
        GROUP_TOPICS,
        "if kind in _KEPT:",
        "if kind is MAIL:",
        GROUP_TOPICS_TESTS,
    ),
    _mutant(
        "a topic that is not there is made in order to remove it",
        GROUP_TOPICS,
        "elif self._topic not in names:",
        "elif not names:",
        GROUP_TOPICS_TESTS,
    ),
    _mutant(
        "a list keeps the producers of the topics that it looks at",
        LOOK,
        "if self._removes is None:",
        "if self._over is None:",
        GROUP_TOPICS_TESTS,
    ),
    _mutant(
        "a producer fences while the broker promotes one that waits there",
        TOPIC_ELECTION,
        "if (self._parked or self.broker_queue.has_abandoned) and",
        "if self.broker_queue.has_abandoned and",
        OWNERSHIP,
    ),
    _mutant(
        "a producer fences while the broker promotes one that has left",
        TOPIC_ELECTION,
        "if (self._parked or self.broker_queue.has_abandoned) and",
        "if self._parked and",
        OWNERSHIP,
    ),
    _mutant(
        "those that left the broker's queue take no time",
        BROKER_QUEUE,
        "PROMOTION_S_MAX + self._abandoned * ABANDONED_S_MAX",
        "PROMOTION_S_MAX",
        OWNERSHIP,
    ),
    _mutant(
        "all that ever left the broker's queue are waited for",
        BROKER_QUEUE,
        "min(self._abandoned + 1, ABANDONED_MAX)",
        "self._abandoned + 1",
        OWNERSHIP,
    ),
    _mutant(
        "those that left the broker's queue are waited for after it has moved past them",
        BROKER_QUEUE,
        "        self._abandoned = 0\n        self.settled()",
        "        self.settled()",
        OWNERSHIP,
    ),
    _mutant(
        "a producer fences though the broker stood still while it should have promoted",
        OWNERSHIP_CHANGES,
        "if taking.election.broker_queue.in_doubt:",
        "if False:",
        OWNERSHIP,
    ),
    _mutant(
        "a producer fences as soon as a broker that stood still has answered",
        OWNERSHIP_CHANGES,
        "        if awake is not None:\n            self._clock.call_later(AWAKE_S_MIN, awake)\n",
        "        if awake is not None:\n            awake()\n",
        OWNERSHIP,
    ),
    _mutant(
        "a promotion by the broker that is over holds up a producer that fences",
        BROKER_QUEUE,
        "        if self._promotions.is_set:",
        "        if False:",
        OWNERSHIP,
    ),
)
