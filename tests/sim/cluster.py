"""What the brokers of one world share: their manners, the topic, who serves it, and its consumers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from proxy.wire import commands, frames
from proxy.wire import pulsar_pb2 as pb
from tests.sim.slots import SLOTS, range_slot

if TYPE_CHECKING:
    import random

    from tests.sim.broker import BrokerSession
    from tests.sim.own_topics import OwnTopic
    from tests.sim.storage import Entry, Storage
    from tests.sim.transactions import Coordinator

T = pb.BaseCommand
LEDGER_MADE_S = 0.3
"""From the first ack after a topic was loaded until the cursor has a ledger, in which acknowledgements are stored."""


@dataclass(frozen=True)
class Manners:
    """How well the brokers behave; all chances are 0 in the liveness phase."""

    refuse_chance: float = 0.0
    """That a request is answered with an error."""
    forget_answer_chance: float = 0.0
    """That a request is carried out and never answered."""
    answer_delay_s: float = 0.0
    unacked_max: int = 0
    """Entries a consumer may leave unacknowledged; 0 is no limit."""


GOOD_MANNERS = Manners()


class Cluster:
    """What the brokers of one world share: the topic, its consumers, and who serves it."""

    def __init__(
        self, storage: Storage, dice: random.Random, addresses: list[str], manners: Manners, now: Callable[[], float]
    ) -> None:
        self._now = now
        self.storage = storage
        self.dice = dice
        self.addresses = addresses
        self.owner = addresses[0]
        """Address of the broker that serves the topic."""
        self.manners = manners
        self.consumers: list[Consumer] = []
        self.own_topics: dict[str, OwnTopic] = {}
        """Those that the gateway writes, by name; who serves the topic serves them."""
        self.coordinator: Coordinator | None = None
        """Of transactions, where there are some."""
        self.cut = False
        """Whether each consumer has slots that it names."""
        self.on_close: Callable[[], object] = list
        """Called when consumers are closed by the broker's own will, or it does not tell where the cursor stands."""
        self.deleted = False
        """Whether the subscription was deleted, and not made again."""
        self.on_let_in: Callable[[], object] = list
        """Called when a consumer comes to one that was deleted, which makes it again."""
        self.on_seek: Callable[[], object] = list
        """Called when a seek was carried out, or the subscription was deleted."""
        self.on_forgot: Callable[[list[int]], object] = list
        """Called with messages whose acknowledgement it forgot by that."""
        self.subscribed = 0
        """How often one subscription of the gateway came, and heard so; the first time it takes any place of the cursor
        for news."""
        self.behind: Callable[[], bool] = bool
        """Whether a broker that was killed lost acknowledgements that it did not get again: the cursor stands lower
        than the gateway knows, which takes that for a move."""
        self._behind = False
        """Whether that was so when the topic was loaded."""
        self._told = False
        """Whether it knows where the cursor stood when the topic was loaded."""
        self._acked_at: float | None = None
        """When something was acknowledged first since the topic was loaded."""

    def asked_where(self, *, told: bool) -> None:
        """The gateway asked where the cursor stands; one that is not told takes it for moved, now and the next time."""
        if not told:
            self.on_close()
        elif self._acked_at is None:
            self._told = True

    def load(self) -> None:
        """The topic is served, by the same broker as before or by another."""
        self._acked_at = None
        self._told = False
        self._behind = self.behind()
        self.storage.load()

    def acked(self) -> None:
        """Something was acknowledged."""
        if self._acked_at is None:
            self._acked_at = self._now()

    def give_back(self, entry: Entry) -> None:
        """An abort did: the consumer that has the entry gets it once more."""
        entry.held = False
        for consumer in self.consumers:
            consumer.pending.pop((entry.ledger, entry.entry), None)

    def move(self) -> None:
        """The topic is unloaded: consumers are closed, and another broker serves it, or the same again."""
        early = self._acked_at is not None and self._now() - self._acked_at < LEDGER_MADE_S
        self.storage.store_cursor()
        self.close_consumers()
        if early and self.subscribed > 1:
            self.on_forgot(self.storage.go_back())
            if self._behind or not self._told:
                self.on_close()
        for topic in self.own_topics.values():
            topic.unload()
        self.owner = self.dice.choice(self.addresses)
        self.load()

    def let_in(self, consumer: Consumer) -> None:
        """One more; the first one after the subscription was deleted makes it again."""
        if self.deleted:
            self.on_let_in()
            self.deleted = False
        self.consumers.append(consumer)

    def seek(self, ledger: int, entry: int) -> None:
        """The cursor stands before this entry."""
        self.storage.move_cursor(self.storage.entries.index(self.storage.by_place[ledger, entry]))
        self.on_seek()

    def delete(self) -> None:
        """The subscription is no more: who comes later has all messages from the topic's first one on."""
        self.storage.move_cursor(0)
        if self.coordinator is not None:
            self.coordinator.forget()
        self.deleted = True
        self.on_seek()

    def close_consumers(self) -> None:
        """Tell every consumer that it is closed."""
        consumers, self.consumers = self.consumers, []
        self.on_close()
        for consumer in consumers:
            consumer.returned()
            consumer.session.send(commands.close_consumer(consumer.consumer_id, 0))

    def dispatch(self) -> None:
        """Send what may go: every consumer its keys, in order, none that another consumer still holds."""
        blocked: set[str] = set()
        holders = {entry.outer_key: consumer for consumer in self.consumers for entry in consumer.pending.values()}
        if self._of_several_lives():
            self.storage.astray.update(n for entry in self.storage.open_entries() for n in entry.numbers)
        if not self._any_ready():
            return
        for entry in self.storage.open_entries():
            if entry.held or not entry.available:
                continue
            consumer = self._owner_of(entry.outer_key)
            holder = holders.get(entry.outer_key, consumer)
            if consumer is None or holder is not consumer or not consumer.ready or entry.outer_key in blocked:
                blocked.add(entry.outer_key)
                continue
            consumer.send(entry)
            holders[entry.outer_key] = consumer
            if not self._any_ready():
                return

    def _of_several_lives(self) -> bool:
        """Whether a gateway consumes beside one that was killed, of which the broker has not heard."""
        return len({consumer.session.client for consumer in self.consumers}) > 1

    def _any_ready(self) -> bool:
        return any(consumer.ready for consumer in self.consumers)

    def _owner_of(self, key: str) -> Consumer | None:
        if self.cut:
            slot = range_slot(key)
            return next((each for each in self.consumers if each.slots[0] <= slot <= each.slots[1]), None)
        return self.consumers[sum(key.encode()) % len(self.consumers)]


class Consumer:
    """A consumer of the subscription, at its session."""

    def __init__(self, cluster: Cluster, session: BrokerSession, consumer_id: int) -> None:
        self.cluster = cluster
        self.session = session
        self.consumer_id = consumer_id
        self.permits = 0
        self.is_known = False
        """Whether the gateway has asked something of it."""
        self.probes = False
        """It only asks for the place of another."""
        self.shares = True
        """Others may consume beside it."""
        self.slots = (0, SLOTS - 1)
        """Those that it names, if others may not have them."""
        self.pending: dict[tuple[int, int], Entry] = {}

    @property
    def ready(self) -> bool:
        """Whether an entry may be sent to it."""
        limit = self.cluster.manners.unacked_max
        return self.permits > 0 and not (limit and len(self.pending) >= limit)

    def send(self, entry: Entry) -> None:
        """A MESSAGE."""
        self.permits -= entry.available.bit_count()
        self.pending[entry.ledger, entry.entry] = entry
        entry.held = True
        self.cluster.storage.opaque_sent += entry.opaque
        command = pb.BaseCommand(type=T.MESSAGE)
        body = command.message
        body.consumer_id = self.consumer_id
        body.message_id.ledgerId, body.message_id.entryId = entry.ledger, entry.entry
        body.message_id.partition = -1
        if entry.redeliveries:
            body.redelivery_count = entry.redeliveries
            entry.redeliveries_max = max(entry.redeliveries_max, entry.redeliveries)
        if entry.available != entry.whole:
            body.ack_set.append(entry.available)
        self.session.send(frames.encode_message(command.SerializeToString(), entry.tail))

    def acknowledged(self, place: tuple[int, int]) -> None:
        """Some of an entry was, here or in a transaction: it has it no more if that is all."""
        entry = self.pending.get(place)
        if entry is not None and not entry.available:
            entry.held = False
            del self.pending[place]

    def returned(self) -> None:
        """It is gone: what it had will be sent again."""
        for entry in self.pending.values():
            entry.redeliveries += 1
            entry.held = False
        self.pending.clear()
