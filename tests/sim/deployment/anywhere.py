"""Operators who ask any replica: it passes the order on to the one that serves the subscription, by its last record.

Which replica that is, what is refused, and the way between replicas are the gateway's own; only the words on that way
are the simulator's, since the admin API needs an event loop. An order ends done, refused, or without an answer after a
while. Whatever becomes of one, each order that is carried out counts for `orders.Standing`. When the world has healed,
an order at any replica must be done, and all replicas must know what stands.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from proxy.errors import ClientError, Conflict, NotFound
from tests.sim.deployment.replica import Hearer
from tests.sim.deployment.taker import Taker, pausing, resuming
from tests.sim.seats import Violation

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.net.subscription.order_book import LimitsWanted
    from proxy.net.subscription.subscription import Subscription
    from proxy.views.admin import Admin
    from tests.sim.deployment.replica import Replica
    from tests.sim.deployment.taker import Give
    from tests.sim.deployment.world import Deployment, Topic

ANSWER_S_MAX = 5.0
"""After so long without an answer the operator hears that the other replica does not answer (`admin_api.replicas`)."""
REACHED_S = 30.0
"""By then a healed deployment carries out an order that is given again and again."""
KNOWN_S = 10.0
"""By then each of its replicas knows of it."""
DONE = "done"


@dataclass
class Request:
    """One order."""

    topic: Topic
    give: Give
    answer: str = ""
    """What its operator heard, if anything."""
    passed_on: bool = False


class Anywhere:
    """All such orders of one world."""

    def __init__(self, world: Deployment, owner_of: Callable[[Topic], tuple[Replica, Subscription] | None]) -> None:
        """`owner_of` tells who may deliver a topic."""
        self._world = world
        self._owner_of = owner_of
        self._dice = world.swarm.dice("anywhere")
        self._requests: list[Request] = []

    @property
    def passed_on(self) -> int:
        """Orders that were done by another replica than the one that was asked."""
        return sum(request.passed_on and request.answer == DONE for request in self._requests)

    def order(self, topic: Topic, give: Give) -> None:
        """Give one at any replica that takes part."""
        fit = [replica for replica in self._world.live if not replica.stopping]
        if fit:
            self._give_at(self._dice.choice(fit), topic, give)

    def _give_at(self, replica: Replica, topic: Topic, give: Give) -> Request:
        request = Request(topic, give)
        self._requests.append(request)
        replica.process.call_soon(partial(self._ask, replica, request, len(self._requests) - 1))
        return request

    def _ask(self, replica: Replica, request: Request, number: int) -> None:
        """As `admin_api.replicas.check_served_here` does, and what follows from it."""
        other = replica.parts.others.serving(request.topic.key)
        if other in (None, replica.parts.others.here):
            request.answer = self._carry_out(replica, request)
            return

        def heard(answer: bytes) -> None:
            request.passed_on = True
            request.answer = answer.decode() or "no answer"

        give_up = replica.parts.others.ask(other, b"order %d" % number, Hearer(heard))
        replica.process.call_later(ANSWER_S_MAX, give_up)

    def answer(self, replica: Replica, number: int) -> str:
        """Another replica passed this one on."""
        return self._carry_out(replica, self._requests[number])

    def _carry_out(self, replica: Replica, request: Request) -> str:
        topic, give = request.topic, request.give
        subscription = replica.subscription(topic.key)
        try:
            give(Taker(topic, subscription, _ByAdmin(replica.admin, topic.key)))
        except (ClientError, Conflict, NotFound) as error:
            return f"refused: {error}"
        if subscription is not None and self._owner_of(topic) == (replica, subscription):
            topic.standing.given(replica, subscription)
        else:  # one that has no workers took it, or is the owner no more: another may have the last word
            topic.standing.forget()
        return DONE

    # ---- when the world has healed

    def check(self) -> None:
        """An order is done wherever it is given, and known everywhere."""
        for topic in self._world.owned_topics:
            for name in self._world.replicas:
                self._check_at(name, topic, pausing)
                self._check_known(topic, paused=True)
                self._check_at(name, topic, resuming)
            self._check_known(topic, paused=False)

    def _check_at(self, name: str, topic: Topic, give: Give) -> None:
        end_s = self._world.schedule.now_s + REACHED_S
        request = Request(topic, give)
        while self._world.schedule.now_s < end_s:
            replica = self._world.replicas[name]  # the present life: one may be about to stop, for the next to begin
            request = self._give_at(replica, topic, give)
            for _ in range(6):
                self._world.advance(1.0)
                if request.answer == DONE:
                    return
        raise Violation(f"orders: given at {name} for {topic.name}, {request.answer or 'no answer'}")

    def _check_known(self, topic: Topic, *, paused: bool) -> None:
        end_s = self._world.schedule.now_s + KNOWN_S
        wrong: list[str] = []
        while self._world.schedule.now_s < end_s:
            self._world.advance(0.5)
            known = {replica.name: replica.subscriptions.orders.of(topic.key) for replica in self._world.live}
            first = next(iter(known.values()))
            wrong = [name for name, orders in known.items() if orders != first or orders.paused != paused]
            if not wrong:
                return
        raise Violation(f"orders: {wrong} do not know what stands of {topic.name}")


class _ByAdmin:
    """What the admin API of a replica takes for one subscription. Implements `taker.Ordered`."""

    def __init__(self, admin: Admin, key: tuple[str, str]) -> None:
        self._admin = admin
        self._key = key

    def pause(self) -> None:
        """As the protocol says."""
        self._admin.pause(self._key)

    def resume(self) -> None:
        """As the protocol says."""
        self._admin.resume(self._key)

    def drain(self, name: str, *, drained: bool) -> None:
        """As the protocol says."""
        self._admin.drain(self._key, name, drained=drained)

    def exclude(self, name: str, *, excluded: bool) -> None:
        """As the protocol says."""
        self._admin.exclude(self._key, name, excluded=excluded)

    def change_limits(self, limits: LimitsWanted) -> None:
        """As the protocol says."""
        self._admin.change_limits(self._key, limits.named(), keep=False)

    def move(self, replica: str) -> None:
        """As the protocol says."""
        self._admin.move(self._key, replica or None)
