"""A gateway that stops itself at the worst moment, once: with messages in hand that it has looked at its lease for.

`python -m tests.integration.freezing_gateway FILE serve`: it stops (SIGSTOP) when a file of that name is there, after
messages were queued for a worker and before the system call that sends them, and it takes the file away first. With
`careless` before FILE it also forgets the rule that is tested with it: what was queued then is sent whenever it wakes.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from proxy.cli import main
from proxy.net.aio_transport import AioTransport
from proxy.net.subscription import Subscription

if TYPE_CHECKING:
    from proxy.core.worker import Worker

_send = Subscription._send


def freeze_at(order: Path) -> None:
    """From now on, stop in the middle of a send when `order` is there."""

    def send(self: Subscription, worker: Worker) -> None:
        in_hand = len(worker.outbox)
        _send(self, worker)
        if self.dispatcher.leases is not None and in_hand > len(worker.outbox) and order.exists():
            order.unlink()
            os.kill(os.getpid(), signal.SIGSTOP)

    Subscription._send = send  # type: ignore[method-assign]


def be_careless() -> None:
    """Send at any time what was queued at any time."""

    def limit(self: AioTransport, seconds: float) -> None:
        pass

    AioTransport.limit = limit  # type: ignore[method-assign]


if __name__ == "__main__":
    if sys.argv[1] == "careless":
        be_careless()
        del sys.argv[1]
    freeze_at(Path(sys.argv.pop(1)))
    main()
