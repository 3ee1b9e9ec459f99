"""The gateway's part of a topic's statistics, put into what the broker says of it.

At the broker a subscription has one consumer of the gateway's where it would have the workers. That one is replaced by
them, and what the broker adds up over consumers is added up again. Others at the same subscription stay: consumers
that are connected directly, and those of other gateways.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from admin_api.pulsar.consumers import MODEL, after_mark_delete, shown_as

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Sequence

    from admin_api.pulsar.consumers import JsonObject
    from admin_api.pulsar.moments import Epoch
    from admin_api.pulsar.rates import Rates

SUMS_OF_CONSUMERS: Final = (
    "msgRateOut",
    "msgThroughputOut",
    "msgRateRedeliver",
    "messageAckRate",
    "unackedMessages",
    "drainingHashesCount",
    "drainingHashesClearedTotal",
    "drainingHashesUnackedMessages",
)
"""What a subscription has of its consumers; its counters stay the broker's, they outlive consumers."""
SUMS_OF_SUBSCRIPTIONS: Final = ("msgRateOut", "msgThroughputOut")
"""What a topic has of those."""
REPLICA: Final = "keyline.replica"
"""Metadata by which a gateway's consumers are told from clients' of the same name."""


def merge_topic(
    topic: JsonObject, parts: Iterable[Any], epoch: Epoch, rates: Rates
) -> Generator[None, None, Sequence[str]]:
    """Put the gateway's parts into the statistics of their topic; gives the names of subscriptions that changed."""
    subscriptions = topic.get("subscriptions") or {}
    merged = []
    for part in parts:
        subscription = subscriptions.get(part.subscription)
        if isinstance(subscription, dict):
            before = {name: subscription.get(name, 0) for name in SUMS_OF_SUBSCRIPTIONS}
            yield from merge_subscription(subscription, part, epoch, rates)
            for name in SUMS_OF_SUBSCRIPTIONS:
                if name in topic:
                    topic[name] = max(topic[name] + subscription.get(name, 0) - before[name], 0.0)
            merged.append(part.subscription)
    return merged


def merge_subscription(subscription: JsonObject, part: Any, epoch: Epoch, rates: Rates) -> Generator[None, None, None]:
    """Put the gateway's part into one subscription."""
    consumers = subscription.get("consumers") or []
    own = [item for item in consumers if is_own(item, part.replica_name)]
    model = next(iter(own or consumers), MODEL)
    workers = []
    for consumer in part.consumers:
        workers.append(shown_as(model, consumer, part, epoch, rates))
        yield
    place = consumers.index(own[0]) if own else len(consumers)
    others = [item for item in consumers if not is_own(item, part.replica_name)]
    subscription["consumers"] = [*others[:place], *workers, *others[place:]]
    for name in SUMS_OF_CONSUMERS:
        if name in subscription:
            subscription[name] = sum(item.get(name, 0) for item in subscription["consumers"])
    if "msgInReplay" in subscription:
        # What a broker keeps for consumers that cannot have it yet, the gateway keeps for its workers.
        subscription["msgInReplay"] += part.waiting_messages
    if "consumersAfterMarkDeletePosition" in subscription:
        subscription["consumersAfterMarkDeletePosition"].update(after_mark_delete(part))


def is_own(consumer: JsonObject, replica_name: str) -> bool:
    """Whether a consumer at the broker is this gateway's."""
    metadata = consumer.get("metadata") or {}
    return consumer.get("consumerName") == replica_name and metadata.get(REPLICA) == replica_name


def without_consumers(topic: JsonObject) -> None:
    """Leave out what the asker did not want to have listed."""
    for subscription in (topic.get("subscriptions") or {}).values():
        subscription["consumers"] = []
