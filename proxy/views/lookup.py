"""Finds what an operator names, or reports the wrong part of the name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from proxy.core.sticky_key import RANGE_SLOT_COUNT, murmur31
from proxy.errors import ClientError, Misdirected, NotFound

if TYPE_CHECKING:
    from proxy.core.worker import Worker
    from proxy.net.group.groups import Groups
    from proxy.net.subscription.directory import Subscriptions
    from proxy.net.subscription.subscription import Subscription
    from proxy.views.deployment import DeploymentView

    Key = tuple[str, str]
    """Topic, with everything before its name, and subscription."""


NAMES_TOLD_MAX: Final = 20
"""Names of workers in an error's text."""
NO_WORKERS: Final = (
    "this replica has no worker of it, and answers for its own: `keyline stats` lists replicas that have"
)


class AdminLookup:
    """Subscriptions, workers, slots and groups by name."""

    def __init__(self, subscriptions: Subscriptions, groups: Groups | None, deployment: DeploymentView | None) -> None:
        """Look there; `groups` and `deployment` are None in other modes."""
        self._subscriptions = subscriptions
        self._groups = groups
        self._deployment = deployment

    def _part(self) -> DeploymentView:
        if self._deployment is None:
            raise NotFound("this gateway has no part in a deployment of owners (groups_enabled, groups_mode=owner)")
        return self._deployment

    def _no_group(self, key: Key) -> NotFound:
        shares = "groups are not enabled (groups_enabled)" if self._groups is None else "`keyline groups` lists them"
        if self._streams(key):
            shares = NO_WORKERS
        elif self._deployment is not None:
            shares = (
                "it has one owner and no streams (owner mode): `keyline replicas` shows all replicas. To replay its "
                "messages, let a worker seek, or use `pulsar-admin topics reset-cursor` at the broker"
            )
        topic, subscription = key
        return NotFound(f"this replica has no group of subscription {subscription!r} on topic {topic}; {shares}")

    def _find(self, key: Key) -> Subscription:
        found = self._subscriptions.find(key)
        if found is not None:
            return found
        self._check_owner(key)
        topic, name = key
        if self._streams(key):
            raise NotFound(f"subscription {name} on topic {topic} is shared by streams; {NO_WORKERS}")
        others = sorted(subscription for of, subscription in self._subscriptions.all_keys() if of == topic)
        if others:
            raise NotFound(f"topic {topic} has no Key_Shared subscription {name} here; it has: {', '.join(others)}")
        raise NotFound(
            f"no worker of this gateway consumes topic {topic}; `keyline stats` lists the topics that are consumed"
        )

    def _streams(self, key: Key) -> bool:
        """Whether replicas that own subscriptions share this one by streams."""
        return self._deployment is not None and self._deployment.streams(*key)

    def _check_owner(self, key: Key) -> None:
        """Raise `Misdirected` for what another serves: an order of before it moved may be kept here still."""
        topic, name = key
        if self._deployment is None or self._subscriptions.find(key) is not None:
            return
        owner = self._deployment.owner_of(topic, name)
        if owner is not None and owner != self._deployment.replica:
            raise Misdirected(owner, topic, name)

    @staticmethod
    def _workers(subscription: Subscription, name: str) -> list[Worker]:
        workers = subscription.state.dispatcher.workers.values()
        found = [worker for worker in workers if worker.name == name]
        if not found:
            names = ", ".join(sorted(worker.name for worker in workers)[:NAMES_TOLD_MAX]) or "none"
            raise NotFound(f"subscription {subscription.state.name} has no worker {name} here; it has: {names}")
        return found

    @staticmethod
    def _slot(subscription: Subscription, message_key: bytes | None, slot: int | None) -> int:
        selector = subscription.state.dispatcher.selector
        if message_key is not None:
            return selector.slot(murmur31(message_key))
        if slot is None or not 0 <= slot < RANGE_SLOT_COUNT:
            raise ClientError(f"slot {slot} is out of range: 0 to {RANGE_SLOT_COUNT - 1}")
        return slot
