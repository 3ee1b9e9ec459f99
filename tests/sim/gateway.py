"""A gateway on the made-up network: every part but sockets, loop and clock is the real one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from proxy.core.dispatcher import OrderingMode
from proxy.core.entry import PART_BYTES, Batch
from proxy.limits import Limits
from proxy.net.broker.directory import Brokers
from proxy.net.broker.names import BrokerNames
from proxy.net.broker.settings import BrokerSettings
from proxy.net.election.elections import ElectionSettings, ProducerElections
from proxy.net.owner.told_transport import ToldTransport
from proxy.net.session.services import SessionServices
from proxy.net.session.sessions import Sessions
from proxy.net.session.settings import SessionSettings
from proxy.net.subscription.directory import Subscriptions
from proxy.service_url import parse_service_url
from tests.sim.leases import check_leases
from tests.sim.network import Listener
from tests.sim.seats import Violation
from tests.sim.slots import slot_of_key

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Sequence

    from proxy.core.worker import Worker
    from proxy.net.subscription.openings import Openings
    from proxy.net.subscription.settings import SubscriptionSettings
    from proxy.net.subscription.subscription import Subscription
    from tests.sim.checkers import Model
    from tests.sim.lot import Lot
    from tests.sim.machine import Process
    from tests.sim.network import Network
    from tests.sim.seats import Seat
    from tests.sim.storage import Storage

ADDRESS = "pulsar://gateway:6650"
BURST_BYTES = 100 * 1_300
"""What may come above the budget: the first grant, made before anything is known of the messages' size, at what one
message with its place in the queues costs."""


class Gateway:
    """One life of a gateway process."""

    def __init__(
        self,
        process: Process,
        network: Network,
        brokers: list[str],
        settings: SubscriptionSettings,
        limits: Limits,
        openings: Openings,
    ) -> None:
        """Listens at once."""
        self.process = process
        connector = network.connector(process)
        broker_settings = BrokerSettings(
            service_urls=tuple(brokers), client_version="Keyline-sim", keep_alive_s=limits.keep_alive_s
        )
        session_settings = SessionSettings(tuple(parse_service_url(url) for url in brokers))
        names = BrokerNames(session_settings.brokers, process)
        self.brokers = Brokers(connector, process, broker_settings, names.add)
        self.subscriptions = Subscriptions(self.brokers, process, settings, openings)
        heed_monitor(self.subscriptions)
        elections = ProducerElections(process, self.subscriptions.events, ElectionSettings())
        slices = self.subscriptions.slices
        self.sessions = Sessions(
            SessionServices(connector, process, self.subscriptions, elections, names, session_settings, limits, slices)
        )
        network.listeners[ADDRESS] = Listener(process, self.sessions.admit)
        self.settings = settings
        self.life: Subscription | None = None

    @property
    def subscription(self) -> Subscription | None:
        """The one there is, if any worker has joined."""
        return next(iter(self.subscriptions._subscriptions.values()), None)


def heed_monitor(subscriptions: Subscriptions) -> None:
    """The gateway's own monitor of the contract, which judges every key here, is never to ring."""

    def rings() -> None:
        facts = listener.take()[1][-1].facts
        raise Violation(f"monitor: {facts}")

    listener = subscriptions.events.listen(rings, wanted=lambda event: event.kind == "contract_violated")


def tell_lot(subscriptions: Subscriptions, lot: Lot) -> None:
    """Of each end of an order to it."""

    def tell() -> None:
        for event in listener.take()[1]:
            lot.told(event)

    kinds = {"redriven", "parked_dropped", "redrive_failed"}
    listener = subscriptions.events.listen(tell, wanted=lambda event: event.kind in kinds)


class Looked(Protocol):
    """What is looked at: a gateway, or a replica about one of its topics."""

    settings: SubscriptionSettings
    subscriptions: Subscriptions
    process: Process

    @property
    def subscription(self) -> Subscription | None:
        """The one that is looked at, if it is there."""


def _besides(subscription: Subscription | None) -> int:
    """Bytes that pieces of batches cost besides: most are cut long after they were read, when they come back.

    And what is redriven, some messages of each key that operators order, whatever else is held.
    """
    if subscription is None:
        return 0
    dispatcher = subscription.state.dispatcher
    batches = [entry for entry in dispatcher.outstanding.entries.values() if isinstance(entry, Batch)]
    fed = (part.batch for parts in dispatcher.diversions.fed.values() for part in parts)
    redriven = sum(batch.bytes_held for batch in fed if batch is not None)
    return PART_BYTES * sum(len(batch.parts) for batch in batches) + redriven


class WakeUps:
    """G6 and G7, at the end of the gateway's turns."""

    def __init__(self, storage: Storage, model: Model, kinds: Sequence[str]) -> None:
        """`kinds` of entries that are published."""
        self._storage = storage
        self._model = model
        self._kinds = kinds
        self._keys: dict[int, list[str]] = {}
        """By slot; each key has one as long as the world lasts."""
        self._slot_of: dict[str, int] = {}
        self._known = 0
        """Messages whose keys are known."""
        self.looked = 0

    def look(self, gateway: Looked) -> None:
        """Nothing that could go waits, and memory is bounded."""
        self.looked += 1
        settings = gateway.settings
        held = gateway.subscriptions._bytes_held
        allowed = settings.gateway_memory_bytes + BURST_BYTES
        if held > allowed and held > allowed + _besides(gateway.subscription):
            raise Violation(f"G7: {held} bytes held, {settings.gateway_memory_bytes} allowed")
        process = gateway.process
        subscription = gateway.subscription
        lease_s = 0.0 if subscription is None else subscription.state.dispatcher.ack_lease_s
        heard_s = max(process.went_on_s, self._model.leases_since_s)
        check_leases(self._seats(gateway), lease_s, _surely(process), heard_s)
        if subscription is None or self._model.unsettled:
            return
        if subscription.state.ended or subscription.state.dispatcher.paused:
            return
        for number in self._arrived_heads(gateway, subscription):
            self._could_go(gateway, subscription, number)

    def _seats(self, gateway: Looked) -> Iterable[Seat]:
        """Those of its workers."""
        _ = gateway
        return self._model.seats()

    def _keys_in(self, subscription: Subscription, slot: int) -> list[str]:
        """All keys of a slot that there are."""
        messages = self._storage.messages
        for number in range(self._known, len(messages)):
            key = messages[number].key
            if key not in self._slot_of:
                self._slot_of[key] = slot_of(subscription, key)
                self._keys.setdefault(self._slot_of[key], []).append(key)
        self._known = len(messages)
        return self._keys.get(slot, [])

    def _serves(self, gateway: Looked, key: str) -> bool:
        """Whether it is to deliver the key."""
        _ = gateway, key
        return True

    def _arrived_heads(self, gateway: Looked, subscription: Subscription) -> list[int]:
        """Of every key, the first message that arrived here and that nobody has acknowledged or holds."""
        heads = []
        arrived = subscription.state.dispatcher.outstanding.entries
        for key in [key for key in self._model._open if self._serves(gateway, key)]:
            waiting = (number for number in self._model.open_of(key) if number not in self._model.holder)
            first = next(waiting, None)
            if first is not None and first not in self._model.late:
                entry = self._storage.messages[first].entry
                if (entry.ledger << 40) + entry.entry in arrived and not self._in_transaction(subscription, first):
                    heads.append(first)
        return heads

    def _in_transaction(self, subscription: Subscription, number: int) -> bool:
        """Whether it is in a transaction, or waits for one; also one of an earlier life: the broker keeps it back."""
        dispatcher, message = subscription.state.dispatcher, self._storage.messages[number]
        position = (message.entry.ledger << 40) + message.entry.entry
        if position in dispatcher.in_transaction:
            return True
        if dispatcher.in_transaction.count_of(slot_of(subscription, message.key)):
            return True
        return bool(dispatcher.outstanding.bits_kept_back(position) >> message.entry.numbers.index(number) & 1)

    @property
    def _claimed(self) -> Container[int]:
        """Messages that come back if their transactions are aborted."""
        return () if self._model.claims is None else self._model.claims.claimed

    def _could_go(self, gateway: Looked, subscription: Subscription, number: int) -> None:
        dispatcher = subscription.state.dispatcher
        slot = slot_of(subscription, self._storage.messages[number].key)
        entry = self._storage.messages[number].entry
        asked = dispatcher.outstanding.spill.asked
        if (entry.ledger << 40) + entry.entry in asked:
            return  # only the broker has its bytes, and will send them
        beginner = self._began(number)
        if beginner is not None:
            waits = slot in dispatcher.diversions.held or self._waits_for_retry(gateway, subscription, slot)
            if waits and (number in self._model.given_back or number in self._claimed):
                return  # it waits with its key, as all that comes back
            if beginner.permits > 0 and beginner.end.writable:
                raise Violation(f"G6: piece {number} of a message waits that {beginner.name} has begun")
            return
        owner = dispatcher.select(slot)
        if owner is None or owner.join_gate is not None or not _takes(owner):
            return
        blocked = dispatcher.blocked.get(slot)
        before = [*list(owner.ready)[:1], *([blocked.parts[0]] if blocked is not None else [])]
        if any(part.position in asked for part in before):
            return  # what comes before it
        seat = seat_of(subscription, owner, self._model)
        if seat is None or seat.permits <= 0 or not seat.end.writable:
            return
        others = self._holders(subscription, slot) - {seat}
        if others and (subscription.state.policy.mode is not OrderingMode.UNORDERED or "chunked" in self._kinds):
            return  # without order, too, the rest of a message that another has begun may stand before it
        if self._in_interval(gateway, subscription, slot) or self._waits_for_key(gateway, subscription, slot):
            return
        raise Violation(
            f"G6: message {number} waits though {owner.name} has {seat.permits} permits and nobody holds it"
        )

    def _began(self, number: int) -> Seat | None:
        """Who holds every piece of a chunked message before this one."""
        messages, holder = self._storage.messages, self._model.holder
        before = messages[number].follows
        seat = holder.get(before)
        while before >= 0:
            if holder.get(before) is not seat:
                return None
            before = messages[before].follows
        return seat

    def _in_interval(self, gateway: Looked, subscription: Subscription, slot: int) -> bool:
        """Whether the slot came free so lately that it may be held for the interval's end, and no longer ago."""
        interval_s = gateway.settings.key_shared_unblocking_interval_ms / 1_000
        now_s = _surely(gateway.process)
        if not interval_s or gateway.process.just_went_on:
            return bool(interval_s)
        claims = self._model.claims
        keys = self._keys_in(subscription, slot)
        if claims is not None and not claims.keys.isdisjoint(keys):
            return True  # the gateway's edge does not show when it knows how a transaction ended
        freed = (self._model.freed_at.get(key, 0.0) for key in keys)
        return now_s <= max(freed, default=0.0) + interval_s

    def _waits_for_key(self, gateway: Looked, subscription: Subscription, slot: int) -> bool:
        """Whether the slot's window is full, it is parked, or a message was given back and its delay is not over."""
        if slot in subscription.state.dispatcher.diversions.held:
            return True
        policy = self._model.keys
        there = sum(len(self._model.by_key.get(key, ())) for key in self._keys_in(subscription, slot))
        room = policy.window - there
        if policy.window and room <= 0:
            return True
        head = next(iter(subscription.state.dispatcher.waiting_in(slot)), None)
        if policy.window and head is not None and there and not head.divisible and head.count > room:
            return True  # a batch that cannot be cut waits until nothing is out
        return self._waits_for_retry(gateway, subscription, slot)

    def _waits_for_retry(self, gateway: Looked, subscription: Subscription, slot: int) -> bool:
        now_s = _surely(gateway.process)
        keys, messages = self._keys_in(subscription, slot), self._storage.messages
        latest = max((at for each, at in self._model.retry_at.items() if messages[each].key in keys), default=0.0)
        return now_s <= latest or (latest > 0.0 and gateway.process.just_went_on)

    def _holders(self, subscription: Subscription, slot: int) -> set[Seat]:
        """Who holds messages of the slot, by the model."""
        held = (self._model.by_key.get(key) for key in self._keys_in(subscription, slot))
        return {self._model.holder[next(iter(each))] for each in held if each}


def _surely(process: Process) -> float:
    """The moment that a gateway's times have come to, wherever in its turns they were taken and timers were set."""
    return process.clock_s - 2 * process.longest_turn_s


def seat_of(subscription: Subscription, worker: Worker, model: Model) -> Seat | None:
    """The worker as the model knows it; None if its connection has ended."""
    link: Any = subscription.subscribers[worker.index].link
    transport = link._transport
    if isinstance(transport, ToldTransport):  # another replica's, for its client
        transport = transport._transport
    connection = model.connections.get(transport)
    return connection.seats.get(link.consumer_id) if connection is not None else None


def decided(subscription: Subscription, model: Model) -> dict[Seat, int]:
    """Deliveries that were decided on and not written yet, by whom they are for."""
    workers = subscription.state.dispatcher.workers.values()
    seats = ((seat_of(subscription, worker, model), worker) for worker in workers)
    return {seat: len(worker.outbox) for seat, worker in seats if seat is not None}


def _takes(worker: Worker) -> bool:
    """No reason of the worker's own keeps messages from it."""
    return not worker.drained_by_operator and not (worker.max_unacked and worker.over_unacked)


def slot_of(subscription: Subscription, key: str) -> int:
    """The key's slot, from the facts' formula."""
    state = subscription.state
    ring = state.settings.selector == "consistent_hashing" and not (state.policy.sticky or state.streamed)
    return slot_of_key(key, ring=ring)
