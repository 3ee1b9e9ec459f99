"""What the dispatcher holds: one subscription's state, and questions about it that change nothing.

`Dispatcher` is one owner in four layers, each a class on top of the former: the tables here, whom a message may go to
(`targets`), what waits and is served (`serving`), and what happens to it from outside (`dispatcher`). A layer calls
only itself and those below it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import Enum
from itertools import chain
from typing import TYPE_CHECKING

from proxy.core.chunked import ChunkedMessages
from proxy.core.diversions import Diversions
from proxy.core.draining_hashes import Change, DrainingHashes
from proxy.core.histogram import Histogram
from proxy.core.key_policy import NO_POLICY, KeyPolicy, RetryWaits
from proxy.core.outstanding import Outstanding
from proxy.core.slots import SlotTable
from proxy.core.transactions import OpenTransactions
from proxy.core.unblocking import Unblocking
from proxy.core.worker import DeliveryTotals

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from proxy.core.delivery_log import Ending
    from proxy.core.entry import Part
    from proxy.core.selectors.base import Selector
    from proxy.core.stream_leases import StreamLeases
    from proxy.core.waiting import BlockedSlot
    from proxy.core.worker import JoinGate, Worker


class OrderingMode(Enum):
    """What a subscription promises when keys move between workers."""

    DRAINING_HASHES = "draining_hashes"
    """PIP-379: only the slots in flight wait, each until its old holder is done with it."""
    LAST_SENT_POSITION = "last_sent_position"
    """PIP-282: besides, a worker that joined waits for everything that was sent before it came."""
    UNORDERED = "unordered"
    """allowOutOfOrderDelivery: a key's messages go to its owner at once, regardless of holders of earlier ones."""


@dataclass(frozen=True, slots=True)
class HandOver:
    """A slot went from one worker to another after it had drained."""

    slot: int
    holder: str
    owner: str | None
    cause: Change
    """What made it drain."""
    ended_at: float
    waiting_messages: int

    @property
    def began_at(self) -> float:
        """When it began to drain."""
        return self.cause.at


class DispatcherTables:
    """State of one (topic partition, subscription)."""

    __slots__ = (
        "ack_latency",
        "ack_lease_s",
        "blocked",
        "blocked_time",
        "by_slot",
        "chunked",
        "comebacks",
        "departed",
        "direct",
        "diversions",
        "draining",
        "draining_cleared_total",
        "endings",
        "excluded",
        "free_indexes",
        "gated",
        "hand_over_duration",
        "hand_overs",
        "in_transaction",
        "leases",
        "mode",
        "opaque_overshoots",
        "ordered",
        "outstanding",
        "paused",
        "policy",
        "quarantined",
        "retries",
        "select",
        "selector",
        "slots",
        "touched",
        "unblocking",
        "waiting_messages",
        "window",
        "window_overshoots",
        "workers",
    )

    def __init__(
        self,
        selector: Selector[Worker],
        mode: OrderingMode = OrderingMode.DRAINING_HASHES,
        leases: StreamLeases | None = None,
        unblocking_interval_s: float = 0.0,
        key_policy: KeyPolicy = NO_POLICY,
    ) -> None:
        """A subscription without workers; `selector` must be empty.

        `leases` tells which slots may be delivered, and until when; None where no other replica has a part in it.
        `unblocking_interval_s` above 0: slots that have drained are released together, see `unblocking`.
        `key_policy` is of no effect without order.
        """
        self.selector = selector
        self.leases = leases
        self.mode = mode
        self.ordered = mode is not OrderingMode.UNORDERED
        self.select = selector.select
        self.workers: dict[int, Worker] = {}
        """By index, in join order."""
        self.free_indexes: list[int] = []
        """A heap of the indexes below the highest that no worker has."""
        self.outstanding = Outstanding()
        self.slots = SlotTable()
        self.draining = DrainingHashes()
        self.unblocking = Unblocking(unblocking_interval_s)
        self.retries = RetryWaits()
        self.diversions = Diversions()
        self.blocked: dict[int, BlockedSlot] = {}
        """Slots of which something waits that no worker may have now."""
        self.waiting_messages = 0
        self.chunked = ChunkedMessages()
        self.in_transaction = OpenTransactions()
        self.touched: list[Worker] = []
        """Workers with something in their outbox, each of them: one whose socket is full stays in it."""
        self.gated: list[JoinGate] = []
        """By position, see `join_gates`."""
        self.excluded = 0
        """Names of workers that are here without slots because an operator excluded them."""
        self.quarantined: dict[str, float] = {}
        """Names of workers that lost their ack lease too often and are here without slots, and when that ends."""
        self.paused = False
        self.set_policy(key_policy)
        self.hand_overs: list[HandOver] = []
        self.endings: list[Ending] | None = None
        """The endings of deliveries, for the caller to take; None if they are not recorded."""
        self.comebacks: list[tuple[str, int]] = []
        """Workers and how many messages came back from them, for the caller to take."""
        self.draining_cleared_total = 0
        self.opaque_overshoots = 0
        """Deliveries larger than the permits because the entry could not be cut."""
        self.window_overshoots = 0
        """Deliveries larger than the key's window for the same reason."""
        # How long a worker may hold a message, see `ack_lease`; 0 as long as it likes.
        self.ack_lease_s = 0.0
        self.departed = DeliveryTotals()
        """Counts of the workers that have left."""
        self.ack_latency = Histogram()
        """From each delivery to the ack of its last message."""
        self.hand_over_duration = Histogram()
        """From a membership change until the former holder of a slot that moved had nothing of it left."""
        self.blocked_time = Histogram()
        """How long what could not leave at once waited, for each delivery."""

    def set_policy(self, policy: KeyPolicy) -> None:
        """Set the policy; what waits is the caller's to place anew, see `policy_change`."""
        self.policy = policy if self.ordered else NO_POLICY
        self.window = self.policy.window
        self.by_slot = not self.policy.neutral
        """Whether each delivery is to be of one slot."""
        self._set_direct()

    def _set_direct(self) -> None:
        self.direct = not self.paused and not self.by_slot
        """Whether what comes may leave without having been queued."""

    def lapsed(self, now: float) -> bool:
        """Whether nothing may be delivered for want of a lease that lasts."""
        return self.leases is not None and self.leases.lapsed(now)

    @property
    def draining_begun_total(self) -> int:
        """Slots that have begun to drain."""
        return len(self.draining) + self.draining_cleared_total

    def free_permits(self) -> int:
        """Messages that the workers would take at once. Walks all workers."""
        return sum(worker.permits for worker in self.workers.values() if worker.open and worker.permits > 0)

    def _lacks(self, part: Part) -> bool:
        """Whether only the broker has the bytes of a part: see `spill`."""
        return self.outstanding.spill.lacks(part)

    def waiting_queues(self) -> Iterator[Iterable[Part]]:
        """All that waits: each queue in topic order."""
        for worker in self.workers.values():
            yield worker.ready
        for entry in self.blocked.values():
            yield entry.parts

    def waiting_parts(self) -> Iterator[Part]:
        """All that waits, in no order."""
        return chain.from_iterable(self.waiting_queues())

    def waiting_in(self, slot: int) -> list[Part]:
        """Parts that wait with messages of the slot, in topic order. Walks what waits for the slot's owner."""
        entry = self.blocked.get(slot)
        owner = self.select(slot)
        own = [part for part in owner.ready if part.unacked_of(slot)] if owner is not None else []
        return [*own, *entry.parts] if entry is not None else own

    def waiting_by_slot(self) -> Counter[int]:
        """How many messages of each slot wait."""
        slots: Counter[int] = Counter()
        for part in self.waiting_parts():
            for slot, messages in part.messages_by_slot():
                slots[slot] += messages
        return slots
