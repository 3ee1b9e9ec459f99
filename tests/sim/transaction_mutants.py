"""Faults of what is acknowledged inside transactions, for `mutants`."""

from __future__ import annotations

from typing import Final

from tests.sim.mutant import Mutant

ACKS: Final = "proxy/net/subscription/acks.py"
OUTSTANDING: Final = "proxy/core/outstanding.py"
DISPATCHER: Final = "proxy/core/dispatcher.py"
TRANSACTIONAL: Final = "proxy/core/transactional_acks.py"
SUBSCRIPTION: Final = "proxy/net/subscription/subscription.py"
OF_KEPT_BACK: Final = "tests/core/test_kept_back.py"
OF_ACKS: Final = "tests/net/test_kept_back.py"
OF_CORE: Final = "tests/core/test_transactional_acks.py"
OF_CURSOR: Final = "tests/net/test_subscription_cursor.py"
OF_REQUESTS: Final = "tests/net/test_transactional_request.py"
OF_NET: Final = "tests/net/test_awaited_transactions.py"

MUTANTS: Final = (
    Mutant(
        "transactions: a batch is acknowledged whole though the broker kept some of it back",
        ACKS,
        "            if kept_back and not kept_back.keys().isdisjoint(positions):\n",
        "            if kept_back and not positions:\n",
        tests=OF_ACKS,
    ),
    Mutant(
        "transactions: acks of single messages name what the broker kept back",
        OUTSTANDING,
        "        return batch.unacked | kept if kept else batch.unacked\n",
        "        return batch.unacked & ~kept if kept else batch.unacked\n",
        tests=OF_ACKS,
    ),
    Mutant(
        "transactions: what an abort gives back of an entry is taken for a repetition",
        DISPATCHER,
        "            news = kept_back.news_of(part, before, kept_back_bits) if before else 0\n",
        "            news = 0\n",
        tests=OF_KEPT_BACK,
    ),
    Mutant(
        "transactions: what an abort gives back of an entry that is here waits nowhere",
        DISPATCHER,
        "                    self._wait_late(kept_back.join(outstanding, part, news), now)\n",
        "                    kept_back.join(outstanding, part, news)\n",
        tests=OF_KEPT_BACK,
    ),
    Mutant(
        "transactions: an ack that was not sent takes what an abort gives back with it",
        OUTSTANDING,
        "            self.acks = [each for each in self.acks if each != position]\n",
        "            pass\n",
        tests=OF_KEPT_BACK,
    ),
    Mutant(
        "transactions: a key does not wait for their end",
        TRANSACTIONAL,
        "    worker.unacked -= taken.count\n",
        "    worker.unacked -= taken.count\n    dispatcher.release_held(held, now)\n",
        tests=OF_CORE,
    ),
    Mutant(
        "transactions: what is aborted waits nowhere",
        TRANSACTIONAL,
        "    dispatcher.place(returned, now)\n",
        "    dispatcher.place((), now)\n",
        tests=OF_CORE,
    ),
    Mutant(
        "transactions: an abort that no client tells of has no permits to be seen by",
        SUBSCRIPTION,
        "            asked_messages=asked + awaited,\n",
        "            asked_messages=asked,\n",
        tests=OF_NET,
    ),
    Mutant(
        "transactions: permits for what may come again are granted in every turn",
        SUBSCRIPTION,
        "        if awaited and consumer.window.outstanding > 0:\n",
        "        if awaited and consumer.window.outstanding < 0:\n",
        tests=OF_NET,
    ),
    Mutant(
        "transactions: a commit hides what a broker lost behind it",
        "proxy/net/subscription/cursor.py",
        "        return not reposition.was_moved(self._outstanding, mark_delete, None)\n",
        "        return mark_delete == self._loaded_at\n",
        tests=OF_CURSOR,
    ),
    Mutant(
        "transactions: a broker that takes none just now has none of before",
        "proxy/net/subscription/transactional_request.py",
        "        if not lost and not (self._again and broker_code(reply) in NOT_NOW):\n",
        "        if not lost:\n",
        tests=OF_REQUESTS,
    ),
    Mutant(
        "transactions: what a consumer that was closed left without an answer waits for its time-out",
        "proxy/net/subscription/upstream_consumers.py",
        "            state.transactions.after_reconnect()\n",
        "",
        tests="tests/net/test_subscription_transactions.py",
    ),
    Mutant(
        "transactions: the rest of a chunked message is not for who got its beginning again",
        "proxy/core/chunked.py",
        "            if begun is not None and begun.needed <= chunk.index:\n",
        "            if begun is not None and begun.worker is worker and begun.needed <= chunk.index:\n",
        tests=OF_CORE,
    ),
    Mutant(
        "transactions: permits for what may come again know no bound",
        "proxy/net/subscription/transactions.py",
        "        return min(self.awaited_messages, 1) if crowded else self.awaited_messages\n",
        "        return self.awaited_messages\n",
        tests=OF_NET,
    ),
    Mutant(
        "transactions: the answer to an acknowledgement is not read while the memory is full",
        "proxy/net/subscription/transactions.py",
        "        return bool(self._gone_at) or (bool(self._in_flight) and self._is_late())\n",
        "        return bool(self._gone_at)\n",
        tests=OF_NET,
    ),
    Mutant(
        "transactions: what is taken for committed stays in memory",
        TRANSACTIONAL,
        "    for held in dispatcher.in_transaction.take([held for held in helds if held.confirmed]):\n",
        "    for held in dispatcher.in_transaction.take([]):\n",
        tests=OF_CORE,
    ),
    Mutant(
        "transactions: join gates wait for what is taken for committed",
        TRANSACTIONAL,
        "        if kept_back.leave(dispatcher.outstanding, held.part, now) and dispatcher.gated:\n",
        "        if kept_back.leave(dispatcher.outstanding, held.part, now) and not dispatcher.gated:\n",
        tests=OF_CORE,
    ),
    Mutant(
        "transactions: of an entry that the broker keeps back whole nothing is remembered",
        OUTSTANDING,
        "        self._remember_part(position, ALL_KEPT_BACK)\n",
        "",
        tests=OF_CORE,
    ),
    Mutant(
        "transactions: some of a batch is taken though acks of single messages are not forwarded",
        TRANSACTIONAL,
        "        if not in_parts and (bits_by_key[key] != whole or part.indexes is not None):\n",
        "        if not in_parts and not whole:\n",
    ),
    Mutant(
        "memory: pieces of a batch that are acknowledged count as held",
        "proxy/core/acknowledgement.py",
        "        batch.bytes_held -= PART_BYTES\n        outstanding.bytes_held -= PART_BYTES\n",
        "",
        tests="tests/core/test_acknowledgement.py",
    ),
    Mutant(
        "kept back: a plain message that comes late waits behind the head that cannot go",
        DISPATCHER,
        "                    return\n        if position < outstanding.highest:\n",
        "                    return\n        if position > outstanding.highest:\n",
        tests=OF_KEPT_BACK,
    ),
    Mutant(
        "kept back: an entry that waited to be opened is news of what was acknowledged in a transaction meanwhile",
        OUTSTANDING,
        "            if at > arrived_at:\n",
        "            if at > arrived_at and not bits:\n",
        tests=OF_KEPT_BACK,
    ),
    Mutant(
        "kept back: what a transaction gives back is taken for what came before it",
        OUTSTANDING,
        "            if at > arrived_at:\n",
        "            if at >= 0.0:\n",
        tests=OF_KEPT_BACK,
    ),
    Mutant(
        "kept back: an entry that waited to be opened is taken for what was left to the broker alone",
        DISPATCHER,
        "            rest = not left or kept_back.leave_out(part, left)\n",
        "            rest = not left\n",
        tests=OF_KEPT_BACK,
    ),
)
