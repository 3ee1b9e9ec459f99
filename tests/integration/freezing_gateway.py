"""A gateway that stops itself at the worst moment, once: with messages that it has looked at its lease for.

`python -m tests.integration.freezing_gateway PLACE FILE serve`: it stops (SIGSTOP) when a file of that name is there,
and takes the file away first. PLACE is `sending`, after messages were queued for a worker's connection and before the
system call that sends them, or `dispatched`, when it was settled which worker gets them and no more. With `careless`
before PLACE it also forgets the rule that is tested with it: what was settled then is sent whenever it wakes.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from proxy.aio.transport import AioTransport
from proxy.cli.main import main
from proxy.core import streams_here
from proxy.net.subscription.subscription import Subscription

if TYPE_CHECKING:
    from proxy.core.dispatcher import Dispatcher
    from proxy.core.worker import Worker

_send = Subscription._send
_flush = Subscription.flush


def _stop(order: Path) -> None:
    if order.exists():
        order.unlink()
        os.kill(os.getpid(), signal.SIGSTOP)


def freeze_sending(order: Path) -> None:
    """From now on, stop in the middle of a send when `order` is there."""

    def send(self: Subscription, worker: Worker) -> None:
        in_hand = len(worker.outbox)
        _send(self, worker)
        if self.state.dispatcher.leases is not None and in_hand > len(worker.outbox):
            _stop(order)

    Subscription._send = send  # type: ignore[method-assign]


def freeze_dispatched(order: Path) -> None:
    """Likewise at the end of a turn, before anything of what it dispatched is sent."""

    def flush(self: Subscription) -> None:
        dispatcher = self.state.dispatcher
        if dispatcher.leases is not None and any(worker.outbox for worker in dispatcher.workers.values()):
            _stop(order)
        _flush(self)

    Subscription.flush = flush  # type: ignore[method-assign]


def send_at_any_time() -> None:
    """Also what was queued at any time."""

    def limit(self: AioTransport, seconds: float) -> None:
        pass

    def push(self: AioTransport) -> None:
        """Nothing leaves before the process is stopped: without limits it would."""

    AioTransport.limit = limit  # type: ignore[method-assign] # the fault itself
    AioTransport.push = push  # type: ignore[method-assign] # what belongs to it


def keep_what_was_dispatched() -> None:
    """Whatever becomes of its stream."""

    def hold_stream(dispatcher: Dispatcher, stream: int, now: float) -> None:
        _ = now
        assert dispatcher.leases is not None
        dispatcher.leases.close(stream)

    streams_here.hold_stream = hold_stream


PLACES = {"sending": (freeze_sending, send_at_any_time), "dispatched": (freeze_dispatched, keep_what_was_dispatched)}


if __name__ == "__main__":
    careless = sys.argv[1] == "careless"
    if careless:
        del sys.argv[1]
    freeze, forget_the_rule = PLACES[sys.argv.pop(1)]
    freeze(Path(sys.argv.pop(1)))
    if careless:
        forget_the_rule()
    main()
