"""Faults of what decides who gets which message when, for `mutants`."""

from __future__ import annotations

from typing import Final

from tests.sim.mutant import Mutant

DISPATCHER: Final = "proxy/core/dispatcher.py"
TARGETS: Final = "proxy/core/targets.py"
SERVING: Final = "proxy/core/serving.py"
UNBLOCKING: Final = "proxy/core/unblocking.py"
CHUNKED: Final = "proxy/core/chunked.py"
ACKNOWLEDGEMENT: Final = "proxy/core/acknowledgement.py"
JOIN_GATES: Final = "proxy/core/join_gates.py"
MEMBERSHIP: Final = "proxy/core/membership.py"
OUTSTANDING: Final = "proxy/core/outstanding.py"
WAITING: Final = "proxy/core/waiting.py"
CUTTING: Final = "proxy/core/cutting.py"
SELECTORS: Final = "proxy/core/selectors"

MUTANTS: Final = (
    Mutant(
        "what only the broker has leaves without its bytes",
        SERVING,
        "            if not part.tail and part.position in self.outstanding.spill.sizes:\n",
        "            if not part.position:\n",
        tests="tests/core/test_spilling.py",
    ),
    Mutant(
        "redeliveries that the gateway asked for are told to clients",
        OUTSTANDING,
        "            redeliveries -= self.spill.caused(position)\n",
        "",
        tests="tests/core/test_spilling.py",
    ),
    Mutant(
        "what a worker gives back without its bytes is in the look-ahead again",
        ACKNOWLEDGEMENT,
        "        dispatcher.outstanding.spill.waits((part,))\n",
        "",
        tests="tests/core/test_spilling.py",
    ),
    Mutant(
        "a slot that waits for bytes is not looked at when they are here",
        "proxy/core/spilling.py",
        "    dispatcher.settle([slot for slot in slots if slot in dispatcher.blocked], now)\n",
        "",
        tests="tests/core/test_spilling.py",
    ),
    Mutant(
        "keys that move are let go of, and fetched again",
        "proxy/core/spilling.py",
        "of_slot if _worker_of(dispatcher, slot) in moving else even, most)",
        "even, most)",
        tests="tests/core/test_spilling.py",
    ),
    Mutant(
        "a key is taken for one that moves because its next owner does",
        "proxy/core/spilling.py",
        "dispatcher.workers.get(dispatcher.slots.holder(slot)) or ",
        "",
        tests="tests/core/test_spilling.py",
    ),
    Mutant(
        "nobody looks whether keys that moved still do",
        "proxy/net/subscription/refetch.py",
        "                self._still.set(spilling.STILL_S, self._look_again)\n",
        "                pass\n",
        tests="tests/net/test_subscription_refetch.py",
    ),
    Mutant(
        "a batch goes beyond the permits",
        DISPATCHER,
        "                and owner.permits >= count\n",
        "                and owner.permits > 0\n",
    ),
    Mutant(
        "a slot with messages at another worker does not wait",
        TARGETS,
        "            if holder and (owner is None or holder != owner.index):\n",
        "            if holder and owner is None:\n",
    ),
    Mutant(
        "a grant wakes nobody",
        DISPATCHER,
        "        if worker.ready or self.chunked:\n            self.serve(worker, now)\n",
        "",
    ),
    Mutant(
        "a socket that empties wakes nobody",
        DISPATCHER,
        "        if worker.reconsider() or (writable and self.chunked):",
        "        if worker.reconsider() and False:",
    ),
    Mutant(
        "a slot that has drained is not looked at",
        DISPATCHER,
        "                if slot in self.blocked:\n                    free.append(slot)\n",
        "",
    ),
    Mutant(
        "each slot that comes free makes the interval longer",
        UNBLOCKING,
        "        if self.due_at is None:\n            self.due_at = now",
        "        if self.interval_s:\n            self.due_at = now",
        tests="tests/core/test_unblocking.py",
    ),
    Mutant(
        "an interval ends for the first slot alone",
        UNBLOCKING,
        "        released = tuple(self.held)\n",
        "        released = tuple(self.held)[:1]\n",
    ),
    Mutant(
        "a slot that came free waits for no interval",
        DISPATCHER,
        "            self.unblocking.hold(slot, now)\n",
        "",
        tests="tests/core/test_unblocking.py",
    ),
    Mutant(
        "what arrives meanwhile opens a slot before the interval ends",
        TARGETS,
        "if slot in self.unblocking.held or (slot in self.diversions.held and self.diversions.holds(slot, head)):\n",
        "if slot in self.diversions.held and self.diversions.holds(slot, head):\n",
        tests="tests/core/test_unblocking.py",
    ),
    Mutant(
        "a seek leaves slots held",
        "proxy/core/reposition.py",
        "    dispatcher.unblocking.clear()\n",
        "",
        tests="tests/core/test_unblocking.py",
    ),
    Mutant(
        "one message too many",
        SERVING,
        "while ready and worker.open and worker.permits > 0 and",
        "while ready and worker.open and worker.permits >= 0 and",
    ),
    Mutant(
        "a paused subscription delivers",
        SERVING,
        "while ready and worker.open and worker.permits > 0 and not self.paused:",
        "while ready and worker.open and worker.permits > 0:",
    ),
    Mutant(
        "a drained worker gets more",
        "proxy/core/worker.py",
        "self.writable and not self.over_unacked and not self.drained_by_operator",
        "self.writable and not self.over_unacked",
    ),
    Mutant(
        "a drain that ended is still counted",
        DISPATCHER,
        "        holder.draining_slots -= 1\n",
        "",
    ),
    Mutant("a batch counts once", SERVING, "        worker.permits -= count\n", "        worker.permits -= 1\n"),
    Mutant(
        "a batch counts once when it goes at once",
        DISPATCHER,
        "                    owner.permits -= count\n",
        "                    owner.permits -= 1\n",
    ),
    Mutant(
        "what waits for a pause is forgotten",
        DISPATCHER,
        "        self._set_direct()\n        self.settle_waiting(now)\n",
        "        self._set_direct()\n",
    ),
    Mutant(
        "a message that came later overtakes what waits for permits",
        DISPATCHER,
        "                and not owner.ready\n",
        "",
        tests="tests/core/test_streams_here.py",
    ),
    Mutant(
        "a message of a batch overtakes",
        TARGETS,
        " else None\n            group = target.index",
        " else self.select(slot)\n            group = target.index",
    ),
    Mutant(
        "a piece of a batch overtakes what waits for its worker",
        SERVING,
        "                target.ready\n                or not target.open\n",
        "                not target.open\n",
        tests="tests/core/test_batches.py",
    ),
    Mutant(
        "a piece of a batch leaves though its worker waits for what was sent before it joined",
        SERVING,
        "                or target.join_gate is not None\n",
        "",
        tests="tests/core/test_batches.py",
    ),
    Mutant(
        "a piece of a batch leaves beyond the permits",
        SERVING,
        "                or target.permits < piece.count\n",
        "",
    ),
    Mutant(
        "a batch's messages go to their owners while a slot drains",
        TARGETS,
        "        if self.draining.count or self.blocked or (self.leases",
        "        if (self.leases",
    ),
    Mutant(
        "batches that wait whole keep no bytes for being cut",
        "proxy/core/upstream_window.py",
        " - waiting_messages * PART_BYTES",
        "",
        tests="tests/core/test_upstream_window.py",
    ),
    Mutant(
        "messages of a batch overtake what was sent less often",
        SERVING,
        "            return self._first_of(part, ahead, ready)\n",
        "            return part\n",
        "tests/core/test_batches.py",
    ),
    Mutant(
        "a slice leaves twice",
        SERVING,
        "                join(part, ready.popleft())\n",
        "                join(part, ready[0])\n",
    ),
    Mutant(
        "an index is shifted",
        CUTTING,
        "    narrow(part, left)\n    return other\n",
        "    narrow(part, tuple(index - 1 for index in left))\n    return other\n",
    ),
    Mutant(
        "the rest of a batch that was cut is forgotten",
        SERVING,
        "                insert_all(ready, (part,))\n                part = head\n            # `_leave_queue`",
        "                part = head\n            # `_leave_queue`",
    ),
    Mutant(
        "what a worker that does not read never got keeps its slots",
        "proxy/core/membership.py",
        "        self._take_unsent()\n        changed",
        "        changed",
        tests="tests/core/test_membership.py",
    ),
    Mutant(
        "what a worker leaves behind is lost",
        MEMBERSHIP,
        "    units = list(worker.pending.values())\n",
        "    units: list[object] = []\n",
    ),
    Mutant("what comes back goes to the end", WAITING, "queue.extendleft(reversed(ordered))", "queue.extend(ordered)"),
    Mutant(
        "what comes back among others goes to the end",
        WAITING,
        "queue.insert(bisect_left(queue, part.order, key=topic_order), part)",
        "queue.append(part)",
    ),
    Mutant(
        "an ack of some messages counts for all",
        ACKNOWLEDGEMENT,
        "    _ack_bits(dispatcher, unit, worker, ~unacked & ((1 << unit.count) - 1), now)\n",
        "    _ack_bits(dispatcher, unit, worker, (1 << unit.count) - 1, now)\n",
    ),
    Mutant("what was acknowledged is sent again", ACKNOWLEDGEMENT, "        forget_acked(part)\n", ""),
    Mutant(
        "what is asked for again is not looked at",
        ACKNOWLEDGEMENT,
        "    dispatcher.settle(slots, now)\n",
        "",
    ),
    Mutant(
        "an entry is done with a message left",
        ACKNOWLEDGEMENT,
        "        elif batch.parts:\n            outstanding",
        "        elif len(batch.parts) > 1:\n            outstanding",
    ),
    Mutant(
        "an ack by one who does not hold it counts",
        ACKNOWLEDGEMENT,
        "    unit = worker.pending.pop(key, None)\n    if unit is None:\n",
        "    holder = next((w for w in dispatcher.workers.values() if key in w.pending), worker)\n"
        "    worker = holder\n    unit = worker.pending.pop(key, None)\n    if unit is None:\n",
    ),
    Mutant(
        "a join gate never opens",
        JOIN_GATES,
        "    gated[at].entries -= 1\n",
        "    gated[at].entries -= 0\n",
    ),
    Mutant(
        "a join gate holds nothing back",
        SERVING,
        "ready[0].position > gate.position and not ready[0].foreign:\n",
        "ready[0].position < 0:\n",
        tests="tests/core/test_pip_282.py",
    ),
    Mutant(
        "an unacknowledged limit never ends",
        ACKNOWLEDGEMENT,
        "    if worker.over_unacked:\n        reopen(dispatcher, worker, now)\n    if unit.redeliveries",
        "    if unit.redeliveries",
    ),
    Mutant(
        "confirmed acks are forgotten",
        OUTSTANDING,
        "        elif position in self.unconfirmed or self.was_confirmed(position):",
        "        elif position in self.unconfirmed:",
    ),
    Mutant(
        "a cursor that was moved back is not noticed",
        "proxy/core/reposition.py",
        " or (least is not None and mark_delete < least)",
        "",
        "tests/net/test_subscription_cursor.py",
    ),
    Mutant(
        "entries that workers hold are taken for news after a reconnect",
        OUTSTANDING,
        "        if known is not None:\n",
        "        if known is not None and not redeliveries:\n",
    ),
    Mutant(
        "ids of slices do not tell them apart",
        "proxy/core/slice_id.py",
        "_DIGEST_MASK: Final = (1 << DIGEST_BITS) - 1",
        "_DIGEST_MASK: Final = 0",
        tests="tests/core/test_slice_id.py",
    ),
    Mutant(
        "the rest of a chunked message goes to the new owner",
        TARGETS,
        "        return None if waits else worker\n",
        "        return None\n",
        tests="tests/core/test_chunks.py",
    ),
    Mutant(
        "the rest of a chunked message waits for a retry or a dead letter of its key",
        TARGETS,
        "        if self.chunked.is_returned(part):\n",
        "        if True:\n",
        tests="tests/core/test_chunks.py",
    ),
    Mutant(
        "a chunk passes one before it that came back",
        CHUNKED,
        "index <= part.chunk.index for",
        "index == part.chunk.index for",
        tests="tests/core/test_chunks.py",
    ),
    Mutant(
        "a queue behind a chunk that is not here is gone through by calls in calls",
        SERVING,
        "        self.settle(sent, now)\n",
        "        self.settle(begun, now)\n",
        tests="tests/core/test_spilling.py",
    ),
    Mutant(
        "a later chunk comes again before the first",
        CHUNKED,
        "            if chunk.index and (chunk.uuid, chunk.index - 1) in pending:\n",
        "            if chunk.index:\n",
        tests="tests/core/test_chunks.py",
    ),
    Mutant(
        "a worker at its limit never gets the rest of its message",
        SERVING,
        "        if self.chunked and worker.permits > 0 and worker.writable and not self.paused:\n",
        "        if self.chunked and worker.open and worker.permits > 0 and not self.paused:\n",
        tests="tests/core/test_chunks.py",
    ),
    Mutant(
        "a ring's point belongs to the next worker",
        f"{SELECTORS}/consistent_hashing.py",
        "return self._workers[self._owners[bisect_left(self._points, slot)]]",
        "return self._workers[self._owners[bisect_left(self._points, slot + 1)]]",
        tests="tests/core/selectors",
    ),
    Mutant(
        "slot 0 holds keys",
        "proxy/core/sticky_key.py",
        "return murmur % RANGE_SLOT_COUNT or 1",
        "return murmur % RANGE_SLOT_COUNT",
        tests="tests/core/test_sticky_key.py",
    ),
    Mutant(
        "draining is not noted",
        MEMBERSHIP,
        "            dispatcher.holder_at(holder).draining_slots += draining.begin(slots, change)\n",
        "            draining.begin(slots[:0], change)\n",
        tests="tests/core/test_pip_379.py",
    ),
    Mutant(
        "a slot that returns to its owner still drains",
        MEMBERSHIP,
        "        for slot in held.pop(owner, ()):\n            if draining.end(slot) is not None:",
        "        for slot in held.pop(owner, ()):\n            if slot < 0:",
        tests="tests/core/test_pip_379.py",
    ),
    Mutant(
        "permits upstream are counted by entries",
        "proxy/core/upstream_window.py",
        "        self.outstanding -= messages\n",
        "        self.outstanding -= 1\n",
    ),
    Mutant(
        "what is let go of its bytes at once has no bound",
        "proxy/core/spilling.py",
        " or dispatcher.outstanding.spill.messages > most:\n",
        ":\n",
        tests="tests/core/test_spilling.py",
    ),
)
