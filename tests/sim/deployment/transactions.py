"""Transactions of a deployment's workers: a coordinator for each topic, and who tells owners what is open.

A worker's transaction goes on beside its owner's end. The next owner asks the brokers' admin API when it takes the
subscription over, and delivers nothing until what is open has ended. So order holds over owners, unless the API fails
for long, which the owner counts (`takeovers_at_risk`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.net.subscription.takeover_asks import TakeoverAsks
from tests.sim.admin_api import AdminApi
from tests.sim.claims import Claims
from tests.sim.transactions import Coordinator

if TYPE_CHECKING:
    from tests.sim.deployment.replica import Replica
    from tests.sim.deployment.world import Deployment, Topic
    from tests.sim.machine import Process
    from tests.sim.storage import Entry


class OpenTransactions:
    """Those of one topic."""

    def __init__(self, world: Deployment, topic: Topic, number: int, process: Process) -> None:
        """None yet; `process` is the coordinator's, whose number this is."""
        self._world = world
        self._topic = topic
        self.coordinator = Coordinator(process, topic.storage, world.swarm.dice(f"coordinator/{number}"), number)
        in_parts = world.swarm.settings.upstream_batch_index_ack
        self.claims = Claims(self.coordinator, topic.storage, lambda: world.schedule.now_s, in_parts=in_parts)
        self.claims.asks = lambda: topic.model.knows_transactions
        self.claims.is_parked = topic.model.is_redriven
        self.coordinator.on_committed = topic.model.committed
        self.coordinator.on_given_back = self._given_back
        topic.cluster.coordinator = self.coordinator
        topic.model.claims = self.claims
        self.found_open = 0
        """How often an owner was told that some are."""

    def _given_back(self, entry: Entry, bits: int) -> None:
        self.claims.given_back(entry, bits)
        self._topic.cluster.give_back(entry)
        broker = self._world.broker
        broker.process.call_soon(broker.dispatch_soon)

    def count(self) -> int | None:
        """How many have a part in the subscription, if the broker answers."""
        broker = self._world.broker.process
        if broker.dead or broker.stopped:
            return None
        count = self.coordinator.with_pending
        self.found_open += count > 0
        return count


def let_ask(world: Deployment, replica: Replica) -> None:
    """The replica has access to the admin API."""

    def count(key: tuple[str, str]) -> int | None:
        transactions = world.topics[key[0]].transactions
        assert transactions is not None
        return transactions.count()

    dice = world.swarm.dice(f"admin/{replica.process.number}")
    api = AdminApi(world.hand, replica.process, dice, count)
    replica.subscriptions.services.takeovers = TakeoverAsks(api, replica.process)
