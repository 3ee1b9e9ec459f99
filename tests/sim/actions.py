"""What can happen to a world in one step, by name, and how all of it is undone again."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from proxy.core.dispatcher import OrderingMode
from proxy.errors import Conflict
from proxy.net.subscription.order_book import LimitsWanted
from tests.sim.gateway import decided, seat_of

if TYPE_CHECKING:
    import random

    from proxy.net.subscription.subscription import Subscription
    from tests.sim.connection import End
    from tests.sim.world import World

Action = Callable[["random.Random"], None]
RESTART_S = 1.0
CUT_ALONE_CHANCE = 0.5
"""That only the gateway learns of it, if its end was drawn."""
DRAIN_S = 3.0


class Actions:
    """Draws and carries out steps."""

    def __init__(self, world: World) -> None:
        self._world = world
        faults: dict[str, tuple[float, Action]] = {
            "worker_crash": (2, self._worker_crash),
            "worker_leave": (2, self._worker_leave),
            "worker_stop_reading": (2, self._worker_stop_reading),
            "worker_pause": (1, self._worker_pause),
            "cut_worker": (2, lambda dice: self._cut(dice, "worker", silent=False)),
            "silence_worker": (1, lambda dice: self._cut(dice, "worker", silent=True)),
            "cut_broker": (2, lambda dice: self._cut(dice, "broker", silent=False)),
            "silence_broker": (1, lambda dice: self._cut(dice, "broker", silent=True)),
            "broker_restart": (1, lambda dice: self._broker_ends(dice, killed=False)),
            "broker_kill": (1, lambda dice: self._broker_ends(dice, killed=True)),
            "broker_pause": (1, self._broker_pause),
            "broker_refuse": (1, self._broker_refuse),
            "unload": (1, self._unload),
            "gateway_kill": (0.7, self._gateway_kill),
            "gateway_drain": (0.7, self._gateway_drain),
            "gateway_pause": (1, self._gateway_pause),
            "operator_drain": (1, self._operator_drain),
            "operator_pause": (1, self._operator_pause),
            "operator_evict": (1, self._operator_evict),
            "operator_policy": (1, self._operator_policy),
            "operator_exclude": (1, self._operator_exclude),
            "workers_leave": (1, self._workers_leave),
            "operator_redrive": (3, lambda dice: self._take_out(dice, redrive=True)),
            "operator_drop": (0.7, lambda dice: self._take_out(dice, redrive=False)),
            "operator_drop_incomplete": (1, self._drop_incomplete),
            "parking_refuse": (1, self._parking_refuse),
            "seek": (0.5, self._seek),
            "unsubscribe": (0.7, self._unsubscribe),
            "long_silence": (0.5, lambda dice: self._world.advance(dice.uniform(20, 140))),
        }
        weight = world.swarm.fault_weight
        chosen = [(name, weight * faults[name][0], faults[name][1]) for name in world.swarm.faults]
        always: list[tuple[str, float, Action]] = [
            ("publish", 14, self._publish),
            ("start_worker", 6, self._start_worker),
            ("wait", 10, lambda dice: self._world.advance(dice.expovariate(1.0) * 0.3)),
        ]
        self._names = [name for name, _, _ in always + chosen]
        self._weights = [weight for _, weight, _ in always + chosen]
        self._acts = {name: act for name, _, act in always + chosen}

    def step(self, number: int) -> str:
        """One step, drawn from dice of its own; returns what it was."""
        dice = self._world.swarm.dice(f"step/{number}")
        (name,) = dice.choices(self._names, self._weights)
        self._acts[name](dice)
        self._world.advance(dice.expovariate(1.0) * 0.03)
        return f"{number} {name} at {self._world.schedule.now_s:.3f}"

    def undo_all(self) -> None:
        """Everything that was stopped, paused or refused goes on."""
        world = self._world
        world.network.refusing.clear()
        if world.model.lot is not None:
            world.model.lot.takes_one_in = 1
        for process in [broker.process for broker in world.brokers] + [worker.process for worker in world.workers]:
            process.go_on()
        world.gateway.process.go_on()
        world.advance(0.0)
        if world.gateway.process.dead or world.gateway.subscriptions.services.shutting_down:
            self._restart_gateway()
        world.gateway.process.run(self._operators_are_done)

    # ---- steps

    def _publish(self, dice: random.Random) -> None:
        for _ in range(dice.choice((1, 2, 5))):
            self._world.producer.publish()
        for broker in self._world.brokers:
            broker.process.run(broker.dispatch_soon)

    def _start_worker(self, dice: random.Random) -> None:
        if len(self._world.live) < self._world.swarm.workers_max:
            self._world.start_worker(dice)

    def _worker_crash(self, dice: random.Random) -> None:
        if self._world.live:
            self._world.network.kill(dice.choice(self._world.live).process)

    def _worker_leave(self, dice: random.Random) -> None:
        if self._world.live:
            worker = dice.choice(self._world.live)
            worker.process.run(worker.close)

    def _workers_leave(self, dice: random.Random) -> None:
        """Several at once, or all: closed as when their ack leases end, or because their connections are lost."""
        subscription = self._world.gateway.subscription
        if subscription is None or subscription.state.ended:
            return
        workers = [each for each in subscription.subscribers.values() if not each.ended]
        leaving = dice.sample(workers, dice.choice((min(2, len(workers)), len(workers))))
        closed = dice.random() < 0.5

        def turn() -> None:
            # A turn that was cut may have gone on first.
            workers = [each.worker for each in leaving if each.worker is not None and not each.ended]
            if closed:
                subscription.membership.close_each(workers, "several leave")
                return
            for seat in [seat_of(subscription, worker, self._world.model) for worker in workers]:
                if seat is not None:
                    seat.end.abort()

        self._world.gateway.process.run(turn)

    def _worker_stop_reading(self, dice: random.Random) -> None:
        if self._world.live:
            worker = dice.choice(self._world.live)
            worker.process.run(worker.stop_reading)

    def _worker_pause(self, dice: random.Random) -> None:
        if self._world.live:
            process = dice.choice(self._world.live).process
            if process.stopped:
                process.go_on()
            else:
                process.stop()

    def _cut(self, dice: random.Random, side: str, *, silent: bool) -> None:
        ends = [end for end in self._world.network.ends if _between(end, side)]
        if not ends:
            return
        end = dice.choice(ends)
        if not silent:
            if side == "broker" and end.process.name == "gateway" and dice.random() < CUT_ALONE_CHANCE:
                end.cut_alone()
            else:
                end.cut()
            return
        end.go_deaf()
        if dice.random() < 0.5 and end.other is not None:
            end.other.go_deaf()

    def _broker_ends(self, dice: random.Random, *, killed: bool) -> None:
        """One broker goes away and comes back; killed, it forgets what was not stored."""
        world = self._world
        broker = dice.choice(world.brokers)
        if broker.process.dead:
            return
        lot = world.model.lot
        if killed and world.cluster.owner == broker.address:
            world.model.forgot(world.storage.forget(dice))
            if lot is not None:
                lot.forget(dice)
        else:
            world.storage.store_cursor()
            if lot is not None:
                lot.store_cursor()
        for consumer in [c for c in world.cluster.consumers if c.session.broker is broker]:
            consumer.returned()
            world.cluster.consumers.remove(consumer)
        world.network.kill(broker.process)
        if world.cluster.owner == broker.address:
            for topic in world.cluster.own_topics.values():
                topic.begin()
            world.cluster.owner = dice.choice(world.cluster.addresses)
            world.cluster.load()
        world.advance(dice.expovariate(1.0) * RESTART_S)
        world.brokers[world.brokers.index(broker)] = world._start_broker(broker.address)

    def _broker_pause(self, dice: random.Random) -> None:
        process = dice.choice(self._world.brokers).process
        process.stop()
        self._world.advance(dice.choice((0.1, 2.0, 80.0)))
        process.go_on()

    def _broker_refuse(self, dice: random.Random) -> None:
        address = dice.choice(self._world.cluster.addresses)
        if address in self._world.network.refusing:
            self._world.network.refusing.remove(address)
        else:
            self._world.network.refusing.add(address)

    def _unload(self, dice: random.Random) -> None:
        _ = dice
        owner = next(b for b in self._world.brokers if b.address == self._world.cluster.owner)
        owner.process.run(self._world.cluster.move)

    def _gateway_kill(self, dice: random.Random) -> None:
        self._world.network.kill(self._world.gateway.process)
        self._world.advance(dice.expovariate(1.0) * RESTART_S)
        self._restart_gateway()

    def _gateway_drain(self, dice: random.Random) -> None:
        """SIGTERM: drained, closed, and another one in its place."""
        gateway = self._world.gateway
        gateway.process.run(lambda: gateway.subscriptions.drain(lambda: None))
        self._world.advance(dice.random() * DRAIN_S)
        gateway.process.run(gateway.subscriptions.close)
        gateway.process.run(gateway.sessions.close_all)
        self._world.advance(1.0)
        self._restart_gateway()

    def _restart_gateway(self) -> None:
        world = self._world
        if not world.gateway.process.dead:
            world.network.kill(world.gateway.process)
        world.gateway = world._start_gateway()

    def _gateway_pause(self, dice: random.Random) -> None:
        process = self._world.gateway.process
        process.stop()
        self._world.advance(dice.choice((0.05, 2.0, 100.0)))
        process.go_on()

    def _operator(self, order: Callable[[Subscription], object]) -> None:
        """An order to the subscription, if there is one."""

        def turn() -> None:
            subscription = self._world.gateway.subscription
            if subscription is not None and not subscription.state.ended:
                order(subscription)

        self._world.gateway.process.run(turn)

    def _operator_drain(self, dice: random.Random) -> None:
        """A worker gets nothing new, or does again; so does everybody who comes under its name."""
        name, drained = f"worker-{dice.randrange(self._world.swarm.names)}", dice.random() < 0.5

        def order(subscription: Subscription) -> None:
            subscription.orders.drain(name, drained=drained)
            if drained:
                self._world.model.forbidden.drain(name, decided(subscription, self._world.model))
            else:
                self._world.model.forbidden.allow(name)

        self._operator(order)

    def _operator_exclude(self, dice: random.Random) -> None:
        """A worker owns nothing, or does again; so does everybody who comes under its name."""
        name, excluded = f"worker-{dice.randrange(self._world.swarm.names)}", dice.random() < 0.5

        def order(subscription: Subscription) -> None:
            if excluded:
                subscription.orders.exclude(name, excluded=True)
                self._world.model.forbidden.exclude(name)
            else:
                self._world.model.forbidden.readmit(name)
                subscription.orders.exclude(name, excluded=False)

        self._operator(order)

    def _operator_pause(self, dice: random.Random) -> None:
        paused = dice.random() < 0.5

        def order(subscription: Subscription) -> None:
            if paused:
                subscription.orders.pause()
                self._world.model.forbidden.pause(decided(subscription, self._world.model))
            else:
                self._world.model.forbidden.resume()
                subscription.orders.resume()

        self._operator(order)

    def _operator_evict(self, dice: random.Random) -> None:
        name = f"worker-{dice.randrange(self._world.swarm.names)}"
        self._operator(lambda subscription: subscription.orders.evict(name))

    def _operator_policy(self, dice: random.Random) -> None:
        """Another ordered mode, where there is order, or other limits."""
        mode = dice.choice((OrderingMode.DRAINING_HASHES, OrderingMode.LAST_SENT_POSITION))
        later = self._world.swarm.dice(f"policy/{len(self._world.trace)}")  # what came later is drawn apart
        limits = LimitsWanted(
            look_ahead_messages_per_worker=dice.choice((None, 1, 5, 500)),
            look_ahead_messages_per_subscription=dice.choice((None, 10, 10_000)),
            subscription_memory_bytes=dice.choice((None, self._world.swarm.settings.subscription_memory_bytes // 2)),
            max_unacked_messages_per_worker=dice.choice((None, 0, 3, 1_000)),
            key_window=dice.choice((None, 0, 1, 3)),
            retry_delay_ms=later.choice((None, None, 0, 5, 400)),
            ack_lease_ms=later.choice((None, None, None, 0, 200, 3_000)),
        )
        if dice.random() < 0.5 and self._world.swarm.mode != OrderingMode.UNORDERED.value:
            self._operator(lambda subscription: subscription.orders.change_mode(mode))
        else:
            self._operator(lambda subscription: self._change_limits(subscription, limits))

    def _change_limits(self, subscription: Subscription, limits: LimitsWanted) -> None:
        """Unless something is decided on and not sent: it goes by the window of before."""
        dispatcher = subscription.state.dispatcher
        if not any(worker.outbox for worker in dispatcher.workers.values()):
            subscription.orders.change_limits(limits)
            self._world.model.policy_changed(dispatcher.policy)

    def _parking_refuse(self, dice: random.Random) -> None:
        """The parking topic takes nothing more, or not every message, or all again."""
        assert self._world.model.lot is not None
        self._world.model.lot.takes_one_in = dice.choice((0, 1, 1, 2, 5))

    def _take_out(self, dice: random.Random | None, *, redrive: bool) -> None:
        """One of the parked slots is redriven, or deleted; all of them without dice."""

        def order(subscription: Subscription) -> None:
            lot = subscription.lot
            if lot is None:
                return
            slots = [slot for slot in sorted(lot.parked_slots) if lot.state_of(slot) == "parked"]
            for slot in slots if dice is None else dice.choices(slots) if slots else []:
                self._tell_lot(slot, redrive=redrive)
                with suppress(Conflict):  # what is parked has a gap
                    subscription.orders.take_out(lot, slot, redrive=redrive)

        self._operator(order)

    def _tell_lot(self, slot: int, *, redrive: bool) -> None:
        lot = self._world.model.lot
        assert lot is not None
        assert lot.slot_of is not None
        numbers = [n for n in range(len(self._world.storage.messages)) if lot.slot_of(n) == slot]
        (lot.let_redrive if redrive else lot.let_drop)(numbers)

    def _drop_incomplete(self, dice: random.Random | None) -> None:
        """Delete chunks of messages that are parked in part: of a slot, or without dice where no client can read any.

        Where only later chunks are gone, all of the slot: the gateway cannot know that these do not come.
        """

        def order(subscription: Subscription) -> None:
            model, lot = self._world.model.lot, subscription.lot
            assert model is not None
            slots = [] if lot is None else sorted(lot.parked_slots)
            if dice is None:
                slots = sorted(set(map(self._world.slot_of, model.hopeless)).intersection(slots))
            for slot in slots if dice is None else dice.choices(slots) if slots else []:
                assert lot is not None
                model.let_drop_incomplete(number for number in model.left if self._world.slot_of(number) == slot)
                with suppress(Conflict):  # it is taken out
                    found = subscription.orders.drop_incomplete(lot, slot)
                    if dice is None and not found and lot.state_of(slot) == "parked":
                        self._tell_lot(slot, redrive=False)
                        subscription.orders.take_out(lot, slot, redrive=False)

        self._operator(order)

    def redrive_all(self) -> None:
        """All that is parked is delivered; again and again, since a redrive ends with the subscription.

        What is parked in part only is deleted: all that belongs to it is published, and was acknowledged.
        """
        if self._world.model.lot is not None:
            self._take_out(None, redrive=True)
            self._drop_incomplete(None)

    def _operators_are_done(self) -> None:
        """Whatever was ordered is taken back, also for those who are not there now."""
        subscriptions = self._world.gateway.subscriptions
        self._world.model.forbidden.clear()
        for key in list(subscriptions.orders.keys()):
            standing = subscriptions.orders.of(key)
            standing.paused = False
            standing.drained.clear()
            standing.excluded.clear()
        subscription = self._world.gateway.subscription
        if subscription is not None:
            subscription.orders.resume()
            for worker in list(subscription.state.dispatcher.workers.values()):
                subscription.orders.drain(worker.name, drained=False)
            for excluded in list(subscription.membership.excluded):
                subscription.orders.exclude(excluded.command.consumer_name, excluded=False)

    def _seek(self, dice: random.Random) -> None:
        joined = [worker for worker in self._world.live if worker.joined]
        if joined and self._world.storage.entries:
            worker, entry = dice.choice(joined), dice.choice(self._world.storage.entries)
            worker.process.run(lambda: worker.seek(entry.ledger, entry.entry))

    def _unsubscribe(self, dice: random.Random) -> None:
        """A worker deletes the subscription, or is refused because it is not alone."""
        joined = [worker for worker in self._world.live if worker.joined]
        if joined:
            worker, force, leave = dice.choice(joined), dice.random() < 0.4, dice.random() < 0.5
            worker.process.run(lambda: worker.unsubscribe(force=force, leave=leave))


def _between(end: End, side: str) -> bool:
    """Whether the end is of a connection between the gateway and this side."""
    names = {end.process.name, end.other.process.name if end.other is not None else ""}
    return "gateway" in names and ("broker" in names) == (side == "broker")
