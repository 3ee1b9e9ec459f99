"""One simulated deployment: it is shaken for a number of steps, then healed, and everything must have got through.

See `tests.sim.world`, which does the same with one gateway. Faults last for a while and overlap; what ends them is
planned when they begin.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from proxy.net.subscription import own_topics
from proxy.wire import pulsar_pb2 as pb
from tests.sim.client import key_shared
from tests.sim.cluster import GOOD_MANNERS, Cluster, Manners
from tests.sim.connection import Weather
from tests.sim.deletion import Deletion
from tests.sim.deployment.broker import DeploymentBroker, sentinel_of
from tests.sim.deployment.deletion import delete_all
from tests.sim.deployment.draw import divisible
from tests.sim.deployment.judge import Edges, OwnersModel
from tests.sim.deployment.orders import Operators, Standing
from tests.sim.deployment.replica import Replica, address_of
from tests.sim.deployment.streams import StreamsModel, StreamWakeUps
from tests.sim.deployment.transactions import OpenTransactions, let_ask
from tests.sim.gateway import WakeUps
from tests.sim.lot import Lot
from tests.sim.machine import Process, Schedule
from tests.sim.network import Listener, Network
from tests.sim.seats import Violation
from tests.sim.slots import SLOTS
from tests.sim.storage import Producer, Storage
from tests.sim.transactional_worker import TransactionalWorker
from tests.sim.worker import GOOD, SUBSCRIPTION, Worker

if TYPE_CHECKING:
    import random
    from collections.abc import Iterable

    from tests.sim.connection import End
    from tests.sim.deployment.draw import DeploymentSwarm
    from tests.sim.deployment.faults import DeploymentActions
    from tests.sim.own_topics import OwnTopic

BROKER = "pulsar://broker:6650"
HEAL_S = 300.0
"""Simulated seconds after which a healed deployment must have delivered everything."""
HEAL_STEP_S = 2.0
JOINED_S = 60.0
PART_S = 120.0
CONSUMER_IDS = (0, 1, 1, 2, 1 << 32, (1 << 63) - 1, (1 << 64) - 1)
"""Clients choose them, and may choose what a gateway has of its own."""
REQUEST_IDS = (1, 1, 100, (1 << 63) - 3, (1 << 64) - 5)
"""Of a client's first request."""
WELL_ID_MAX = 100
"""Of these, where all workers are well: clients do not count to what a gateway has of its own."""
LOOKED_AT = 0.1
"""Of the replicas' turns."""


@dataclass(frozen=True)
class DeploymentOutcome:
    """What a deployment that kept every promise has to show."""

    messages: int
    deliveries: int
    duplicates: int
    turns: int
    digest: int
    moves: int
    """How often another owner delivered than before."""
    passed_on: int
    """Messages that a replica passed on for another."""
    looked: int
    """How often an owner was asked why something waits."""
    longest_wait_s: float
    """From a message until its acknowledgement, where that is bounded."""
    outlived: int
    """How often an owner had to carry out what the one before it was ordered."""
    parked: int
    """Messages that went to a parking topic."""
    redriven: int
    """Messages that came back from there."""
    dropped: int
    """Messages that an operator had deleted there."""
    orders_passed_on: int
    """Orders that were done by another replica than the one that was asked."""
    deleted: int
    """How often a worker deleted its subscription."""
    not_moved: int
    """Messages that the broker gave to workers of its own."""
    claimed: int
    """Messages that were acknowledged in transactions."""
    found_open: int
    """How often an owner that took over was told that some are open."""
    stream_moves: int
    """How often a stream was delivered by another replica than before."""


class Topic:
    """One that workers consume."""

    def __init__(self, world: Deployment, number: int) -> None:
        swarm = world.swarm
        self._world = world
        self.name = f"persistent://public/default/orders-{number}"
        self.key = (self.name, SUBSCRIPTION)
        self.storage = Storage()
        self.streamed = swarm.streamed and (swarm.alone or number == swarm.topics - 1)
        kinds = divisible(swarm.kinds) if self.streamed else swarm.kinds
        self.model = (StreamsModel if self.streamed else OwnersModel)(
            self.storage,
            lambda: world.schedule.now_s,
            ordered=True,
            mixed="mixed_batch" in kinds or (swarm.migrating and not swarm.orderly),
        )
        self.model.topic, self.model.world = self, world
        self.model.keys = swarm.settings.key_policy()
        self.lot = Lot(parking_topic(swarm, self.name), self.model) if swarm.settings.park_after else None
        self.model.lot = self.lot
        self.deletion = self.model.deletion = Deletion(self.name, self.model)
        self.standing = Standing(self, self.model.keys)
        self.wake_ups = (StreamWakeUps if self.streamed else WakeUps)(self.storage, self.model, kinds)
        keys = [f"key-{key}" for key in range(swarm.keys)]
        self.producer = Producer(self.storage, swarm.dice(f"producer/{number}"), keys, kinds)
        manners = Manners(answer_delay_s=swarm.answer_delay_s)
        now = lambda: world.schedule.now_s  # noqa: E731 - a clock
        self.cluster = Cluster(self.storage, swarm.dice(f"broker/{number}"), [BROKER], manners, now)
        self.cluster.cut = self.streamed
        self.cluster.on_close = self.model.consumer_closed
        self.cluster.on_forgot = self.model.forgot
        self.cluster.on_seek = self.model.cursor_moved
        self.cluster.on_let_in = self.deletion.made_again
        self.cluster.behind = lambda: bool(self.model.forgotten)
        self.transactions: OpenTransactions | None = None
        if swarm.transactions and not self.streamed:
            self.transactions = OpenTransactions(world, self, number, world.new_process("coordinator"))
        self.published_s: list[float] = []
        """When each message was, by its number."""
        self.seen: list[tuple[int, int, list[int]]] = []
        self.workers: list[Worker] = []

    def publish(self, now_s: float) -> None:
        """One entry more."""
        self.producer.publish()
        self.published_s += [now_s] * (len(self.storage.messages) - len(self.published_s))

    @property
    def live(self) -> list[Worker]:
        """Workers that run and mean to stay."""
        return [worker for worker in self.workers if not worker.process.dead and not worker.closed_for_good]

    def check_end(self) -> None:
        """All have left: nothing of it is open at the broker, every request was answered, and no message is lost."""
        if self.cluster.consumers:
            raise Violation(f"leak: a consumer of {self.name} was left behind at the broker")
        if self._world.broker.own_topic(sentinel_of(self.name)).readers:
            raise Violation(f"leak: a sentinel of {self.name} was left behind at the broker")
        if self.lot is not None and self.lot.readers:
            raise Violation(f"leak: a consumer of {self.lot.name} was left behind at the broker")
        for worker in self.workers:  # what the broker itself owes to a direct one is not the gateways'
            if worker.moved and worker.unanswered and not worker.process.dead:
                raise Violation(f"requests of {worker.name} never answered: {sorted(worker.unanswered)}")
        lost = [number for number in range(len(self.storage.messages)) if not self.model.is_done(number)]
        if lost and not self.model.seek_asked:  # by which messages are skipped
            raise Violation(f"lost: messages {lost[:20]} ({len(lost)}) of {self.name}")


def parking_topic(swarm: DeploymentSwarm, topic: str) -> str:
    """Where what is parked of a topic's subscription goes."""
    return own_topics.parking_topic(swarm.settings.parking_topic, topic, SUBSCRIPTION)


class Deployment:
    """Everything of one seed."""

    def __init__(self, swarm: DeploymentSwarm) -> None:
        """Replicas that start, no worker yet."""
        self.swarm = swarm
        self.schedule = Schedule()
        self.moves = self.passed_on = self.not_moved = 0
        self.longest_wait_s = 0.0
        self._processes = 0
        self.network = Network(self.schedule, swarm.weather, swarm.dice("network"), Edges(self))
        self.hand = self.new_process("hand")
        """What ends faults."""
        made = [Topic(self, number) for number in range(swarm.topics)]
        self.topics = {topic.name: topic for topic in made}
        self.broker = self.start_broker({topic.lot.name: topic.lot for topic in made if topic.lot is not None})
        self.replicas: dict[str, Replica] = {}
        """The present life of each, or the last, by the name of its process."""
        self._by_process: dict[Process, Replica] = {}
        self._topic_of_worker: dict[Process, Topic] = {}
        self.operators = Operators(self)
        self._look_dice = swarm.dice("look")
        self.trace: list[str] = []
        for number in range(swarm.replicas):
            self.start_replica(f"replica-{number}")

    # ---- who is there

    @property
    def live(self) -> list[Replica]:
        """Replicas whose process runs, or stands still."""
        return [replica for replica in self.replicas.values() if not replica.process.dead]

    def replica_of(self, end: End) -> Replica:
        """Whose end of a connection it is."""
        return self._by_process[end.process]

    def is_replica(self, process: Process) -> bool:
        """Whether it is one, in whichever life."""
        return process in self._by_process

    def are_replicas(self, end: End) -> bool:
        """Whether a replica is at either end of a connection."""
        return end.other is not None and end.process in self._by_process and end.other.process in self._by_process

    def topic_of_worker(self, process: Process) -> Topic | None:
        """What a worker consumes; None for any other process."""
        return self._topic_of_worker.get(process)

    @property
    def owned_topics(self) -> list[Topic]:
        """Those whose subscriptions have owners: all but one that is cut into streams."""
        return [topic for topic in self.topics.values() if not topic.streamed]

    def new_process(self, name: str) -> Process:
        """One more."""
        self._processes += 1
        return Process(self.schedule, self._processes, name)

    def start_broker(self, own_topics: dict[str, OwnTopic]) -> DeploymentBroker:
        """Another process of the broker; what is stored is there."""
        process = self.new_process("broker")
        clusters = {topic.name: topic.cluster for topic in self.topics.values()}
        self.broker = DeploymentBroker(process, BROKER, clusters, own_topics)
        self.network.listeners[BROKER] = Listener(process, self.broker.accept)
        return self.broker

    def start_replica(self, name: str) -> Replica:
        """One life of it."""
        process = self.new_process(name)
        replica = Replica(process, self.network, BROKER, self.swarm, self.swarm.dice(f"replica/{process.number}"))
        self.replicas[name] = self._by_process[process] = replica
        if self.swarm.transactions:
            let_ask(self, replica)
        replica.take_order = lambda number: self.operators.anywhere.answer(replica, number)
        process.after_turn = lambda: self._look(replica)
        return replica

    def _look(self, replica: Replica) -> None:
        """At the end of a replica's turn; sometimes also whether nothing waits at it that could go."""
        for topic in self.topics.values():
            topic.standing.look(replica)
        if self._look_dice.random() >= LOOKED_AT or any(each.stopping for each in self.live):
            return
        for topic in self.topics.values():
            may_deliver = replica.may_deliver(topic.key, begin=True) and replica.consumes(topic.key)
            owned = topic.model.owned_by(replica) and may_deliver
            if topic.standing.known and (owned or topic.streamed):
                topic.wake_ups.look(replica.looked_at(topic.key))

    def start_worker(self, topic: Topic, dice: random.Random) -> None:
        """One worker more, which may come to any replica."""
        name = f"worker-{dice.randrange(10)}"
        subscribe = key_shared(topic.name, SUBSCRIPTION, name)
        meta = subscribe.keySharedMeta
        meta.keySharedMode = pb.AUTO_SPLIT
        if self.swarm.sticky and not topic.streamed:
            place, count = len(topic.workers) % self.swarm.workers_max, self.swarm.workers_max
            meta.keySharedMode = pb.STICKY
            meta.hashRanges.add(start=place * SLOTS // count, end=(place + 1) * SLOTS // count - 1)
        temper = dice.choice(self.swarm.tempers)
        process = self.new_process(f"{name}.{self._processes}")
        ids = self.swarm.dice(f"ids/{process.number}")
        subscribe.consumer_id, request_id = ids.choice(CONSUMER_IDS), ids.choice(REQUEST_IDS)
        # A worker that is well is not cut off for its ids: it might come back to the one replica that has a fault.
        subscribe.request_id = min(request_id, WELL_ID_MAX) if self.swarm.calm else request_id
        self._topic_of_worker[process] = topic
        worker_dice = self.swarm.dice(f"worker/{process.number}")
        addresses = [address_of(f"replica-{number}") for number in range(self.swarm.replicas_max)]
        moved = sum(worker.moved for worker in topic.live)
        if self.swarm.migrating and len(topic.live) < 2 * moved:
            addresses = [BROKER]
        parts = process, self.network, worker_dice, temper, subscribe, topic.seen, topic.model.meant, addresses
        transactions = topic.transactions
        worker = Worker(*parts) if transactions is None else TransactionalWorker(transactions.coordinator, *parts)
        topic.workers.append(worker)

    # ---- the phases

    def run(self, actions: DeploymentActions, steps: Iterable[int]) -> DeploymentOutcome:
        """All three phases. Raises `Violation`, or whatever the code under test raises."""
        for step in steps:
            self.trace.append(actions.step(step))
        self.heal(actions)
        if self.swarm.anywhere:
            self.operators.anywhere.check()
        if self.swarm.migrating:
            self._all_joined()
        self.part()
        models = [topic.model for topic in self.topics.values()]
        lots = [topic.lot for topic in self.topics.values() if topic.lot is not None]
        return DeploymentOutcome(
            sum(len(topic.storage.messages) for topic in self.topics.values()),
            sum(model.deliveries for model in models),
            sum(model.duplicates for model in models),
            self.schedule.turns,
            self.schedule.digest,
            self.moves,
            self.passed_on,
            sum(topic.wake_ups.looked for topic in self.topics.values()),
            self.longest_wait_s,
            sum(topic.standing.outlived for topic in self.topics.values()),
            sum(lot.parked_total for lot in lots),
            sum(lot.redriven_total for lot in lots),
            sum(len(lot.dropped) for lot in lots),
            self.operators.anywhere.passed_on,
            sum(topic.deletion.done for topic in self.topics.values()),
            self.not_moved,
            sum(transactions.claims.total for transactions in self._transactions()),
            sum(transactions.found_open for transactions in self._transactions()),
            sum(model.stream_moves for model in models if isinstance(model, StreamsModel)),
        )

    def _transactions(self) -> list[OpenTransactions]:
        return [topic.transactions for topic in self.topics.values() if topic.transactions is not None]

    def heal(self, actions: DeploymentActions) -> None:
        """No more faults: every message must be acknowledged, by whoever is there."""
        actions.undo_all()
        self.network.weather = Weather(0.0005, 0.0, 1 << 20, 1 << 18)
        for transactions in self._transactions():
            transactions.coordinator.close()
        dice = self.swarm.dice("heal")
        for topic in self.topics.values():
            self._heal_workers(topic, dice)
        end_s = self.schedule.now_s + HEAL_S
        while self.schedule.now_s < end_s:
            self.advance(HEAL_STEP_S)
            self.operators.take_back()
            self.operators.redrive_all()
            if not any(self._left().values()):
                break
        else:
            raise Violation(f"liveness: {self._left()} did not get through in {HEAL_S:g} s")
        self.advance(HEAL_STEP_S)

    def _heal_workers(self, topic: Topic, dice: random.Random) -> None:
        topic.cluster.manners = GOOD_MANNERS
        for worker in topic.workers:
            worker.process.run(worker.read_again)
        for worker in topic.live:
            if worker.temper is not GOOD:  # what it is stuck with it gives back when it is gone
                self.network.kill(worker.process)
        if self.swarm.sticky:  # so that their ranges leave nothing out
            for worker in topic.live:
                self.network.kill(worker.process)
            topic.workers.clear()
        while len(topic.live) < (self.swarm.workers_max if self.swarm.sticky else 2):
            self.start_worker(topic, dice)
            topic.workers[-1].temper = GOOD

    def _all_joined(self) -> None:
        """Workers of the broker's own do what there is to do; those that have moved must have a part in it, too."""
        end_s = self.schedule.now_s + JOINED_S
        outside: list[str] = []
        while self.schedule.now_s < end_s:
            outside = [worker.name for topic in self.topics.values() for worker in topic.live if not worker.joined]
            if not outside:
                return
            self.advance(HEAL_STEP_S)
        raise Violation(f"liveness: {outside} do not join")

    def _left(self) -> dict[str, list[int]]:
        return {
            name: [n for e in topic.storage.entries for p, n in enumerate(e.numbers) if e.owed >> p & 1][:20]
            + ([] if topic.lot is None else topic.lot.left[:20])
            for name, topic in self.topics.items()
        }

    def part(self) -> None:
        """Everybody leaves: nothing remains at any replica, and no consumer at the broker."""
        if self.swarm.deletes:
            delete_all(self)
        for topic in self.topics.values():
            for worker in topic.live:
                worker.process.run(worker.close)
        self.advance(PART_S)
        for replica in self.live:
            subscriptions = replica.subscriptions
            if len(subscriptions) or subscriptions._bytes_held:
                raise Violation(f"leak: {replica.name} holds {subscriptions._bytes_held} B, {len(subscriptions)} left")
        for topic in self.topics.values():
            topic.check_end()

    def advance(self, seconds: float) -> None:
        """Let the world run."""
        self.schedule.run_until(self.schedule.now_s + seconds)
