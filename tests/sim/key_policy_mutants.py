"""Faults of windows, of delays before a retry, and of their change, for `mutants`."""

from __future__ import annotations

from typing import Final

from tests.sim.mutant import Mutant

DISPATCHER: Final = "proxy/core/dispatcher.py"
TARGETS: Final = "proxy/core/targets.py"
SERVING: Final = "proxy/core/serving.py"
ACKNOWLEDGEMENT: Final = "proxy/core/acknowledgement.py"

MUTANTS: Final = (
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
        "    if wanted and dispatcher.policy.retry_delay_s:\n",
        "    if False:\n",
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
        "a chunk passes earlier ones of its message that the window keeps back",
        "proxy/core/serving.py",
        "        if blocked is not None and blocked.parts[0].order < part.order:\n",
        "        if blocked is not None and part.chunk is None and blocked.parts[0].order < part.order:\n",
        tests="tests/core/test_key_policy.py",
    ),
    Mutant(
        "a worker that gets nothing new gets the rest of a message as it stands in its queue first",
        "proxy/core/serving.py",
        "                waiting.sort(key=_order)  # under a window earlier ones are blocked than stand in the queue\n",
        "",
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
        "a delay that an operator takes back is waited for all the same",
        "proxy/core/policy_change.py",
        "    if not dispatcher.policy.retry_delay_s:\n        dispatcher.retries.clear()\n",
        "",
        tests="tests/core/test_key_policy.py",
    ),
    Mutant(
        "a shorter ack lease that an operator orders is not looked at before the longer one ends",
        "proxy/net/subscription/orders.py",
        "        self._state.change_settings(settings)\n        self._ack_leases.look_again()\n",
        "        self._state.change_settings(settings)\n",
        tests="tests/net/test_subscription_leases.py",
    ),
    Mutant(
        "messages of a batch pass one of their key that waits between them",
        SERVING,
        "            part = self._ahead_of_siblings(worker, part, blocked)\n",
        "            pass\n",
        tests="tests/core/test_kept_back.py",
    ),
)
