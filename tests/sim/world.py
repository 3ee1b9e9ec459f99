"""One simulated world: it is shaken for a number of steps, then healed, and everything must have got through.

Safety: the checkers raise at the very byte that breaks a guarantee. Liveness: when all faults are off and every worker
behaves, each message is acknowledged within bounded time, and when the workers have left nothing remains anywhere.
Each step draws from dice of its own, so that steps can be left out and the others stay what they were: see `shrink`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from proxy.core.key_policy import NO_POLICY
from proxy.net.subscription.openings import Openings
from proxy.net.subscription.own_topics import dead_letter_topic, parking_topic
from proxy.wire import frames
from proxy.wire import pulsar_pb2 as pb
from tests.sim.attempts import Attempts
from tests.sim.background import Background
from tests.sim.broker import Broker
from tests.sim.checkers import Model
from tests.sim.claims import Claims
from tests.sim.client import key_shared
from tests.sim.cluster import GOOD_MANNERS, Cluster
from tests.sim.connection import End, Tap, Weather
from tests.sim.dead_letters import DeadLetters
from tests.sim.deletion import Deletion
from tests.sim.gateway import Gateway, WakeUps, tell_lot
from tests.sim.lot import Lot
from tests.sim.machine import Pace, Process, Schedule
from tests.sim.network import Listener, Network
from tests.sim.seats import FRAME_BYTES_MAX, Violation
from tests.sim.slots import slot_of_key
from tests.sim.statistics import Numbers
from tests.sim.storage import Producer, Storage
from tests.sim.transactional_worker import TransactionalWorker
from tests.sim.transactions import Coordinator
from tests.sim.worker import GOOD, SUBSCRIPTION, TOPIC, Worker

if TYPE_CHECKING:
    import random
    from collections.abc import Iterable

    from tests.sim.actions import Actions
    from tests.sim.storage import Entry
    from tests.sim.swarm import Swarm

HEAL_S = 900.0
"""Simulated seconds after which a healed world must have delivered everything: keep-alives take up to two minutes."""
HEAL_STEP_S = 5.0
WAKE_UPS_LOOKED_AT = 0.15
NUMBERS_LOOKED_AT = 0.05
"""Of the gateway's turns: a look costs more than the turn."""
GIVEN_BACK = 0.5
"""Where messages are given up: of batches of which a transaction has some, how often a worker wants the rest again."""
PART_S = 150.0
"""And to have forgotten everything after the workers left."""


@dataclass(frozen=True)
class Outcome:
    """What a world that kept every guarantee has to show."""

    messages: int
    deliveries: int
    duplicates: int
    turns: int
    digest: int
    looked: int
    """Turns of the gateway at whose end everything that waits was asked why."""
    compared: int
    """Turns at whose end the numbers it shows were counted anew."""
    dead_letters: int
    """Messages that were given up."""
    claimed: int
    """Messages that were acknowledged in transactions."""
    parked: int
    """Messages that went to the parking topic."""
    redriven: int
    """Messages that came back from there."""
    dropped: int
    """Messages that an operator had deleted there."""
    deleted: int
    """How often a worker deleted the subscription."""


class Edge(Tap):
    """Watches the gateway's connections with workers, and what it sends to brokers."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._to_brokers: dict[End, frames.FrameSplitter] = {}

    def opened(self, end: End) -> None:
        """As the base says."""
        if end.process.name == "gateway" and end.other is not None and end.other.process.name != "broker":
            self._model.opened(end)

    def wrote(self, end: End, data: bytes) -> None:
        """As the base says."""
        if end in self._model.connections:
            self._model.wrote(end, data)
        elif end.process.name == "gateway":
            topic = self._model.dead_letters or self._model.lot
            if topic is not None:
                self._sent(topic, end, data)

    def _sent(self, topic: DeadLetters | Lot, end: End, data: bytes) -> None:
        """Towards a broker: what goes to a topic of the gateway's own."""
        if end not in self._to_brokers:
            self._to_brokers[end] = frames.FrameSplitter(FRAME_BYTES_MAX)
        for frame in self._to_brokers[end].feed(data):
            if frames.frame_type(frame) == pb.BaseCommand.SEND:
                topic.goes(frame[frames.payload_start(frame) :])

    def arrives(self, end: End, data: bytes) -> None:
        """As the base says."""
        if end in self._model.connections:
            self._model.arrives(end, data)

    def ended(self, end: End) -> None:
        """As the base says."""
        if end in self._model.connections:
            self._model.ended(end)


class World:
    """Everything of one seed."""

    def __init__(self, swarm: Swarm) -> None:
        """A gateway, its brokers, no worker yet."""
        self.swarm = swarm
        self.schedule = Schedule()
        self.storage = Storage()
        self.model = Model(
            self.storage,
            lambda: self.gateway.process.clock_s,
            ordered=swarm.mode != "unordered",
            mixed="mixed_batch" in swarm.kinds,
        )
        self.wake_ups = WakeUps(self.storage, self.model, swarm.kinds)
        self.numbers = Numbers(self.storage, self.model)
        self.network = Network(self.schedule, swarm.weather, swarm.dice("network"), Edge(self.model))
        self.producer = Producer(
            self.storage, swarm.dice("producer"), [f"key-{number}" for number in range(swarm.keys)], swarm.kinds
        )
        self.producer.apart_chance = swarm.chunks_apart
        self._processes = 0
        self._look_dice = swarm.dice("look")
        addresses = [f"pulsar://broker-{number}:6650" for number in range(swarm.brokers)]
        dice = swarm.dice("broker")
        self.cluster = Cluster(self.storage, dice, addresses, swarm.manners, lambda: self.schedule.now_s)
        self.model.deletion = Deletion(TOPIC, self.model)
        self.cluster.on_let_in = self.model.deletion.made_again
        self.cluster.on_seek = self.model.cursor_moved
        self.cluster.on_close = self.model.consumer_closed
        self.cluster.on_forgot = self.model.forgot
        self.cluster.behind = lambda: bool(self.model.forgotten)
        self._begin_own_topic()
        self.brokers = [self._start_broker(address) for address in addresses]
        self.coordinator = self._start_coordinator() if swarm.transactions else None
        self.workers: list[Worker] = []
        self._seen: list[tuple[int, int, list[int]]] = []
        self.gateway = self._start_gateway()
        self.trace: list[str] = []
        for _ in range(swarm.backlog):
            self.producer.publish()

    def _begin_own_topic(self) -> None:
        """Where messages go that have used their attempts."""
        settings, model = self.swarm.settings, self.model
        policy = settings.key_policy()
        if not policy.max_attempts:
            return
        model.attempts = Attempts(self.storage, model, policy.max_attempts)
        if policy.park_after:
            model.lot = Lot(parking_topic(settings.parking_topic, TOPIC, SUBSCRIPTION), model)
            model.lot.slot_of = self.slot_of
            self.cluster.own_topics[model.lot.name] = model.lot
        else:
            name = dead_letter_topic(settings.dead_letter_topic, TOPIC, SUBSCRIPTION)
            model.dead_letters = DeadLetters(name, model, model.attempts)
            self.cluster.own_topics[name] = model.dead_letters

    def slot_of(self, number: int) -> int:
        """A message's."""
        return slot_of_key(self.storage.messages[number].key, ring=self.swarm.selector == "consistent_hashing")

    # ---- processes

    def _process(self, name: str) -> Process:
        self._processes += 1
        return Process(self.schedule, self._processes, name)

    def _start_broker(self, address: str) -> Broker:
        process = self._process("broker")
        broker = Broker(process, address, self.cluster)
        self.network.listeners[address] = Listener(process, broker.accept)
        return broker

    def _start_coordinator(self) -> Coordinator:
        coordinator = Coordinator(self._process("coordinator"), self.storage, self.swarm.dice("coordinator"))
        self.cluster.coordinator = coordinator
        in_parts = self.swarm.settings.upstream_batch_index_ack
        self.model.claims = Claims(coordinator, self.storage, lambda: self.gateway.process.clock_s, in_parts=in_parts)
        coordinator.on_committed = self.model.committed
        coordinator.on_given_back = self._given_back
        self.model.claims.is_parked = self.model.is_redriven
        if self.model.dead_letters is not None:
            dice = self.swarm.dice("rest")
            coordinator.gives_rest_back = lambda: dice.random() < GIVEN_BACK
        return coordinator

    def _given_back(self, entry: Entry, bits: int) -> None:
        assert self.model.claims is not None
        self.model.claims.given_back(entry, bits)
        self.cluster.give_back(entry)
        for broker in self.brokers:
            broker.process.call_soon(broker.dispatch_soon)

    def _start_gateway(self) -> Gateway:
        process = self._process("gateway")
        swarm = self.swarm
        if swarm.jump_s:
            process.pace = Pace(swarm.dice(f"pace/{process.number}"), swarm.jump_chance, swarm.jump_s)
        background = Background(process, swarm.dice(f"background/{process.number}"))
        openings = Openings(process, background, swarm.openings)
        gateway = Gateway(process, self.network, self.cluster.addresses, swarm.settings, swarm.limits, openings)
        if self.model.lot is not None:
            tell_lot(gateway.subscriptions, self.model.lot)
        process.after_turn = self._after_gateway_turn
        self.model.new_life()
        if self.model.attempts is not None:
            self.model.attempts.new_gateway()
        self.model.keys = swarm.settings.key_policy() if swarm.mode != "unordered" else NO_POLICY
        self.model.forbidden.clear()
        return gateway

    def _after_gateway_turn(self) -> None:
        gateway = self.gateway
        subscription = gateway.subscription
        if subscription is not gateway.life:
            gateway.life = subscription
            self.cluster.subscribed = 0
            self.model.new_life()
        if gateway.process.busy:
            return
        if self._look_dice.random() < WAKE_UPS_LOOKED_AT:
            self.wake_ups.look(gateway)
        if self._look_dice.random() < NUMBERS_LOOKED_AT:
            self.numbers.look(gateway)

    def start_worker(self, dice: random.Random) -> None:
        """One worker more."""
        number = len(self.workers)
        name = f"worker-{dice.randrange(self.swarm.names)}"
        subscribe = key_shared(TOPIC, SUBSCRIPTION, name)
        if self.swarm.mode == "unordered":
            subscribe.keySharedMeta.allowOutOfOrderDelivery = True
        if self.swarm.selector == "sticky":
            place = number % self.swarm.workers_max
            width = 65_536 // self.swarm.workers_max
            last = 65_535 if place == self.swarm.workers_max - 1 else (place + 1) * width - 1
            subscribe.keySharedMeta.keySharedMode = pb.STICKY
            subscribe.keySharedMeta.hashRanges.add(start=place * width, end=last)
        else:
            subscribe.keySharedMeta.keySharedMode = pb.AUTO_SPLIT
        temper = dice.choice(self.swarm.tempers)
        process = self._process(f"{name}.{number}")
        worker_dice = self.swarm.dice(f"worker/{number}")
        parts = process, self.network, worker_dice, temper, subscribe, self._seen, self.model.meant
        coordinator = self.coordinator
        self.workers.append(Worker(*parts) if coordinator is None else TransactionalWorker(coordinator, *parts))

    @property
    def live(self) -> list[Worker]:
        """Workers that run and mean to stay."""
        return [worker for worker in self.workers if not worker.process.dead and not worker.closed_for_good]

    # ---- the phases

    def run(self, actions: Actions, steps: Iterable[int]) -> Outcome:
        """All three phases. Raises `Violation`, or whatever the code under test raises."""
        for step in steps:
            self.trace.append(actions.step(step))
        self.heal(actions)
        self.part()
        lot = self.model.lot
        return Outcome(
            len(self.storage.messages),
            self.model.deliveries,
            self.model.duplicates,
            self.schedule.turns,
            self.schedule.digest,
            self.wake_ups.looked,
            self.numbers.looked,
            self.model.dead_letters.total if self.model.dead_letters is not None else 0,
            self.model.claims.total if self.model.claims is not None else 0,
            lot.parked_total if lot is not None else 0,
            lot.redriven_total if lot is not None else 0,
            len(lot.dropped) if lot is not None else 0,
            self.model.deletion.done if self.model.deletion is not None else 0,
        )

    def heal(self, actions: Actions) -> None:
        """No more faults: every message must be acknowledged, by whoever is there."""
        self.producer.finish()
        for broker in self.brokers:
            broker.process.call_soon(broker.dispatch_soon)
        actions.undo_all()
        if self.coordinator is not None:
            self.coordinator.close()
        self.cluster.manners = GOOD_MANNERS
        if self.gateway.process.pace is not None:
            self.gateway.process.pace.jump_chance = 0.0
        self.network.weather = Weather(0.0005, 0.0, 1 << 20, 1 << 18)
        for worker in self.workers:
            worker.process.run(worker.read_again)
        # What a worker is stuck with it gives back when it is gone.
        self._end_workers([worker for worker in self.live if worker.temper is not GOOD])
        wanted = self.swarm.workers_max if self.swarm.selector == "sticky" else 2
        dice = self.swarm.dice("heal")
        if self.swarm.selector == "sticky":
            self._end_workers(self.live)
        while len(self.live) < wanted:
            self.start_worker(dice)
            self.workers[-1].temper = GOOD
        end_s = self.schedule.now_s + HEAL_S
        while self.schedule.now_s < end_s:
            self.advance(HEAL_STEP_S)
            actions.redrive_all()
            if not any(entry.owed for entry in self.storage.entries) and not (self.model.lot and self.model.lot.left):
                break
        else:
            left = [number for e in self.storage.entries for p, number in enumerate(e.numbers) if e.owed >> p & 1]
            left += self.model.lot.left if self.model.lot is not None else []
            raise Violation(f"liveness: messages {left[:20]} ({len(left)}) did not get through in {HEAL_S:g} s")
        self.advance(HEAL_STEP_S)

    def part(self) -> None:
        """Everybody leaves: nothing remains at the gateway, and no consumer at the broker."""
        for worker in self.live:
            worker.process.run(worker.close)
        self.advance(PART_S)
        subscriptions = self.gateway.subscriptions
        if subscriptions._subscriptions or subscriptions._bytes_held:
            raise Violation(f"leak: {subscriptions._bytes_held} bytes held, {len(subscriptions._subscriptions)} left")
        if self.cluster.consumers:
            raise Violation("leak: a consumer was left behind at the broker")
        topic = self.model.dead_letters or self.model.lot
        if topic is not None and topic.used:
            raise Violation(f"leak: a producer or a consumer of {topic.name} was left behind at the broker")
        lost = [number for number in range(len(self.storage.messages)) if not self.model.is_done(number)]
        if lost and not self.model.seek_asked:  # by which messages are skipped
            raise Violation(f"lost: messages {lost[:20]} ({len(lost)})")
        waiting = {worker.name: sorted(worker.unanswered) for worker in self.workers if worker.unanswered}
        if any(worker.unanswered and not worker.process.dead for worker in self.workers):
            raise Violation(f"requests that were never answered: {waiting}")

    def _end_workers(self, workers: Iterable[Worker]) -> None:
        for worker in workers:
            self.network.kill(worker.process)

    def advance(self, seconds: float) -> None:
        """Let the world run."""
        self.schedule.run_until(self.schedule.now_s + seconds)
