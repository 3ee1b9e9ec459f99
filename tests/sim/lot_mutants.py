"""Faults of parked keys, for `mutants`; those of owners are in `tests.sim.deployment.mutants`."""

from __future__ import annotations

from typing import Final

from tests.sim.mutant import Mutant

CORE: Final = "proxy/core/parking.py"
DIVERSIONS: Final = "proxy/core/diversions.py"
REDRIVES: Final = "proxy/net/subscription/redrives.py"

MUTANTS: Final = (
    Mutant(
        "parking: what waits goes in while a worker has something of its slot",
        CORE,
        "        if entry is None or slot in diversions.taken_out or dispatcher.slots.holder(slot):\n",
        "        if entry is None or slot in diversions.taken_out:\n",
    ),
    Mutant(
        "parking: a redriven message has one attempt only",
        CORE,
        "    part = Part(position, slot, count, tail, 0, now)\n",
        "    part = Part(position, slot, count, tail, 1_000, now)\n",
    ),
    Mutant(
        "parking: what comes during a redrive is delivered at once",
        DIVERSIONS,
        "        return not self.taken_out.get(slot) or batch is None or not batch.foreign\n",
        "        return not self.taken_out.get(slot)\n",
    ),
    Mutant(
        "parking: a redrive goes on though one of its messages has used its attempts again",
        CORE,
        "            diversions.taken_out[part.slot] = False\n",
        "",
    ),
    Mutant(
        "parking: what is redriven comes in the order in which it was parked, not in the topic's",
        REDRIVES,
        "        order = in_topic_order(parked)\n",
        "        order = list(parked)\n",
    ),
    Mutant(
        "parking: what comes back of a redrive that is over ends the next one",
        CORE,
        "        if diversions.taken_out.get(part.slot):  #",
        "        if part.slot in diversions.taken_out:  #",
        tests="tests/core/test_parking.py",
    ),
    Mutant(
        "parking: what comes back before the next redrive begins is delivered ahead of it",
        CORE,
        "    diversions.taken_out[slot] = False\n    diversions.stray",
        "    diversions.taken_out[slot] = True\n    diversions.stray",
        tests="tests/core/test_parking.py",
    ),
    Mutant(
        "parking: a key that is taken out waits for a retry",
        CORE,
        "    dispatcher.retries.forget(slot)\n",
        "",
        tests="tests/core/test_parking.py",
    ),
)
