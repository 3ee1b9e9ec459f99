"""Operators' orders to a deployment's subscriptions, and what stands of them: an order outlives the owner that took it.

An order is given to the owner. It is kept as soon as that owner has read it in the deployment's record; until then it
is lost with the owner, which is as good as an operator who hears that it failed. From then on every owner has to carry
it out from its first message on, and to have it still when the world has healed. In some worlds orders are given at any
replica (`anywhere`).
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from proxy.core.key_policy import NO_POLICY, KeyPolicy
from proxy.net.subscription.order_book import LimitsWanted, Orders
from tests.sim.deployment.anywhere import Anywhere
from tests.sim.deployment.taker import Taker, pausing, resuming
from tests.sim.forbidden import Forbidden
from tests.sim.gateway import decided, slot_of
from tests.sim.seats import Violation

if TYPE_CHECKING:
    import random

    from proxy.net.subscription.subscription import Subscription
    from tests.sim.deployment.replica import Replica
    from tests.sim.deployment.taker import Give
    from tests.sim.deployment.world import Deployment, Topic

WINDOWS = (None, 0, 1, 3)
NAMES = 10
"""Of workers."""


class Standing:
    """The orders of one topic's subscription, as its operators know them."""

    def __init__(self, topic: Topic, policy: KeyPolicy) -> None:
        """None, and keys have the configuration's policy."""
        self._topic = topic
        self._policy = policy
        self.known = True
        """Whether it is certain which orders stand; not after an owner went that had not kept its last one."""
        self._taker: tuple[Replica, Subscription] | None = None
        """Who took the last order, until it is kept."""
        self._wanted = Orders()
        self.outlived = 0
        """How often another owner had to carry out what the one before was ordered."""

    def given(self, replica: Replica, subscription: Subscription) -> None:
        """The owner has taken an order; what its book has stands from now on."""
        if not self.known:  # its owner may have had others, which its book has
            self.known = True
            self._topic.model.forbidden = Forbidden()
            self._forbid(subscription, replica.subscriptions.orders.of(self._topic.key))
        self._wanted = deepcopy(replica.subscriptions.orders.of(self._topic.key))
        window = self._wanted.limits.key_window
        self._topic.model.keys = self._policy if window is None else replace(self._policy, window=window)
        self._taker = replica, subscription

    def look(self, replica: Replica) -> None:
        """At the end of a replica's turn: perhaps it has read in the record what it took."""
        if self._taker is not None and self._taker[0] is replica:
            key = self._topic.key
            still = replica.subscription(key) is self._taker[1]
            if still and key not in replica.deployment._orders._unkept:  # type: ignore[union-attr]
                self._taker = None

    def delivers(self, life: Subscription) -> None:
        """An owner does so for the first time; when a message is due again only the one before knew."""
        self._topic.model.retry_at.clear()
        if self._taker is None:
            self.outlived += self.known and self._wanted.any
        elif self._taker[1] is not life:
            self._taker = None
            self.forget()

    def forget(self) -> None:
        """Whatever stands, nothing is held against it."""
        self.known = False
        self._topic.model.forbidden = Forbidden()
        self._topic.model.keys = NO_POLICY

    def check(self, replica: Replica) -> None:
        """The owner has what was ordered, once all is quiet."""
        has = replica.subscriptions.orders.of(self._topic.key)
        if self.known and self._taker is None and has != self._wanted:
            raise Violation(f"orders: {replica.name} has {has} of {self._topic.name}, and not {self._wanted}")

    def _forbid(self, subscription: Subscription, orders: Orders) -> None:
        model = self._topic.model
        held = decided(subscription, model)
        if orders.paused:
            model.forbidden.pause(held)
        for name in orders.drained:
            model.forbidden.drain(name, held)
        for name in orders.excluded:
            model.forbidden.exclude(name)


class Operators:
    """Give orders, at whichever replica owns what they are about, or at any."""

    def __init__(self, world: Deployment) -> None:
        self._world = world
        self.anywhere = Anywhere(world, self.owner_of)

    def owner_of(self, topic: Topic) -> tuple[Replica, Subscription] | None:
        """Who may deliver it, and has workers of it; one that is cut into streams has no owner."""
        for replica in self._world.live:
            subscription = None if topic.streamed else replica.subscription(topic.key)
            if subscription is not None and not subscription.state.ended and replica.may_deliver(topic.key):
                return replica, subscription
        return None

    def order(self, topic: Topic, give: Give) -> None:
        """Give one, if there is an owner; one that stands still takes it when it goes on, if it is the owner still."""
        if self._world.swarm.anywhere and not topic.streamed:
            self.anywhere.order(topic, give)
            return
        found = self.owner_of(topic)
        if found is None:
            return
        replica, subscription = found

        def turn() -> None:
            if self.owner_of(topic) == (replica, subscription):
                give(Taker(topic, subscription, subscription.orders))
                topic.standing.given(replica, subscription)

        replica.process.call_soon(turn)

    def _name(self, topic: Topic, dice: random.Random) -> str:
        """Of a worker, there or not; replicas that are asked take orders about those only that are there."""
        number, there = dice.randrange(NAMES), sorted({worker.name for worker in topic.live})
        return there[number % len(there)] if there and self._world.swarm.anywhere else f"worker-{number}"

    # ---- actions

    def pause(self, topic: Topic, dice: random.Random) -> None:
        """All of it, or none of it any more."""
        paused = dice.random() < 0.5
        self.order(topic, pausing if paused else resuming)

    def drain(self, topic: Topic, dice: random.Random) -> None:
        """A worker gets nothing new, or does again; so does who comes under its name."""
        name, drained = self._name(topic, dice), dice.random() < 0.6

        def give(taker: Taker) -> None:
            taker.orders.drain(name, drained=drained)
            if drained:
                taker.forbidden.drain(name, taker.decided())
            else:
                taker.forbidden.allow(name)

        self.order(topic, give)

    def exclude(self, topic: Topic, dice: random.Random) -> None:
        """A worker owns nothing, or does again."""
        name, excluded = self._name(topic, dice), dice.random() < 0.6

        def give(taker: Taker) -> None:
            if excluded:
                taker.orders.exclude(name, excluded=True)
                taker.forbidden.exclude(name)
            else:
                taker.forbidden.readmit(name)
                taker.orders.exclude(name, excluded=False)

        self.order(topic, give)

    def window(self, topic: Topic, dice: random.Random) -> None:
        """Another window for keys, unless something goes by the one of before."""
        limits = LimitsWanted(key_window=dice.choice(WINDOWS))

        def give(taker: Taker) -> None:
            if not taker.busy:
                taker.orders.change_limits(limits)

        self.order(topic, give)

    def move(self, topic: Topic, dice: random.Random) -> None:
        """A certain replica is to own it, or any."""
        replica = dice.choice(["", *(each.name for each in self._world.live)])
        self.order(topic, lambda taker: taker.orders.move(replica))

    def redrive(self, topic: Topic, dice: random.Random) -> None:
        """One of the parked keys is delivered."""
        self._take_out(topic, dice, redrive=True)

    def drop(self, topic: Topic, dice: random.Random) -> None:
        """One of the parked keys is deleted, with what is on its way to the others of it."""
        self._take_out(topic, dice, redrive=False)

    def redrive_all(self) -> None:
        """All that is parked is delivered; again and again, since a redrive ends with its owner."""
        for topic in self._world.topics.values():
            self._take_out(topic, None, redrive=True)

    def _take_out(self, topic: Topic, dice: random.Random | None, *, redrive: bool) -> None:
        """Of one key, if there are dice, or of all; where nothing is ordered of it yet."""
        found = self.owner_of(topic)
        if found is None or topic.lot is None:
            return
        replica, subscription = found

        def turn() -> None:
            lot = subscription.lot
            if lot is None or self.owner_of(topic) != found:
                return
            slots = [slot for slot in sorted(lot.parked_slots) if lot.state_of(slot) == "parked"]
            for slot in slots if dice is None else [dice.choice(slots)] if slots else []:
                self._tell_lot(topic, subscription, slot, redrive=redrive)
                subscription.orders.take_out(lot, slot, redrive=redrive)

        replica.process.call_soon(turn)

    @staticmethod
    def _tell_lot(topic: Topic, subscription: Subscription, slot: int, *, redrive: bool) -> None:
        assert topic.lot is not None
        messages = topic.storage.messages
        numbers = [n for n, message in enumerate(messages) if slot_of(subscription, message.key) == slot]
        (topic.lot.let_redrive if redrive else topic.lot.let_drop)(numbers)

    def take_back(self) -> None:
        """All orders; for some, again and again, since an owner may go that has not kept that yet."""
        for topic in self._world.topics.values():
            found = self.owner_of(topic)
            if found is None:
                continue
            replica, subscription = found
            topic.standing.check(replica)
            topic.standing.forget()
            if replica.subscriptions.orders.of(topic.key).any:
                replica.process.run(partial(subscription.orders.take_over, Orders()))
