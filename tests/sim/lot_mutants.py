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
        "        if entry is None or dispatcher.slots.holder(slot):\n",
        "        if entry is None:\n",
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
        "        return slot not in self.redriving or batch is None or not batch.foreign\n",
        "        return slot not in self.redriving\n",
    ),
    Mutant(
        "parking: a redrive goes on though one of its messages has used its attempts again",
        CORE,
        "        diversions.redriving.pop(part.slot, None)\n        diversions.stray[part.slot] = None\n",
        "        diversions.stray[part.slot] = None\n",
    ),
    Mutant(
        "parking: what is redriven comes in the order in which it was parked, not in the topic's",
        REDRIVES,
        "for position in in_topic_order(parked)}\n",
        "for position in parked}\n",
    ),
    Mutant(
        "parking: what comes back of a redrive that is over ends the next one",
        CORE,
        "    dispatcher.diversions.failed.pop(slot, None)",
        "    pass",
        tests="tests/core/test_parking.py",
    ),
)
