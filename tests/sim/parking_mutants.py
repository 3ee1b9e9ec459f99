"""Faults of parked keys and of copies on their way, for `mutants`; most that the simulator finds are of owner mode."""

from __future__ import annotations

from typing import Final

from tests.sim.mutant import Mutant

LOT: Final = "proxy/net/subscription/parking.py"
OUT: Final = "proxy/net/subscription/taking_out.py"
REDRIVES: Final = "proxy/net/subscription/redrives.py"
COPIES: Final = "proxy/net/subscription/dead_letters.py"
CHECKS: Final = "proxy/net/subscription/redrive_checks.py"
READING: Final = "proxy/net/subscription/topic_reading.py"
PARKED: Final = "proxy/wire/parked.py"
METADATA: Final = "proxy/wire/metadata.py"
PUBLISHED: Final = "proxy/wire/dead_letters.py"

OF_BATCHES: Final = "tests/net/test_subscription_parking_batches.py"
OF_BYTES: Final = "tests/net/test_subscription_dead_letters.py"
OF_METADATA: Final = "tests/net/test_subscription_parking_metadata.py tests/wire/test_parked.py"
OF_MANY: Final = "tests/net/test_subscription_many_redrives.py"
OF_PARTS: Final = "tests/net/test_subscription_parked_in_part.py"
OF_ORDERS: Final = "tests/net/test_subscription_parking.py"
OF_GAPS: Final = "tests/net/test_subscription_parking_gaps.py"


def _mutant(name: str, file: str, right: str, wrong: str, tests: str) -> Mutant:
    return Mutant(f"parking: {name}", file, right, wrong, tests, simulated=False)


MUTANTS: Final = (
    _mutant(
        "a message of a batch is filed under its batch's slot",
        LOT,
        "            if self._slot_of(own) == part.slot:\n",
        "            if False:\n",
        OF_BATCHES,
    ),
    _mutant(
        "a message of a batch without keys is filed under a slot of its own",
        LOT,
        "            if self._slot_of(own) == part.slot:\n",
        "            if True:\n",
        OF_BATCHES,
    ),
    _mutant(
        "copies on their way have no bound in bytes",
        COPIES,
        " and self._burst_bytes < BURST_BYTES_MAX\n",
        "\n",
        OF_BYTES,
    ),
    _mutant(
        "copies that have arrived count as on their way",
        COPIES,
        "            self._burst_bytes = 0\n        return",
        "            pass\n        return",
        OF_BYTES,
    ),
    _mutant(
        "a chunk may have a number that there is not",
        METADATA,
        "    numbered = total > 1 and 0 <= metadata.chunk_id < total\n",
        "    numbered = total > 1\n",
        OF_METADATA,
    ),
    _mutant(
        "a chunk is read back by another rule than it was dispatched by",
        PARKED,
        "        chunked = is_chunk(metadata)\n",
        "        chunked = metadata.num_chunks_from_msg > 1\n",
        OF_METADATA,
    ),
    _mutant("a message of a batch is a chunk if the batch says so", PUBLISHED, "    *_OF_A_CHUNK,\n", "", OF_METADATA),
    _mutant(
        "a copy says more attempts than are believed",
        PARKED,
        "str(min(attempts, _SMALL_MAX))",
        "str(attempts)",
        OF_METADATA,
    ),
    _mutant(
        "a message whose property lacks its value cannot be measured",
        PUBLISHED,
        "        return len(self.metadata.SerializePartialToString()) + len(self.payload)\n",
        "        return self.metadata.ByteSize() + len(self.payload)\n",
        OF_METADATA,
    ),
    _mutant(
        "a redrive does not wait until the topic was read",
        OUT,
        "        elif not self._reading.has_passed(last[0]):\n",
        "        elif not self._reading:\n",
        OF_GAPS,
    ),
    _mutant(
        "what is older waits until the topic was read, and keeps it from being read",
        OUT,
        "        if parking.collect_up_to(self._state.dispatcher, slot, last):\n",
        "        if self._reading.has_passed(last[0]) and parking.collect_up_to(self._state.dispatcher, slot, last):\n",
        OF_GAPS,
    ),
    _mutant(
        "a drop deletes what a worker has of an earlier redrive",
        OUT,
        "        if not self._redrives.has_handed_on(slot) and not",
        "        if not",
        OF_ORDERS,
    ),
    _mutant(
        "a redrive goes ahead of what waits in the original topic",
        OUT,
        "        if parking.collect_up_to(self._state.dispatcher, slot, last):\n",
        "        if False:\n",
        OF_GAPS,
    ),
    _mutant(
        "what is older is tried for ever where the parking topic takes nothing",
        OUT,
        "            if self._way_in.takes_nothing():\n                self._end",
        "            if False:\n                self._end",
        OF_GAPS,
    ),
    _mutant(
        "a redrive goes on when what is older was refused again",
        LOT,
        "        super()._refuse(part, reason, error_code)\n        if self._taking_out.slots:\n",
        "        super()._refuse(part, reason, error_code)\n        if False:\n",
        OF_GAPS,
    ),
    _mutant(
        "a refused message of a batch is not before a later one of it",
        CHECKS,
        "any(place_of(refused) < parked_place(each) for",
        "any(refused.position < each.position for",
        OF_GAPS,
    ),
    _mutant(
        "a redrive waits for what is newer than all that is parked",
        "proxy/core/parking.py",
        "takewhile(lambda part: place_of(part) <= place, parts)",
        "takewhile(lambda part: part.position <= place[0], parts)",
        OF_GAPS,
    ),
    _mutant(
        "the silence of a broker that was not asked means that nothing comes",
        READING,
        " and not self._consumers.behind:\n",
        ":\n",
        OF_GAPS,
    ),
    _mutant(
        "a broker is held for silent though something came",
        READING,
        "        if self._consumers.arrived == self._arrived and not",
        "        if not",
        OF_GAPS,
    ),
    _mutant(
        "what a broker has told of its cursor holds after a seek",
        "proxy/core/outstanding.py",
        "        self.highest = self.acknowledged_to = -1\n",
        "        self.highest = -1\n",
        OF_GAPS,
    ),
    _mutant(
        "a redrive waits though the broker has told that all before is acknowledged",
        "proxy/net/subscription/upstream_consumers.py",
        "        outstanding.acknowledged_to = max(outstanding.acknowledged_to, position)\n",
        "",
        OF_GAPS,
    ),
    _mutant(
        "all keys that are to be redriven begin at once",
        REDRIVES,
        "len(self._opening) < OPENING_MAX and ",
        "",
        OF_MANY,
    ),
    _mutant(
        "what is redriven has no bound in bytes",
        REDRIVES,
        " and self._fed_bytes < HELD_BYTES_MAX)",
        ")",
        OF_MANY,
    ),
    _mutant(
        "chunks are dropped though later ones may be published yet",
        CHECKS,
        "range(max(_indexes(chunks)) + 1))]",
        "range(chunks[0][1].chunk[2]))]",
        OF_PARTS,
    ),
    _mutant(
        "two messages of one uuid are one",
        CHECKS,
        "        if chunks is None or (not index and",
        "        if chunks is None or (False and",
        OF_PARTS,
    ),
    _mutant(
        "what was dropped is said to be parked in part",
        OUT,
        "why_not(self._left_of(slot), refused",
        "why_not(self._log.slots.get(slot, {}), refused",
        OF_PARTS,
    ),
    _mutant(
        "what is parked in part is dropped though the rest is on its way",
        OUT,
        "        if slot in self._orders or self._comes(slot, left):\n",
        "        if slot in self._orders:\n",
        OF_PARTS,
    ),
    _mutant(
        "a redrive that a seek ends says that attempts are used",
        OUT,
        "USED_AGAIN if slot in failed else MOVED",
        "USED_AGAIN",
        "tests/net/test_subscription_parking_promises.py",
    ),
    _mutant(
        "a join gate holds what is redriven",
        "proxy/core/serving.py",
        " and not ready[0].foreign:\n",
        ":\n",
        "tests/core/test_parking.py",
    ),
    _mutant(
        "chunks of an earlier life go though a worker has something of their key",
        "proxy/core/recall.py",
        "        if dispatcher.policy.dead_letter_after and piece.chunk",
        "        if piece.chunk",
        "tests/core/test_earlier_attempts.py",
    ),
    Mutant(
        "parking: a redrive begins with a part of a chunked message",
        CHECKS,
        '    return "" if coming else _incomplete(parked)\n',
        '    return ""\n',
    ),
    Mutant(
        "parking: no chunk is redriven as such",
        "proxy/net/subscription/redrive.py",
        "    chunk = None if parked.chunk is None else Chunk(*parked.chunk)\n",
        "    chunk = Chunk(*parked.chunk) if parked.chunk is not None and parked.position < 0 else None\n",
    ),
)
