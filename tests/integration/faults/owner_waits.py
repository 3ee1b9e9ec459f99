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
WAIT_S_MAX: Final = 13.0
"""The time until a replica is dropped, 7 s, and 3 s until all goes on; and 3 s for a busy machine."""
GONE_S_MAX: Final = 30.0
"""The time until a replica that is gone is dropped, 7 s, and 1 s until all goes on; and 22 s for a machine on which
others leave little to the replicas: 28 s were seen there. What it was is printed."""
BEFORE: Final = 2_000
"""Messages that are acknowledged before anything happens."""
AFTER: Final = 5_000
"""Those that are, since it is over."""


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


def check_waits(
    owned: Owned,
    fault: AbstractContextManager[object],
    seconds: float,
    *,
    workers: Collection[str] = WORKERS,
    batching: Batching = Batching.DEFAULT,
) -> None:
    """Let the fault last so long under load: the contract is kept, and no message that is sent since waits too long.

    `workers` are all there are.
    """

    @contextmanager
    def told() -> Iterator[None]:
        with owned.run.paused(Cause.GATEWAY_PAUSED, workers), fault:
            yield

    _check(owned, told(), seconds, Cause.GATEWAY_PAUSED, WAIT_S_MAX, batching)


def check_waits_for_the_dead(owned: Owned, gateway: KeylineGateway) -> None:
    """As above, of a replica that is killed and does not come back."""
    _check(owned, killed(owned, gateway), 0, Cause.GATEWAY_KILLED, GONE_S_MAX, Batching.DEFAULT)


def _check(
    owned: Owned,
    fault: AbstractContextManager[object],
    seconds: float,
    cause: Cause,
    wait_s_max: float,
    batching: Batching,
) -> None:
    run = owned.run
    producer = run.produce(keys=KEYS, rate_per_s=RATE_PER_S, batching=batching, batch_messages_max=100)
    run.wait_acknowledged(BEFORE)
    since_ns = time.monotonic_ns()
    with fault:
        last(seconds)
    run.wait_acknowledged(run.progress.acknowledged + AFTER)
    producer.stop()
    result = run.finish()
    assert result.ok, explain(result, *owned.gateways)
    assert set(result.duplicates_by_cause) <= {cause, Cause.CLIENT_QUEUE}, explain(result, *owned.gateways)
    for gateway in owned.gateways:
        assert not bug_reports(gateway.log), explain(result, *owned.gateways)
    waited_s = max(run.longest_waits(since_ns).values()) / 1e9
    print(f"longest wait {waited_s:.1f} s, {len(result.duplicates)} messages again")
    assert waited_s < wait_s_max, f"{waited_s:.1f} s; {explain(result, *owned.gateways)}"
