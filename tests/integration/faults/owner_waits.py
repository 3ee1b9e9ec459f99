"""How long a message waits at most while something is wrong with a replica in owner mode, or one is gone; audited."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Final

from integration.gateway import KeylineGateway
from integration.load.lives import Cause
from integration.load.options import Batching
from tests.integration.conftest import explain
from tests.integration.faults.line import bug_reports, last
from tests.integration.owner_rig import KEYS, WORKERS, Owned

RATE_PER_S: Final = 500.0
RATE_BESIDE_PER_S: Final = 250.0
"""Where deployments run beside each other."""
WAIT_S_MAX: Final = 13.0
"""The time until a replica is dropped, 7 s, and 3 s until all goes on; and 3 s for a busy machine."""
GONE_S_MAX: Final = 30.0
"""The time until a replica that is gone is dropped, 7 s, and 1 s until all goes on; and 22 s for a machine on which
others leave little to the replicas: 28 s were seen there. What it was is printed."""
AROUND_S: Final = 4.0
"""So long a load is acknowledged as it comes before anything happens, and again when it is over."""


@contextmanager
def frozen(gateway: KeylineGateway) -> Iterator[None]:
    """It stands still in this block."""
    gateway.pause()
    try:
        yield
    finally:
        gateway.resume()


@contextmanager
def killed(owned: Owned, gateway: KeylineGateway) -> Iterator[None]:
    """It is, and does not come back. At the end another serves all workers.

    Again may come what workers had of an owner, and of another replica what its own workers had.
    """
    workers = frozenset(WORKERS) if owned.owner() is gateway else owned.workers_at(gateway)
    assert workers, "it has no workers: this proves nothing"
    owned.run.interruption(Cause.GATEWAY_KILLED, workers=workers)
    gateway.kill()
    yield
    assert owned.owner() is not gateway


class WatchedLoad:
    """A load in whose course things go wrong; how long messages wait meanwhile is measured."""

    def __init__(self, owned: Owned, rate_per_s: float, batching: Batching = Batching.DEFAULT) -> None:
        """Begin it, and return when it has gone on for a while."""
        self.owned = owned
        self._messages_around = int(rate_per_s * AROUND_S)
        self._producer = owned.run.produce(keys=KEYS, rate_per_s=rate_per_s, batching=batching, batch_messages_max=100)
        self._spans: list[tuple[str, int, int]] = []
        owned.run.wait_acknowledged(self._messages_around)

    def suffer(self, fault: AbstractContextManager[object], seconds: float, what: str) -> None:
        """Let the fault last so long, and return when all has gone on for a while since."""
        run, since_ns = self.owned.run, time.monotonic_ns()
        with fault:
            last(seconds)
        run.progress.update()  # its files were not read meanwhile
        run.wait_acknowledged(run.progress.acknowledged + self._messages_around)
        self._spans.append((what, since_ns, time.monotonic_ns()))

    def end(self, cause: Cause, wait_s_max: float) -> str:
        """The contract was kept, nothing but this came in the way, and no message waited too long; how long each."""
        self._producer.stop()
        run, gateways = self.owned.run, self.owned.gateways
        result = run.finish()
        assert result.ok, explain(result, *gateways)
        assert set(result.duplicates_by_cause) <= {cause, Cause.CLIENT_QUEUE}, explain(result, *gateways)
        for gateway in gateways:
            assert not bug_reports(gateway.log), explain(result, *gateways)
        waits_s = {
            what: max(run.longest_waits(since_ns, until_ns).values()) / 1e9 for what, since_ns, until_ns in self._spans
        }
        lines = [f"{what}: longest wait {waited_s:.1f} s" for what, waited_s in waits_s.items()]
        found = "\n".join([*lines, f"{result.delivered} messages, {len(result.duplicates)} again"])
        assert max(waits_s.values()) < wait_s_max, f"{found}\n{explain(result, *gateways)}"
        return found


@contextmanager
def told(owned: Owned, fault: AbstractContextManager[object], workers: Collection[str] = WORKERS) -> Iterator[None]:
    """A fault with which workers' connections stay, as the audit has to know."""
    with owned.run.paused(Cause.GATEWAY_PAUSED, workers), fault:
        yield


def check_waits(
    owned: Owned,
    fault: AbstractContextManager[object],
    seconds: float,
    *,
    workers: Collection[str] = WORKERS,
    batching: Batching = Batching.DEFAULT,
) -> str:
    """Let the fault last so long under load: the contract is kept, and no message that is sent since waits too long.

    `workers` are all there are. Returns what it was.
    """
    load = WatchedLoad(owned, RATE_PER_S, batching)
    load.suffer(told(owned, fault, workers), seconds, f"{seconds:g} s")
    return load.end(Cause.GATEWAY_PAUSED, WAIT_S_MAX)


def check_waits_for_the_dead(owned: Owned, gateway: KeylineGateway) -> str:
    """As above, of a replica that is killed and does not come back."""
    load = WatchedLoad(owned, RATE_BESIDE_PER_S)
    load.suffer(killed(owned, gateway), 0, "killed")
    return load.end(Cause.GATEWAY_KILLED, GONE_S_MAX)
