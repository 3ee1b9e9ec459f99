"""What can happen to a deployment in one step, by name, and how all of it is undone again."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from tests.sim.deployment.draw import BETWEEN
from tests.sim.machine import Order
from tests.sim.seats import Violation

if TYPE_CHECKING:
    import random

    from tests.sim.deployment.replica import Replica
    from tests.sim.deployment.world import Deployment, Topic

Action = Callable[["random.Random"], None]
Give = Callable[["Topic", "random.Random"], None]
LASTS_S = (0.3, 1.0, 3.0, 6.0, 12.0, 30.0)
"""How long a fault may last: below a lease, about one, above the drop time."""
CALM_FULL_S = 8.0
"""Longer than a lease, and shorter than any message may wait where one replica at a time has a fault."""
RESTART_S = 2.0
SETTLES_S = 20.0
"""Until a deployment is at rest: what fails, owns and leads again by then."""
WORK_PER_STEP = 4
WORK_EVERY_S = 0.5
BROKER = "broker"
FORCE_SHARE = 0.6
"""Of the workers who delete their subscription."""
LEAVE_SHARE = 0.3
"""Of these, who do not come again."""


class DeploymentActions:
    """Draws and carries out steps."""

    def __init__(self, world: Deployment) -> None:
        self._world = world
        self._parted: set[tuple[str, str]] = set()
        self._fault_ends_s = world.schedule.now_s
        self._victim: Replica | None = None
        operators = world.operators
        orders: dict[str, Give] = {
            "operator_pause": operators.pause,
            "operator_drain": operators.drain,
            "operator_exclude": operators.exclude,
            "operator_window": operators.window,
            "operator_move": operators.move,
            "operator_redrive": operators.redrive,
            "operator_drop": operators.drop,
        }
        faults: dict[str, tuple[float, Action]] = {
            "worker_crash": (2, self._worker_crash),
            "worker_leave": (2, self._worker_leave),
            "worker_pause": (1, self._worker_pause),
            "worker_stop_reading": (1, self._worker_stop_reading),
            "replica_stop": (1, self._replica_stop),
            "replica_add": (1, self._replica_add),
            "replica_drain": (1, self._replica_drain),
            "replica_kill": (1, self._replica_kill),
            "replica_pause": (2, self._replica_pause),
            "memory_full": (1, self._memory_full),
            "broker_cut": (2, self._broker_cut),
            "broker_unheard": (2, self._broker_unheard),
            "replicas_parted": (1, self._replicas_parted),
            "replica_alone": (1, self._replica_alone),
            "leg_forgotten": (1, self._leg_forgotten),
            "connection_cut": (2, self._connection_cut),
            "broker_pause": (0.5, self._broker_pause),
            "broker_restart": (0.5, self._broker_restart),
            "unload": (1, self._unload),
            "seek": (2, self._seek),
            "unsubscribe": (2, self._unsubscribe),
            **{name: (1, partial(self._operator, give)) for name, give in orders.items()},
        }
        weight = world.swarm.fault_weight
        chosen = [(name, weight * faults[name][0], faults[name][1]) for name in world.swarm.faults]
        always: list[tuple[str, float, Action]] = [
            ("publish", 12, self._publish),
            ("start_worker", 6, self._start_worker),
            ("wait", 6, lambda dice: world.advance(dice.expovariate(1.0) * 2.0)),
        ]
        self._names = [name for name, _, _ in always + chosen]
        self._weights = [weight for _, weight, _ in always + chosen]
        self._acts = {name: act for name, _, act in always + chosen}

    def step(self, number: int) -> str:
        """One step, drawn from dice of its own; returns what it was."""
        dice = self._world.swarm.dice(f"step/{number}")
        if self._world.swarm.calm:
            return f"{number} {self._calm_step(dice)} at {self._world.schedule.now_s:.3f}"
        (name,) = dice.choices(self._names, self._weights)
        self._acts[name](dice)
        self._world.advance(dice.expovariate(1.0) * 0.2)
        return f"{number} {name} at {self._world.schedule.now_s:.3f}"

    def undo_all(self) -> None:
        """Everything that was stopped or parted goes on, and who died is there again."""
        world = self._world
        for one, other in sorted(self._parted):
            world.network.rejoin(one, other)
        self._parted.clear()
        world.broker.process.go_on()
        self._begin_broker()
        for topic in world.topics.values():
            for worker in topic.workers:
                worker.process.go_on()
        for name, replica in list(world.replicas.items()):
            replica.process.go_on()
            if replica.process.dead:
                world.start_replica(name)
                continue
            replica.process.call_soon(lambda each=replica: each.fill(full=False))  # type: ignore[misc]
            if replica.deployment.drained:
                replica.process.call_soon(lambda each=replica: each.deployment.drain(drained=False))  # type: ignore[misc]
        world.advance(0.0)

    # ---- one fault at a time

    def _calm_step(self, dice: random.Random) -> str:
        """All topics have work and workers; when the last fault is long over, another one begins."""
        world = self._world
        name = "work"
        for topic in world.topics.values():
            while len(topic.live) < world.swarm.workers_max:
                world.start_worker(topic, dice)
        if world.schedule.now_s >= self._fault_ends_s + SETTLES_S:
            self._victim = self._replaceable(dice)
            name = dice.choice(BETWEEN if self._victim is None else world.swarm.faults)
            self._fault_ends_s = world.schedule.now_s
            self._acts[name](dice)
            name = f"{name} of {'any' if self._victim is None else self._victim.name}"
        for _ in range(WORK_PER_STEP):
            for topic in world.topics.values():
                topic.publish(world.schedule.now_s)
            world.broker.process.run(world.broker.dispatch_soon)
            world.advance(dice.uniform(0.5, 1.5) * WORK_EVERY_S)
        return name

    def _replaceable(self, dice: random.Random) -> Replica | None:
        """One without which every topic has workers still."""
        world = self._world

        def has_workers(topic: Topic, without: Replica) -> bool:
            ends = [worker._transport for worker in topic.live if worker.joined]
            at = [end.other.process for end in ends]  # type: ignore[union-attr]
            return any(world.is_replica(process) and process is not without.process for process in at)

        topics = world.topics.values()
        fit = [each for each in world.live if all(has_workers(topic, each) for topic in topics)]
        return dice.choice(fit) if fit else None

    # ---- who

    def _topic(self, dice: random.Random) -> Topic:
        return dice.choice(list(self._world.topics.values()))

    def _replica(self, dice: random.Random) -> Replica | None:
        if self._world.swarm.calm:
            return self._victim
        live = [replica for replica in self._world.live if not replica.stopping]
        return dice.choice(live) if live else None

    def _later(self, delay_s: float, call: Callable[[], None]) -> None:
        self._fault_ends_s = max(self._fault_ends_s, self._world.schedule.now_s + delay_s)
        self._world.hand.call_later(delay_s, call)

    # ---- work

    def _publish(self, dice: random.Random) -> None:
        topic = self._topic(dice)
        for _ in range(dice.choice((1, 3, 10))):
            topic.publish(self._world.schedule.now_s)
        self._world.broker.process.run(self._world.broker.dispatch_soon)

    def _start_worker(self, dice: random.Random) -> None:
        topic = self._topic(dice)
        if len(topic.live) < self._world.swarm.workers_max:
            self._world.start_worker(topic, dice)

    def _worker_crash(self, dice: random.Random) -> None:
        live = self._topic(dice).live
        if live:
            self._world.network.kill(dice.choice(live).process)

    def _worker_leave(self, dice: random.Random) -> None:
        live = self._topic(dice).live
        if live:
            worker = dice.choice(live)
            worker.process.run(worker.close)

    def _worker_pause(self, dice: random.Random) -> None:
        live = self._topic(dice).live
        if live:
            process = dice.choice(live).process
            process.stop()
            self._later(dice.choice(LASTS_S), process.go_on)

    def _worker_stop_reading(self, dice: random.Random) -> None:
        live = self._topic(dice).live
        if live:
            worker = dice.choice(live)
            worker.process.run(worker.stop_reading)

    def _seek(self, dice: random.Random) -> None:
        topic = self._topic(dice)
        joined = [worker for worker in topic.live if worker.joined and not topic.streamed]
        if joined and topic.storage.entries:
            worker, entry = dice.choice(joined), dice.choice(topic.storage.entries)
            worker.process.run(lambda: worker.seek(entry.ledger, entry.entry))

    def _unsubscribe(self, dice: random.Random) -> None:
        """Mostly alone, or by force: else it is refused."""
        topic = self._topic(dice)
        joined = [worker for worker in topic.live if worker.joined and not topic.streamed]
        if joined:
            worker, force, leave = dice.choice(joined), dice.random() < FORCE_SHARE, dice.random() < LEAVE_SHARE
            worker.process.run(lambda: worker.unsubscribe(force=force, leave=leave))

    # ---- replicas

    def _replica_stop(self, dice: random.Random) -> None:
        """SIGTERM, and another one in its place."""
        replica = self._replica(dice)
        if replica is not None:
            again_s = dice.expovariate(1.0) * RESTART_S
            replica.process.call_soon(lambda: replica.stop(lambda: self._end(replica, again_s)))

    def _end(self, replica: Replica, again_s: float) -> None:
        """Its process ends; from the world's hand, not from within its own turn."""

        def end() -> None:
            self._world.network.kill(replica.process)
            self._later(again_s, lambda: self._begin(replica))

        self._later(0.0, end)

    def _begin(self, before: Replica) -> None:
        name = before.process.name
        if self._world.replicas[name] is before:
            self._world.start_replica(name)

    def _replica_add(self, dice: random.Random) -> None:
        _ = dice
        count = len(self._world.replicas)
        if count < self._world.swarm.replicas_max:
            self._world.start_replica(f"replica-{count}")

    def _replica_drain(self, dice: random.Random) -> None:
        """An operator lets it own nothing, or its share again; not the last one."""
        replica = self._replica(dice)
        others = [each for each in self._world.live if each is not replica and not each.deployment.drained]
        if replica is not None and len(others) > 1:
            drained = not replica.deployment.drained
            replica.process.call_soon(lambda: replica.deployment.drain(drained=drained))

    def _replica_kill(self, dice: random.Random) -> None:
        replica = self._replica(dice)
        if replica is not None:
            self._world.network.kill(replica.process)
            self._later(dice.expovariate(1.0) * 2 * RESTART_S, lambda: self._begin(replica))

    def _replica_pause(self, dice: random.Random) -> None:
        replica = self._replica(dice)
        if replica is not None:
            replica.process.stop()
            order = dice.choice(list(Order))
            self._later(dice.choice(LASTS_S), lambda: replica.process.go_on(order))

    def _memory_full(self, dice: random.Random) -> None:
        """It reads no delivery, and no answer that comes over the same connection; replicas and its leader it hears."""
        owners = [each for each in self._world.live if len(each.subscriptions) and not each.stopping]
        if not owners:
            return
        replica, calm = dice.choice(owners), self._world.swarm.calm

        def over() -> None:
            lasts = not calm or replica.deployment.member.session.lease_until > replica.process.now()
            if not (lasts or replica.process.dead):
                raise Violation(f"owners: {replica.name} lost its lease because its memory was used up")
            replica.process.call_soon(lambda: replica.fill(full=False))

        replica.process.call_soon(lambda: replica.fill(full=True))
        self._later(CALM_FULL_S if calm else dice.choice(LASTS_S), over)

    def _operator(self, give: Give, dice: random.Random) -> None:
        give(self._topic(dice), dice)

    # ---- the network

    def _broker_cut(self, dice: random.Random) -> None:
        replica = self._replica(dice)
        if replica is not None:
            self._part(replica.process.name, BROKER, dice.choice(LASTS_S))

    def _broker_unheard(self, dice: random.Random) -> None:
        """Nothing arrives any more on one of a replica's connections to the broker; what it says there does."""
        replica = self._replica(dice)
        if replica is None:
            return
        between = replica.process, self._world.broker.process
        ends = [end for end in self._world.network.ends if end.other and (end.process, end.other.process) == between]
        if ends:
            dice.choice(ends).go_deaf()

    def _replicas_parted(self, dice: random.Random) -> None:
        """Both reach the broker. Workers at the one may be the only ones of what the other owns."""
        names = sorted(self._world.replicas)
        if len(names) > 1:
            one, other = dice.sample(names, 2)
            self._part(one, other, dice.choice(LASTS_S))

    def _replica_alone(self, dice: random.Random) -> None:
        """Of the broker and of all other replicas; its workers reach it."""
        replica = self._replica(dice)
        if replica is not None:
            lasts_s, name = dice.choice(LASTS_S), replica.process.name
            for other in [BROKER, *sorted(self._world.replicas)]:
                if other != name:
                    self._part(name, other, lasts_s)

    def _leg_forgotten(self, dice: random.Random) -> None:
        """One connection between two replicas carries nothing any more, and neither is told."""
        ends = [end for end in self._world.network.ends if self._world.are_replicas(end)]
        if ends:
            end = dice.choice(ends)
            for each in (end, end.other):
                if each is not None:
                    each.go_deaf()

    def _part(self, one: str, other: str, lasts_s: float) -> None:
        pair = min(one, other), max(one, other)
        self._world.network.part(*pair)
        self._parted.add(pair)
        self._later(lasts_s, lambda: self._rejoin(pair))

    def _rejoin(self, pair: tuple[str, str]) -> None:
        self._parted.discard(pair)
        self._world.network.rejoin(*pair)

    def _connection_cut(self, dice: random.Random) -> None:
        ends = list(self._world.network.ends)
        if ends:
            dice.choice(ends).cut()

    def _broker_pause(self, dice: random.Random) -> None:
        process = self._world.broker.process
        process.stop()
        self._later(dice.choice((0.3, 2.0, 8.0)), process.go_on)

    def _broker_restart(self, dice: random.Random) -> None:
        """It ends and comes back; killed, it forgets the latest acknowledgements."""
        world, broker = self._world, self._world.broker
        if broker.process.dead:
            return
        killed = dice.random() < 0.5
        for topic in world.topics.values():
            if killed:
                topic.model.forgot(topic.storage.forget(dice))
            else:
                topic.storage.store_cursor()
            if topic.lot is not None:
                topic.lot.forget(dice) if killed else topic.lot.store_cursor()
            for consumer in topic.cluster.consumers:
                consumer.returned()
            topic.cluster.consumers.clear()
        world.network.kill(broker.process)
        self._later(dice.expovariate(1.0) * RESTART_S, self._begin_broker)

    def _begin_broker(self) -> None:
        if self._world.broker.process.dead:
            self._world.start_broker(self._world.broker.own_topics)
            for topic in self._world.topics.values():
                topic.cluster.load()

    def _unload(self, dice: random.Random) -> None:
        broker = self._world.broker
        name = dice.choice([*broker.clusters, *(each.name for each in broker.own_topics.values() if each.stores)])
        broker.process.run(lambda: broker.unload(name))
