"""Faults of dead letters, for `mutants`."""

from __future__ import annotations

from typing import Final

from tests.sim.mutant import Mutant

CORE: Final = "proxy/core/diversion.py"
ATTEMPTS: Final = "proxy/core/diversions.py"
JUDGE: Final = "proxy/core/attempts.py"
RECALL: Final = "proxy/core/recall.py"
TOPIC: Final = "proxy/net/subscription/dead_letters.py"

MUTANTS: Final = (
    Mutant(
        "dead letters: a worker whose join gate opens is served while a slot is blocked by nothing",
        CORE,
        "        dispatcher.forget_blocked(slot)\n"
        "    complete(dispatcher, part, now)\n"
        "    dispatcher.chunked.give_up(part)\n"
        "    if slot not in diversions.held:\n",
        "        pass\n"
        "    complete(dispatcher, part, now)\n"
        "    dispatcher.chunked.give_up(part)\n"
        "    if not parts:\n"
        "        dispatcher.forget_blocked(slot)\n"
        "    elif slot not in diversions.held:\n",
        tests="tests/core/test_dead_letters.py",
    ),
    Mutant(
        "dead letters: what waits behind one is not looked at when it has arrived",
        CORE,
        "        dispatcher.settle((slot,), now)\n",
        "        pass\n",
    ),
    Mutant(
        "dead letters: the rest of a chunked message is not looked at when one has arrived",
        CORE,
        "        dispatcher.serve_begun(now)\n",
        "",
        tests="tests/core/test_chunks.py",
    ),
    Mutant(
        "dead letters: a message has one attempt more",
        ATTEMPTS,
        "    return part.attempts_used >= max_attempts and",
        "    return part.attempts_used > max_attempts and",
    ),
    Mutant(
        "dead letters: a message has one attempt less",
        ATTEMPTS,
        "    return part.attempts_used >= max_attempts and",
        "    return part.attempts_used >= max_attempts - 1 and",
    ),
    Mutant(
        "dead letters: the messages of a batch have no attempt alone",
        ATTEMPTS,
        " and (part.count == 1 or not part.divisible)\n",
        "\n",
    ),
    Mutant(
        "dead letters: what lay behind a message at a worker that left has used an attempt",
        JUDGE,
        "    used = seen if wanted else _spare_others(seen, tried)\n",
        "    used = seen\n",
    ),
    Mutant(
        "dead letters: workers that close one after another use up the attempts of what they pass on",
        JUDGE,
        "first is None or (closed and not _came_back_before(worker, first))",
        "first is None",
        tests="tests/core/test_dead_letters.py",
    ),
    Mutant(
        "dead letters: a message at which each new worker closes its client has attempts without end",
        JUDGE,
        "first is None or (closed and not _came_back_before(worker, first))",
        "first is None or closed",
        tests="tests/core/test_dead_letters.py",
    ),
    Mutant(
        "dead letters: one that was on its way as the subscription ended is delivered again",
        RECALL,
        "    if earlier.given_up and dispatcher.policy.max_attempts and not dispatcher.diversions.has(piece):\n",
        "    if False:\n",
        tests="tests/core/test_earlier_attempts.py",
    ),
    Mutant(
        "dead letters: of a chunked message only the chunks that are known go in the next life of its subscription",
        RECALL,
        "            dispatcher.diversions.expect(message_of(piece), last=earlier.last)",
        "            pass",
        tests="tests/core/test_earlier_attempts.py",
    ),
    Mutant(
        "dead letters: a batch that comes again in the next life of its subscription goes whole each time",
        RECALL,
        "    pieces = parking.each_alone(dispatcher, part)\n",
        "    pieces = [part]\n",
        tests="tests/core/test_earlier_attempts.py",
    ),
    Mutant(
        "dead letters: a key goes on while one is on its way",
        "proxy/core/targets.py",
        " or (slot in self.diversions.held and self.diversions.holds(slot, head)):\n",
        ":\n",
        tests="tests/core/test_dead_letters.py",
    ),
    Mutant(
        "dead letters: one is acknowledged before its copy is stored",
        TOPIC,
        "            self._unconfirmed[self._producer.publish(message)] = part\n",
        "            self._arrive(part)\n",
    ),
    Mutant(
        "dead letters: one that has no receipt is forgotten with its producer",
        TOPIC,
        "            self._again(*lost)\n",
        "            pass\n",
    ),
    Mutant(
        "dead letters: one that the topic refused is not tried again",
        TOPIC,
        "        self._refused.refuse(part, text)\n        self._try_later()\n",
        "        self._refused.refuse(part, text)\n",
        tests="tests/net/test_subscription_dead_letters.py",
    ),
    Mutant(
        "dead letters: they have the connection that is not read while the gateway is full",
        TOPIC,
        "services.brokers.diversions, ",
        "services.brokers.deliveries, ",
        tests="tests/net/test_subscription_dead_letters.py",
    ),
    Mutant(
        "dead letters: a producer outlives its subscription",
        TOPIC,
        "            alarm.cancel()\n        if self._producer is not None:\n            self._producer.close()\n",
        "            alarm.cancel()\n        if self._producer is not None:\n",
    ),
    Mutant(
        "dead letters: of a chunked message only the chunk goes that came back often enough",
        JUDGE,
        "                over.update(map(id, chunks))\n",
        "                over.update(id(part) for part in chunks if part.redeliveries >= attempts)\n",
        tests="tests/core/test_dead_letters.py",
    ),
    Mutant(
        "dead letters: a chunked message is given up before a worker had it whole",
        JUDGE,
        "    if not (wanted or is_whole(chunks)):\n",
        "    if False:\n",
        tests="tests/core/test_dead_letters.py",
    ),
    Mutant(
        "dead letters: chunks that come later than their message was given up are delivered",
        "proxy/core/dispatcher.py",
        "        if part.chunk is not None and self.diversions.follows(part):\n",
        "        if False:\n",
        tests="tests/core/test_dead_letters.py",
    ),
    Mutant(
        "dead letters: a chunk is acknowledged before the others have arrived",
        ATTEMPTS,
        "        return message if not awaited and all(id(each) in self._stored for each in message) else []\n",
        "        return [part]\n",
    ),
    Mutant(
        "dead letters: chunks are acknowledged in the next life of their subscription before the last has come again",
        ATTEMPTS,
        "            self.awaited[name] = last\n",
        "            del last\n",
        tests="tests/core/test_earlier_attempts.py",
    ),
    Mutant(
        "dead letters: a chunk that does not come again is waited for",
        ATTEMPTS,
        "                self.ended.append(parts[-1])\n",
        "                pass\n",
        tests="tests/core/test_earlier_attempts.py",
    ),
    Mutant(
        "dead letters: of a chunked message only what had no receipt goes again",
        TOPIC,
        "        again = [each for part in parts for each in (part, *take_stored(part))]\n",
        "        again = [*parts]\n",
    ),
    Mutant(
        "a worker that asks for a chunk gets that chunk alone",
        "proxy/core/acknowledgement.py",
        "    rest = _taken(worker, rest_of(worker, wanted))\n",
        "    rest: list[Part] = []\n",
    ),
    Mutant(
        "dead letters: a producer that is made anew has another name",
        TOPIC,
        ", self._not_taken, self._former)",
        ", self._not_taken)",
        tests="tests/net/test_subscription_dead_letters.py",
    ),
)
