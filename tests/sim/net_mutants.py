"""Faults of frames, of batches, of what comes and goes and of what the broker is told, for `mutants`."""

from __future__ import annotations

from typing import Final

from tests.sim.mutant import Mutant

COMING_AND_GOING: Final = "proxy/net/subscription/membership.py"
CURSOR: Final = "proxy/net/subscription/cursor.py"

MUTANTS: Final = (
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
        "an excluded worker that comes again takes part",
        COMING_AND_GOING,
        "        if name in services.orders.of(key).excluded:\n",
        "        if name in services.orders.of(key).drained:\n",
    ),
    Mutant(
        "an order is forgotten when another is taken back",
        "proxy/net/subscription/order_book.py",
        "            if not orders.any:\n",
        "            if True:\n",
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
        "what a join moves is not looked at",
        COMING_AND_GOING,
        "        changes.settle()\n        self._closing.end()\n",
        "        self._closing.end()\n",
    ),
    Mutant(
        "what a leave moves is not looked at",
        COMING_AND_GOING,
        "        changes.settle()\n        self._changed(begun)\n        self._losing",
        "        self._changed(begun)\n        self._losing",
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
        "what lies on the shelf when a broker lost it stays there",
        CURSOR,
        "            self._outstanding.unshelve_confirmed()\n        else:\n",
        "        else:\n",
        "tests/net/test_subscription_cursor.py",
    ),
    Mutant(
        "messages are asked for before the broker told where the cursor stands",
        "proxy/net/subscription/subscription.py",
        "        if consumer.upstream.link is None or consumer.waits_for_cursor:\n",
        "        if consumer.upstream.link is None:\n",
        "tests/net/test_subscription_cursor.py",
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
        "a consumer comes back beside its former one",
        "proxy/net/subscription/upstream.py",
        "        if self.former.ask():\n",
        "        if False:\n",
        tests="tests/sim/test_former.py",
    ),
    Mutant(
        "a subscription's next life does not know of a consumer that is being closed",
        "proxy/net/subscription/former.py",
        "            noted = self._formers.add(self._key, self._gone_s)\n",
        "            pass\n",
        tests="tests/net/test_subscription_former.py",
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
    Mutant(
        "a subscription is deleted under other workers",
        "proxy/net/subscription/requests.py",
        "        if self._lifecycle.worker_count > 1 and not command.force:\n",
        "        if self._lifecycle.worker_count < 1 and not command.force:\n",
    ),
    Mutant(
        "who asks for all it has again gets the first of it only",
        "proxy/core/acknowledgement.py",
        "    wanted = list(worker.pending if keys is None else keys)\n",
        "    wanted = list(list(worker.pending)[:1] if keys is None else keys)\n",
    ),
    Mutant(
        "a subscription ends before the broker has answered acks of single messages",
        "proxy/net/subscription/closing.py",
        " or acks.indexes_unanswered\n",
        "\n",
        tests="tests/net/test_subscription_closing.py",
    ),
)
