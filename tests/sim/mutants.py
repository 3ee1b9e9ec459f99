"""Faults put into the gateway by hand, each of which the simulator or the tests must notice: `make mutants`.

A mutant that survives is a missing checker. Each is a piece of source that is replaced in a copy of the project; a
piece that is not found exactly once is an error, so that the list follows the source. The simulator is asked first;
what it lets pass, the tests named beside it must catch.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from tests.groups.mutants import MUTANTS as OF_GROUPS
from tests.sim.dead_letter_mutants import MUTANTS as DEAD_LETTER_MUTANTS
from tests.sim.deployment.mutants import MUTANTS as OF_OWNERS
from tests.sim.lease_mutants import MUTANTS as LEASE_MUTANTS
from tests.sim.monitor_mutants import MUTANTS as MONITOR_MUTANTS
from tests.sim.mutant import Mutant
from tests.sim.transaction_mutants import MUTANTS as TRANSACTION_MUTANTS

ROOT = Path(__file__).parents[2]
COPIED = ("proxy", "admin_api", "integration", "tests", "pyproject.toml")
SEEDS = 150
DEPLOYMENTS = 300
TIMEOUT_S = 600.0


DISPATCHER = "proxy/core/dispatcher.py"
TARGETS = "proxy/core/targets.py"
SERVING = "proxy/core/serving.py"
UNBLOCKING = "proxy/core/unblocking.py"
CHUNKED = "proxy/core/chunked.py"
ACKNOWLEDGEMENT = "proxy/core/acknowledgement.py"
JOIN_GATES = "proxy/core/join_gates.py"
MEMBERSHIP = "proxy/core/membership.py"
COMING_AND_GOING = "proxy/net/subscription/membership.py"
OUTSTANDING = "proxy/core/outstanding.py"
CURSOR = "proxy/net/subscription/cursor.py"
WAITING = "proxy/core/waiting.py"
ENTRY = "proxy/core/entry.py"
SELECTORS = "proxy/core/selectors"

MUTANTS = (
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
        "an unblocking interval that ends wakes nobody",
        "proxy/net/subscription/subscription.py",
        "        if dispatcher.unblocking.held or dispatcher.retries.held:\n",
        "        if dispatcher.retries.held:\n",
    ),
    Mutant(
        "an entry overtakes one that is being opened",
        "proxy/net/subscription/receiving.py",
        "        if self._queued:\n            self._arrive_behind(head)\n            return\n        _, ledger",
        "        _, ledger",
    ),
    Mutant(
        "what waits to be opened outlives its consumer at the broker",
        "proxy/net/subscription/upstream_consumers.py",
        "            self.receiving.queue.clear()  # the broker sends it again\n",
        "",
        tests="tests/net/test_subscription_openings.py",
    ),
    Mutant(
        "what is opened in pieces is delivered without its last piece",
        "proxy/net/subscription/batch_slots.py",
        "            while len(slots) < count:\n",
        "            while len(slots) < count - step:\n",
    ),
    Mutant(
        "one that has more to open than fits a turn is forgotten",
        "proxy/net/subscription/receive_queue.py",
        "            self._openings.wait(self)\n            return False\n",
        "            return False\n",
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
        "an excluded worker that comes again takes part",
        COMING_AND_GOING,
        "        if name in services.orders.of(key).excluded:\n",
        "        if name in services.orders.of(key).drained:\n",
    ),
    *LEASE_MUTANTS,
    *TRANSACTION_MUTANTS,
    *DEAD_LETTER_MUTANTS,
    Mutant(
        "a window has room for one message more",
        TARGETS,
        "        return self.window - self.slots.count(slot) if self.window",
        "        return self.window + 1 - self.slots.count(slot) if self.window",
    ),
    Mutant(
        "an ack that makes room in a window wakes nobody",
        ACKNOWLEDGEMENT,
        "        elif dispatcher.window and slot in dispatcher.blocked:\n            dispatcher.settle((slot,), now)\n",
        "",
    ),
    Mutant(
        "an ack of some messages of a slice makes no room in a window",
        DISPATCHER,
        "            elif self.window and slot in self.blocked:\n                free.append(slot)\n",
        "",
        tests="tests/core/test_key_policy.py",
    ),
    Mutant(
        "what has a smaller batch overtakes one that does not fit the window",
        SERVING,
        "        if blocked is not None and blocked.parts[0].order < part.order:\n",
        "        if blocked is not None and part.attempts < 0:\n",
        tests="tests/core/test_key_policy_model.py",
    ),
    Mutant(
        "a batch that cannot be cut goes whatever is out",
        TARGETS,
        " or part.divisible or room == self.window)",
        " or part.divisible or room)",
        tests="tests/core/test_key_policy.py",
    ),
    Mutant(
        "a delivery under a key policy is of several keys",
        TARGETS,
        "            group = index if part.attempts else slot\n",
        "            group = index if part.attempts else 0\n",
    ),
    Mutant(
        "what is given back has no delay",
        ACKNOWLEDGEMENT,
        "                if dispatcher.policy.retry_delay_s:\n",
        "                if not wanted:\n",
    ),
    Mutant(
        "a retry that is due wakes nobody",
        "proxy/net/subscription/subscription.py",
        "        if dispatcher.unblocking.held or dispatcher.retries.held:\n",
        "        if dispatcher.unblocking.held:\n",
    ),
    Mutant(
        "of two delays of a key the first counts",
        "proxy/core/key_policy.py",
        "        if slot not in self.held or until > self.held[slot]:\n",
        "        if slot not in self.held:\n",
        tests="tests/core/test_key_policy.py",
    ),
    Mutant(
        "a window that an operator widens wakes nobody",
        "proxy/core/policy_change.py",
        "    dispatcher.settle_waiting(now, placed)\n",
        "    dispatcher.place(placed, now)\n",
        tests="tests/core/test_key_policy.py",
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
        "an order is forgotten when another is taken back",
        "proxy/net/subscription/order_book.py",
        "            if not orders.any:\n",
        "            if True:\n",
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
        "acks of single messages are gathered for ever",
        "proxy/net/subscription/acks.py",
        "            self._indexes_due = True\n            self._wake()\n",
        "            self._wake()\n",
        tests="tests/net/test_subscription_acks.py",
    ),
    Mutant(
        "where the cursor stood at the load is forgotten with the connection",
        CURSOR,
        "        if not self._unsettled or self._loaded_at is None:\n",
        "        if True:\n",
        tests="tests/net/test_subscription_cursor.py",
    ),
    Mutant(
        "a loss while the connection was away is news",
        CURSOR,
        "        if self._unsettled:\n            # Unloaded",
        "        if False:\n            # Unloaded",
        tests="tests/net/test_subscription_cursor.py",
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
        "            if ahead < part.count:\n",
        "            if ahead > part.count:\n",
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
        ENTRY,
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
        "what a join moves is not looked at",
        COMING_AND_GOING,
        "        changes.settle()\n        self._closing.end()\n",
        "        self._closing.end()\n",
    ),
    Mutant(
        "what a worker leaves behind is lost",
        MEMBERSHIP,
        "    units = list(worker.pending.values())\n",
        "    units: list[object] = []\n",
    ),
    Mutant(
        "what a leave moves is not looked at",
        COMING_AND_GOING,
        "        changes.settle()\n        self._changed(begun)\n        self._losing",
        "        self._changed(begun)\n        self._losing",
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
        "            if gate is not None and ready[0].position > gate.position:\n",
        "            if gate is not None and ready[0].position < 0:\n",
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
        "what a broker lost when it unloaded a topic early is taken for news",
        CURSOR,
        "        if (early or self._lost) and not self._stored:\n",
        "        if self._lost and not self._stored:\n",
    ),
    Mutant(
        "what was lost is known for one unload only",
        CURSOR,
        "        if (early or self._lost) and not self._stored:\n",
        "        if early and not self._stored:\n",
        "tests/net/test_subscription_cursor.py",
    ),
    Mutant(
        "a cursor that was moved back is not noticed",
        "proxy/core/reposition.py",
        " or (least is not None and mark_delete < least)",
        "",
        "tests/net/test_subscription_cursor.py",
    ),
    Mutant(
        "what lies on the shelf when a broker lost it stays there",
        CURSOR,
        "            self._outstanding.unshelve_confirmed()\n        else:\n",
        "        else:\n",
    ),
    Mutant(
        "messages are asked for before the broker told where the cursor stands",
        "proxy/net/subscription/subscription.py",
        "        if consumer.upstream.link is None or consumer.waits_for_cursor:\n",
        "        if consumer.upstream.link is None:\n",
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
        "a receipt does not wait for the broker",
        "proxy/net/subscription/acks.py",
        "            receipt.commands_left = len(pieces) + bool(indexes)\n"
        "            self._in_flight[receipt] = None\n",
        "            receipt.settle(None)\n",
    ),
    Mutant(
        "an upstream consumer that is lost does not come back",
        "proxy/net/subscription/upstream.py",
        '        log.info("upstream consumer lost", topic=self._topic, reason=reason)\n'
        "        self._retry(reason, at_once=True)\n",
        "",
    ),
    Mutant(
        "the rest of an outbox is forgotten when the socket is full",
        "proxy/net/subscription/subscription.py",
        "        self._dispatcher.touched.append(worker)\n",
        "",
        tests="tests/net/test_subscription_chaos.py",
    ),
    Mutant(
        "a lost connection leaves its workers",
        "proxy/net/session/workers.py",
        "                worker.port.lost(reason)\n",
        "                pass\n",
    ),
    Mutant(
        "every batch is taken for one key's",
        "proxy/wire/batch.py",
        "    if _alike(payload, count, first):\n        return True\n    return _uniform(payload, count, key)\n",
        "    return count > 0\n",
    ),
    Mutant(
        "a slice holds its messages backwards",
        "proxy/wire/opened_batch.py",
        "offsets[index + 1]] for index in indexes])\n",
        "offsets[index + 1]] for index in indexes[::-1]])\n",
    ),
    Mutant(
        "a key is read without its last byte",
        "proxy/wire/batch_reader.py",
        "                key = payload[at:key_end]\n",
        "                key = payload[at : key_end - 1]\n",
    ),
    Mutant(
        "a slice has the key of another message",
        "proxy/wire/opened_batch.py",
        "        first = base + offsets[indexes[0]]\n",
        "        first = base + offsets[indexes[-1]]\n",
        tests="tests/wire/test_batch_reader.py",
    ),
    Mutant(
        "a batch that was closed stays counted as open",
        "proxy/net/subscription/batch_contents.py",
        "            self._grew(batch, -opened.payload_bytes)\n",
        "",
        tests="tests/net/test_subscription_batch_contents.py",
    ),
    Mutant(
        "a frame that ends with its piece is kept",
        "proxy/wire/frames.py",
        "            if frame_end > end:\n",
        "            if frame_end >= end:\n",
    ),
    Mutant(
        "bytes that a subscription gave back stay counted",
        "proxy/net/subscription/subscription.py",
        "        self.services.account(-self._bytes_reported)\n",
        "",
    ),
    *MONITOR_MUTANTS,
    *OF_GROUPS,
    *OF_OWNERS,
)


class Verdict(NamedTuple):
    """Who noticed a mutant."""

    mutant: Mutant
    caught_by: str
    """Empty if nobody did."""
    seconds: float


def try_one(mutant: Mutant) -> Verdict:
    """Make the mutant in a copy of the project, and let the simulator and the tests look at it."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="keyline-mutant-") as directory:
        copy = Path(directory)
        _copy_project(copy)
        _mutate(copy / mutant.file, mutant)
        environment = {**os.environ, "PYTHONPATH": directory, "PYTHONDONTWRITEBYTECODE": "1"}
        caught_by = _caught_by(mutant, copy, environment)
    return Verdict(mutant, caught_by, time.monotonic() - began)


def _caught_by(mutant: Mutant, copy: Path, environment: dict[str, str]) -> str:
    if mutant.simulated or mutant.deployed:
        sizes = ("--seeds", str(SEEDS * mutant.simulated), "--deployments", str(DEPLOYMENTS * mutant.deployed))
        simulator = _run(copy, environment, "-m", "tests.sim", *sizes, "--jobs", "1", "--stop")
        if simulator.returncode:
            said = (simulator.stdout + simulator.stderr).strip().splitlines()
            return f"simulator: {next((line for line in said if ' failed: ' in line), said[-1])}"
    if not mutant.tests:
        return ""
    tests = _run(copy, environment, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *mutant.tests.split())
    found = [line for line in tests.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return f"tests: {found[0]}" if tests.returncode and found else ""


def _run(copy: Path, environment: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *arguments]
    return subprocess.run(
        command, cwd=copy, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )


def _copy_project(copy: Path) -> None:
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, copy / name)


def _mutate(file: Path, mutant: Mutant) -> None:
    source = file.read_text()
    found = source.count(mutant.right)
    if found != 1:
        raise SystemExit(f"{mutant.name}: its source stands {found} times in {mutant.file}, not once; mend the list")
    changed = source.replace(mutant.right, mutant.wrong)
    compile(changed, mutant.file, "exec")  # a mutant that is no Python would be caught by anything
    file.write_text(changed)


def main() -> int:
    """Try all, or those whose name has the words asked for; exits with 1 when one survives."""
    parser = argparse.ArgumentParser(prog="python -m tests.sim.mutants", description=__doc__)
    parser.add_argument("--only", default="", metavar="WORDS", help="mutants with these words in their names")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, metavar="N", help="at a time (%(default)s)")
    options = parser.parse_args()
    chosen = [mutant for mutant in MUTANTS if options.only in mutant.name]
    survivors = 0
    with ThreadPoolExecutor(options.jobs) as pool:
        for verdict in pool.map(try_one, chosen):
            survivors += not verdict.caught_by
            print(f"{verdict.seconds:5.0f} s  {verdict.mutant.name}: {verdict.caught_by or 'SURVIVES'}", flush=True)
    print(f"{len(chosen)} mutants, {survivors} survive")
    return 1 if survivors or not chosen else 0


if __name__ == "__main__":
    sys.exit(main())
