"""What an operator may change of a dispatcher while it runs; functions of its state.

The two ordered modes keep the same contract (one holder a slot), so either may take over from the other at any moment.
Delivery without order keeps no account of who holds which slot: there is no way back from it, nor into it, while
messages are pending, and it is the clients' own wish.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.core import join_gates
from proxy.core.dispatcher import Dispatcher, OrderingMode
from proxy.core.waiting import insert_all

if TYPE_CHECKING:
    from proxy.core.entry import Part
    from proxy.core.key_policy import KeyPolicy
    from proxy.core.worker import Worker


def change_mode(dispatcher: Dispatcher, mode: OrderingMode, now: float) -> None:
    """Go on under another ordered mode: worker by worker that joins from now on.

    Join gates that stand (PIP-282) are opened with the mode that knows none: draining keeps the order as well.
    """
    assert dispatcher.ordered
    assert mode is not OrderingMode.UNORDERED
    dispatcher.mode = mode
    if mode is not OrderingMode.LAST_SENT_POSITION and dispatcher.gated:
        for worker in join_gates.open_first(dispatcher.gated, len(dispatcher.gated)):
            dispatcher.serve(worker, now)


def change_max_unacked(dispatcher: Dispatcher, worker: Worker, max_unacked: int, now: float) -> None:
    """Set the worker's limit of unacknowledged messages, 0 for none.

    One that holds more keeps them, and gets new ones when it is below half of the bound, as after any such stop.
    """
    worker.max_unacked = max_unacked
    worker.over_unacked = bool(max_unacked) and worker.unacked >= max_unacked
    if worker.reconsider():
        dispatcher.serve(worker, now)


def change_key_policy(dispatcher: Dispatcher, policy: KeyPolicy, now: float) -> None:
    """Set another window, and other pauses: those that have begun end when they were to, or now if there are none.

    Workers keep what they have; a slot with more than the window gets no more until it has less.
    """
    placed: list[Part] = []
    for worker in dispatcher.workers.values():
        placed += worker.ready
        worker.ready.clear()
    dispatcher.set_policy(policy)
    if not dispatcher.policy.retry_delay_s:
        dispatcher.retries.clear()
    for entry in dispatcher.blocked.values():
        parts = list(entry.parts)
        entry.parts.clear()
        insert_all(entry.parts, [piece for part in parts for _, piece in dispatcher.by_target(part)])
    dispatcher.settle_waiting(now, placed)
    dispatcher.serve_begun(now)
