"""Faults of the contract's monitor, for `mutants`: it is deaf, blind, forgets too much, or rings for nothing."""

from __future__ import annotations

from typing import Final

from tests.sim.mutant import Mutant

MONITOR: Final = "proxy/core/contract_monitor.py"
ALARM: Final = "proxy/net/subscription/contract_alarm.py"
INTAKE: Final = "proxy/net/subscription/intake.py"
WORKERS: Final = "proxy/net/subscription/workers.py"
OF_MONITOR: Final = "tests/core/test_contract_monitor.py"
OF_ALARM: Final = "tests/net/test_contract_alarm.py"


def _mutant(name: str, file: str, right: str, wrong: str, tests: str = OF_ALARM) -> Mutant:
    """One that makes the gateway no worse, which the simulator does not see."""
    return Mutant(f"monitor: {name}", file, right, wrong, tests, simulated=False)


MUTANTS: Final = (
    _mutant(
        "what is sent is not looked at",
        "proxy/net/subscription/outbox.py",
        "                self._monitor.sent(worker, group)\n",
        "                pass\n",
    ),
    _mutant(
        "a message that comes alone is not heard of",
        "proxy/net/subscription/receiving.py",
        "        self._monitor.arrived(position, slot, count)\n",
        "",
    ),
    _mutant(
        "a batch of many keys is not heard of",
        INTAKE,
        "            self._monitor.arrived_batch(batch.position, slots, wanted)\n",
        "            pass\n",
    ),
    _mutant(
        "a chunk, and a batch that had to be opened, are not heard of",
        INTAKE,
        "            self._monitor.arrived(position, slot, count)\n",
        "            pass\n",
    ),
    _mutant(
        "an ack is not heard of",
        WORKERS,
        "                self._judge_ack(worker, key)\n",
        "                pass\n",
    ),
    _mutant(
        "an ack of some messages of a batch is one of all",
        WORKERS,
        "                self._judge_ack(worker, key, bits_of(place.ack_set) if place.ack_set else 0)\n",
        "                self._judge_ack(worker, key)\n",
    ),
    _mutant(
        "an ack in a transaction is not heard of",
        WORKERS,
        "            self._judge_ack(worker, key, unacked or 0)\n",
        "            pass\n",
    ),
    Mutant(
        "monitor: what is given back stays where it was",
        WORKERS,
        "            state.monitor.given_back(worker, keys and [*keys, *whole_messages.rest_of(worker, keys)])\n",
        "            pass\n",
    ),
    Mutant(
        "monitor: a worker that left keeps what it had",
        MONITOR,
        "            self._wait_again(worker, delivery)\n            entry = delivery.entry\n",
        "            entry = delivery.entry\n",
    ),
    _mutant(
        "a seek is not heard of",
        "proxy/net/subscription/membership.py",
        "            self._state.monitor.forget()\n",
        "            pass\n",
    ),
    _mutant(
        "an ack of a former holder counts",
        MONITOR,
        "            if holder is worker or holder is None:\n",
        "            if entry:\n",
        OF_MONITOR,
    ),
    _mutant(
        "two holders of a slot are none too many",
        MONITOR,
        "            if len(slot.holders) > 1:\n",
        "            if len(slot.holders) > 2:\n",
    ),
    _mutant(
        "what waits is not looked at",
        MONITOR,
        "            if not begun:\n",
        "            if begun:\n",
    ),
    _mutant(
        "the rest of a chunked message has an order",
        MONITOR,
        "            if not begun:\n",
        "            if slot:\n",
        OF_MONITOR,
    ),
    _mutant(
        "what is not here any more is waited for",
        MONITOR,
        "        return entry is not None\n",
        "        return True\n",
        OF_MONITOR,
    ),
    _mutant(
        "what comes late is judged",
        MONITOR,
        "        if position <= slot.highest or self._followed",
        "        if self._followed",
        OF_MONITOR,
    ),
    _mutant(
        "what was redriven is judged",
        MONITOR,
        "            if entry is not None and not unit.foreign:\n",
        "            if entry is not None:\n",
        OF_MONITOR,
    ),
    _mutant(
        "violations of a gateway are not added up",
        MONITOR,
        "        self._totals.violations[kind.value] += 1\n",
        "",
    ),
    _mutant(
        "each violation is told",
        ALARM,
        "            if now >= self._quiet_until.get(kind, now):\n",
        "            if kind:\n",
    ),
    _mutant(
        "a subscription is told of once",
        ALARM,
        "                self._quiet_until[kind] = now + APART_S\n",
        '                self._quiet_until[kind] = float("inf")\n',
    ),
    _mutant(
        "what was told is told again",
        ALARM,
        "                self._told[kind] = self._monitor.violations[kind]\n",
        "",
    ),
)
