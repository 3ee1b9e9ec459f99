"""How long a message waits at most while something is wrong with a replica in owner mode; audited."""

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
    run = owned.run
    producer = run.produce(keys=KEYS, rate_per_s=RATE_PER_S, batching=batching, batch_messages_max=100)
    run.wait_acknowledged(BEFORE)
    since_ns = time.monotonic_ns()
    with run.paused(Cause.GATEWAY_PAUSED, workers), fault:
        last(seconds)
    run.wait_acknowledged(run.progress.acknowledged + AFTER)
    producer.stop()
    result = run.finish()
    assert result.ok, explain(result, *owned.gateways)
    causes = {Cause.GATEWAY_PAUSED, Cause.CLIENT_QUEUE}
    assert set(result.duplicates_by_cause) <= causes, explain(result, *owned.gateways)
    for gateway in owned.gateways:
        assert not bug_reports(gateway.log), explain(result, *owned.gateways)
    waited_s = max(run.longest_waits(since_ns).values()) / 1e9
    print(f"longest wait {waited_s:.1f} s")
    assert waited_s < WAIT_S_MAX, f"{waited_s:.1f} s; {explain(result, *owned.gateways)}"
