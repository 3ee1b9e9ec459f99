"""Faults of ack leases and of quarantine, for `mutants`."""

from __future__ import annotations

from typing import Final

from tests.sim.mutant import Mutant

CORE: Final = "proxy/core/ack_lease.py"
LEASES: Final = "proxy/net/subscription/ack_leases.py"
WORKERS: Final = "proxy/net/subscription/workers.py"
MEMBERSHIP: Final = "proxy/net/subscription/membership.py"
QUARANTINE: Final = "proxy/core/quarantine.py"
QUARANTINES: Final = "proxy/net/subscription/quarantines.py"
OF_LEASES: Final = "tests/net/test_subscription_leases.py"
OF_QUARANTINE: Final = "tests/net/test_subscription_quarantine.py"

MUTANTS: Final = (
    Mutant(
        "an ack lease that ends takes nothing away",
        LEASES,
        "        self._membership.close_each(workers, REASON)\n",
        "",
    ),
    Mutant(
        "a worker that joins has no ack lease",
        "proxy/net/subscription/subscription.py",
        "        self.ack_leases.look_again()\n",
        "",
    ),
    Mutant(
        "an ack lease is looked at once",
        LEASES,
        "        self._membership.close_each(workers, REASON)\n        self.look_again()\n",
        "        self._membership.close_each(workers, REASON)\n",
    ),
    Mutant(
        "who has ended gets messages until it leaves",
        WORKERS,
        "            self._state.dispatcher.set_writable(self.worker, writable=False, now=self._state.now())\n",
        "            pass\n",
        tests=OF_LEASES,
        simulated=False,
    ),
    Mutant(
        "who has ended is sent what lies ready for it",
        "proxy/net/subscription/subscription.py",
        "        if subscriber.ended or self.outbox.write(",
        "        if self.outbox.write(",
        tests=OF_LEASES,
        simulated=False,
    ),
    Mutant(
        "a call for more time is not heard",
        WORKERS,
        "            state.counters.ack_lease_extensions += ack_lease.extend(",
        "            _ = (lambda *_: 0)(",
        tests=OF_LEASES,
        simulated=False,
    ),
    Mutant(
        "an ack lease is half as long",
        CORE,
        "worker.lease_extended_at) + dispatcher.ack_lease_s\n",
        "worker.lease_extended_at) + dispatcher.ack_lease_s / 2\n",
        tests="tests/core/test_ack_lease.py",
        simulated=False,
    ),
    Mutant(
        "chunks of a message that is not whole have an ack lease",
        CORE,
        " if part.chunk is None or part.chunk.is_last)",
        ")",
    ),
    Mutant(
        "a gateway that stood still takes all ack leases",
        LEASES,
        "        if now - self._due_at > LATE_S:\n",
        "        if now - self._due_at > 1e9:\n",
        tests=OF_LEASES,
        simulated=False,
    ),
    Mutant(
        "who joins ends the time in which workers are heard after a standstill",
        LEASES,
        "            self._earliest = now + GRACE_S\n            self._set(self._earliest, now)\n",
        "            self._set(now + GRACE_S, now)\n",
        tests=OF_LEASES,
        simulated=False,
    ),
    Mutant(
        "a quarantined worker that comes again takes part",
        MEMBERSHIP,
        "        return services.quarantine.ends_at(WorkerName(*key, name), self._state.now()) is not None\n",
        "        return False\n",
        tests=OF_QUARANTINE,
        simulated=False,
    ),
    Mutant(
        "a quarantine never ends",
        QUARANTINES,
        "            self._timer.set(max(0.0, due_at - now), self._end)\n",
        "            _ = due_at\n",
        tests=OF_QUARANTINE,
        simulated=False,
    ),
    Mutant(
        "the only worker is quarantined",
        QUARANTINES,
        "spared=kept <= quarantined)",
        "spared=kept < quarantined)",
        tests=OF_QUARANTINE,
        simulated=False,
    ),
    Mutant(
        "offences are never forgotten",
        QUARANTINE,
        "        if found is None or found.forgotten_at <= now:\n",
        "        if found is None:\n",
        tests="tests/core/test_quarantine.py",
        simulated=False,
    ),
)
