"""The end of subscriptions in a deployment: the last worker of each deletes it (see `tests.sim.deletion`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.sim.seats import Violation

if TYPE_CHECKING:
    from tests.sim.deployment.world import Deployment, Topic

LEAVE_S = 20.0
"""By then all workers but one have left."""
ANSWER_S = 5.0
TRIES = 10


def delete_all(world: Deployment) -> None:
    """The last worker of each topic deletes its subscription, and leaves: it is gone at the broker. None of streams."""
    for topic in world.owned_topics:
        for worker in topic.live[1:]:
            worker.process.run(worker.close)
    world.advance(LEAVE_S)
    for topic in world.owned_topics:
        _delete(world, topic)


def _delete(world: Deployment, topic: Topic) -> None:
    worker = topic.live[0]
    for _ in range(TRIES):
        worker.process.run(lambda: worker.unsubscribe(force=False, leave=True))
        world.advance(ANSWER_S)
        if worker.deleted:
            break
    if not (worker.deleted and topic.cluster.deleted):
        raise Violation(f"unsubscribe: of {topic.name} it was {'undone' if worker.deleted else 'never done'}")
