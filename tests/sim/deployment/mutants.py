"""Faults put into owner mode by hand: see `tests.sim.mutants`. The simulator of deployments is asked first."""

from __future__ import annotations

from typing import Final

from tests.sim.mutant import Mutant

ASSIGNMENT: Final = "proxy/net/group/assignment.py"
BUNDLES: Final = "proxy/net/owner/bundle_streams.py"
LEGS: Final = "proxy/net/owner/legs.py"
REACH: Final = "proxy/groups/reach.py"
LOOKS: Final = "proxy/net/owner/leg_looks.py"
LEADER: Final = "proxy/groups/leader.py"
LOT: Final = "proxy/net/subscription/parking.py"
OUT: Final = "proxy/net/subscription/taking_out.py"
SHARED_ORDERS: Final = "proxy/net/owner/shared_orders.py"


def _mutant(name: str, file: str, right: str, wrong: str, tests: str = "") -> Mutant:
    return Mutant(f"owners: {name}", file, right, wrong, tests, simulated=False, deployed=True)


MUTANTS = (
    _mutant(
        "one delivers after its lease is over",
        BUNDLES,
        "        now, end = self._clock.now(), until - self._send_s\n",
        "        now, end = self._clock.now(), until + 60.0\n",
    ),
    _mutant(
        "what replicas say comes over connections that are not read while the memory is used up",
        "proxy/net/broker/directory.py",
        "        self._locate(topic, self._pool, found)\n",
        "        self._locate(topic, self._deliveries.pool, found)\n",
    ),
    _mutant(
        "a hand-over waits for an answer that is not read",
        "proxy/net/broker/consumer.py",
        "    waits = link.reading\n",
        "    waits = True\n",
        "tests/net/test_subscription_owned.py",
    ),
    _mutant(
        "a bundle that goes is delivered on",
        BUNDLES,
        "            held.stage = Stage.RELEASING\n"
        "            for owned in list(held.subscriptions.values()):\n"
        "                owned.hold()\n",
        "            held.stage = Stage.RELEASING\n",
    ),
    _mutant(
        "a bundle is handed over while workers have some of it",
        BUNDLES,
        "            if idle or late:\n",
        "            if True:\n",
    ),
    _mutant(
        "what is handed over stays at the broker",
        BUNDLES,
        "        owned.give_up(closed)\n",
        "        closed()\n",
    ),
    _mutant(
        "a replica serves what it does not own",
        BUNDLES,
        "        if not count or not self.open_here(bundle_of(*key, count)):\n",
        "        if not count:\n",
    ),
    _mutant(
        "a new leader does not wait for the leases of the one before",
        LEADER,
        "StreamOwners(memory, timing.kept_until(memory.lease_s, granted_at, now))\n",
        "StreamOwners(memory, granted_at)\n",
    ),
    _mutant(
        "what is kept for a replica is free",
        "proxy/groups/stream_owners.py",
        " and stream not in self._owners and stream not in self._reserved\n",
        " and stream not in self._owners\n",
    ),
    _mutant(
        "a lease is counted from its arrival",
        "proxy/groups/session.py",
        "                self._lease_until = sent_at + self._lease_s\n",
        "                self._lease_until = sent_at + 3 * self._lease_s\n",
    ),
    _mutant(
        "a replica that stood still passes on what it finds in its legs",
        "proxy/net/owner/standstill.py",
        "        if gap_s < self._gap_s:\n",
        "        if True:\n",
        "tests/net/test_owner_legs.py tests/net/test_owner_door.py",
    ),
    _mutant(
        "replicas are as patient with each other as with clients",
        "proxy/app/owner_parts.py",
        "        pulse_s = min(limits.keep_alive_s, settings.group_lease_s / 2)\n",
        "        pulse_s = limits.keep_alive_s\n",
    ),
    _mutant(
        "nobody probes a silent owner's consumer",
        "proxy/net/group/holder_probes.py",
        "        for key in list(self._consumed.get(owner, ())):\n",
        "        for key in list(self._consumed.get(owner, ()))[:0]:\n",
        "tests/net/test_holder_probes.py",
    ),
    _mutant(
        "consumers at an owner that was dropped wait for it to close them",
        LEGS,
        "            if not self._owners.table.has(leg.owner.replica):\n",
        "            if False:\n",
        "tests/net/test_owner_legs.py",
    ),
    _mutant(
        "a client does not hear that its leg is lost",
        "proxy/net/owner/leg.py",
        '            yield close_frame(_T.CLOSE_CONSUMER, consumer_id) if ready else b""\n',
        '            yield b""\n',
    ),
    _mutant(
        "a client waits for a receipt that an owner which is gone owed",
        "proxy/net/owner/leg.py",
        "                yield refusal_frame(asked.kind, asked.body, message, code)\n",
        '                yield b"" if asked.kind == _T.ACK else refusal_frame(asked.kind, asked.body, message, code)\n',
        "tests/net/test_owner_receipts.py",
    ),
    _mutant(
        "the leg of a client that goes ends before its owner has read what it acknowledged",
        "proxy/net/owner/leg.py",
        "        if self._leg.ready and (self._consumers or self._closing):\n",
        "        if False:\n",
        "tests/net/test_owner_leaving.py",
    ),
    _mutant(
        "a leg to a former owner is kept",
        LEGS,
        "        for leg in dict.fromkeys(leg for each, leg in lost.items() if before.get(each) is leg):\n",
        "        for leg in ():\n",
        "tests/net/test_owner_legs.py",
    ),
    _mutant(
        "a refusal by a replica that owns it no more reaches the client",
        LEGS,
        "        if joining is None or not joining.deadline.is_set:\n            return False\n",
        "        if True:\n            return False\n",
        "tests/net/test_owner_legs.py",
    ),
    _mutant(
        "who waits for an owner does not hear of it",
        "proxy/net/owner/owners.py",
        "        if self.table.learn(record):\n            self.changed()\n",
        "        self.table.learn(record)\n",
        "tests/net/test_owner_legs.py",
    ),
    _mutant(
        "clients of a replica that stops get more",
        "proxy/net/owner/door.py",
        "        for leg in legs:\n            leg.stand_down()\n",
        "",
        "tests/net/test_owner_door.py",
    ),
    _mutant(
        "an owner lets others consume beside it",
        "proxy/net/subscription/upstream.py",
        "    claim(ours, ALL_SLOTS)\n",
        "",
    ),
    _mutant(
        "a replica takes what another serves for its own",
        "proxy/views/deployment.py",
        "        return None if owner is None else owner.replica\n",
        "        return None\n",
    ),
    _mutant(
        "only the owner learns of an order",
        SHARED_ORDERS,
        "            orders.paused, orders.mode, orders.limits = wanted.paused, wanted.mode, wanted.limits\n",
        "            orders.mode, orders.limits = wanted.mode, wanted.limits\n",
    ),
    _mutant(
        "an owner consumes alone where direct workers are",
        "proxy/net/subscription/whole_consumer.py",
        "    migrating = is_migrating(state.key, settings.migrating_subscriptions)\n",
        "    migrating = not owned and is_migrating(state.key, settings.migrating_subscriptions)\n",
    ),
    _mutant(
        "a silent owner is not asked for beside direct workers",
        "proxy/net/group/holder_probes.py",
        "            return sentinel_subscribe((topic, subscription), name)\n",
        '            return sentinel_subscribe((topic, f"{subscription}-not"), name)\n',
        "tests/net/test_holder_probes.py",
    ),
    _mutant(
        "an owner that was lost beside direct workers goes on with what they were given",
        "proxy/net/subscription/owned.py",
        "            if not self._exclusive:\n",
        "            if self._exclusive is None:\n",
        "tests/net/test_subscription_owned.py",
    ),
    _mutant(
        "one worker deletes the subscription of all",
        "proxy/net/subscription/requests.py",
        "        if self._lifecycle.worker_count > 1 and not command.force:\n",
        "        if self._lifecycle.worker_count > 99 and not command.force:\n",
    ),
    _mutant(
        "what was deleted is consumed again for no worker",
        "proxy/net/subscription/requests.py",
        "            self._consumers.close(tell_broker=False)\n",
        "            consumer = self._consumers.first_ready()\n"
        "            assert consumer is not None\n"
        "            consumer.lost(what, tell_broker=False)\n",
    ),
    _mutant(
        "an order ends with the owner that took it",
        SHARED_ORDERS,
        "        self._book.changed = self._changed\n",
        "",
    ),
    _mutant(
        "a new owner lets workers have as many messages of a key as they like",
        "proxy/net/subscription/order_book.py",
        "        return settings.changed(self.named())\n",
        "        return settings\n",
    ),
    _mutant(
        "a worker is let in before it is known which keys are parked",
        "proxy/net/subscription/admission.py",
        "        if whole is None or (whole.upstream.connects and not self.held):\n",
        "        if whole is None or whole.upstream.connects:\n",
    ),
    _mutant(
        "a new owner does not know which keys are parked",
        LOT,
        "            parking.mark(self._state.dispatcher, slot)\n",
        "            pass\n",
    ),
    _mutant(
        "a message that is parked is acknowledged before its copy is stored",
        "proxy/net/subscription/dead_letters.py",
        "            self._unconfirmed[self._producer.publish(message)] = part\n",
        "            self._arrive(part)\n",
    ),
    _mutant(
        "a redrive goes on before what is on its way into the lot has arrived",
        OUT,
        "        if held or self._way_in.is_coming(slot):\n",
        "        if held:\n",
        "tests/net/test_subscription_parking.py",
    ),
    _mutant(
        "a key goes on while messages of its redrive are unread",
        OUT,
        "        if parked is None:\n            self._finish(slot)\n",
        "        if parked is None or self._orders[slot]:\n            self._finish(slot)\n",
    ),
    _mutant(
        "what is redriven is deleted before a worker has acknowledged it",
        "proxy/net/subscription/redrives.py",
        "        parking.feed(state.dispatcher, part, state.now())\n",
        "        parking.feed(state.dispatcher, part, state.now())\n        self._log.acknowledge(at)\n",
    ),
    _mutant(
        "a receipt for a redriven message does not wait for the parking topic",
        LOT,
        "                self.log.when_acknowledged(positions, answer)\n",
        "                answer(None)\n",
    ),
    _mutant(
        "a parked key keeps the turn of a worker that does not read from ending",
        LOT,
        "        if len(dispatcher.touched) > full or dispatcher.outstanding.spill.wants:\n",
        "        if dispatcher.touched or dispatcher.outstanding.spill.wants:\n",
    ),
    _mutant(
        "an ack lease that ends takes nothing away in owner mode",
        "proxy/net/subscription/ack_leases.py",
        "        self._membership.close_each(workers, REASON)\n",
        "",
    ),
    _mutant(
        "what waits for an owner that is not reached is told to no leader",
        "proxy/net/owner/unreached.py",
        "        for owner in sorted(self._lost & self._waiting.keys()):\n",
        "        for owner in sorted(self._lost - self._lost):\n",
        "tests/net/test_unreached_owners.py",
    ),
    _mutant(
        "a bundle stays with an owner that its workers do not reach",
        REACH,
        "        return best if reached_by(best) > reached_by(owner) else None\n",
        "        return None\n",
        "tests/groups/test_reach.py",
    ),
    _mutant(
        "a bundle goes where no more workers are served than before",
        REACH,
        "        return best if reached_by(best) > reached_by(owner) else None\n",
        "        return best\n",
        "tests/groups/test_reach.py",
    ),
    _mutant(
        "a bundle goes before its owner has said whether it has workers",
        REACH,
        "            return None\n        served = bundle in serving.said.served\n",
        "            return asking[0].replica\n        served = bundle in serving.said.served\n",
        "tests/groups/test_reach.py",
    ),
    _mutant(
        "a leg that the network has forgotten is not asked",
        LOOKS,
        "        return verdict is Verdict.DEAD\n",
        "        return False\n",
        "tests/net/test_owner_leg_looks.py",
    ),
    _mutant(
        "the side that dialled does not hear that its leg is forgotten",
        LOOKS,
        "            self._tell(leg.name)\n",
        "",
        "tests/net/test_owner_leg_looks.py",
    ),
    _mutant(
        "a leg that owes nothing any more is taken for one that was heard",
        LOOKS,
        "        watched.owed |= leg.owes\n",
        "        watched.owed = leg.owes\n",
        "tests/net/test_owner_leg_looks.py",
    ),
    _mutant(
        "legs that the other replica has given up are not asked",
        "proxy/net/owner/pulses.py",
        "        if self._connections.pop(connection, None) is not None:\n            self._legs.ask_all()\n",
        "        self._connections.pop(connection, None)\n",
        "tests/net/test_owner_pulses.py",
    ),
    _mutant(
        "a leg whose client reads nothing is taken for forgotten",
        LOOKS,
        "        verdict = keep_alive.check(now, paused=leg.paused)\n",
        "        verdict = keep_alive.check(now, paused=False)\n",
        "tests/net/test_owner_leg_looks.py",
    ),
    _mutant(
        "a new owner does not ask for transactions that are open",
        "proxy/net/subscription/takeover.py",
        "        if asks is None or not wait_s:\n",
        "        if asks is None or wait_s:\n",
    ),
    _mutant(
        "a redriven message is taken in a transaction",
        "proxy/core/transactional_acks.py",
        "        if part.foreign:\n",
        "        if part.foreign and part.count < 0:\n",
    ),
    _mutant(
        "a stream that is held is delivered on",
        ASSIGNMENT,
        "        streams_here.hold_stream(self._dispatcher, stream, self._now())\n"
        "        consumer = self._subscription.consumers.get(stream)\n"
        "        assert consumer is not None\n",
        "        consumer = self._subscription.consumers.get(stream)\n        assert consumer is not None\n",
    ),
    _mutant(
        "a stream is handed over while workers have some of it",
        ASSIGNMENT,
        "Stage.DRAINING and not streams_here.pending_in(self._dispatcher, stream):\n",
        "Stage.DRAINING:\n",
    ),
    _mutant(
        "an owner goes on after a seek as if nothing had happened",
        "proxy/net/subscription/requests.py",
        "        state.acks.fail_receipts(ended_meanwhile())\n"
        "        state.transactions.end()\n        reposition.reset(",
        "        asker.tell(commands.success(wanted))\n        return\n        reposition.reset(",
    ),
)
