"""Merges the statistics of all partitions of a topic.

The broker adds partitions up, and so does the gateway, after each of them was merged: changed values are summed again
over all partitions. The broker matches consumers of different partitions by their index in the list; the gateway
matches them by name, so that a worker that consumes every partition is one consumer with the sum of its parts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from admin_api.pulsar.consumers import MODEL
from admin_api.pulsar.merge import SUMS_OF_CONSUMERS, SUMS_OF_SUBSCRIPTIONS, merge_topic

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Mapping, Sequence

    from admin_api.pulsar.consumers import JsonObject
    from admin_api.pulsar.moments import Epoch
    from admin_api.pulsar.rates import Rates

_ADDED: Final = (*SUMS_OF_CONSUMERS, "bytesOutCounter", "msgOutCounter", "availablePermits")
"""What is added up over a consumer's partitions."""
_NEWEST: Final = (
    "consumerName",
    "keyHashRangeArrays",
    "keyHashRanges",
    "lastSentPositionWhenJoining",
    "readPositionWhenJoining",
)
"""What is that of the last partition, as at the broker."""
_LATEST: Final = ("firstMessagesSentTimestamp", "firstConsumedFlowTimestamp")
_MODEL: Final = {
    name: value
    for name, value in MODEL.items()
    if name not in {"address", "connectedSince", "clientVersion", "metadata"}
}
"""What the broker shows of a consumer of all partitions."""
_ADDED_TO_SUBSCRIPTION: Final = (*SUMS_OF_CONSUMERS, "msgInReplay")


def merge_partitions(
    topic: JsonObject, parts: Iterable[Any], epoch: Epoch, rates: Rates
) -> Generator[None, None, None]:
    """Put the gateway's parts into each partition and into the sums over them."""
    partitions: Mapping[str, JsonObject] = topic.get("partitions") or {}
    changed: set[str] = set()
    for part in parts:
        partition = partitions.get(part.topic)
        if partition is not None:
            changed.update((yield from merge_topic(partition, [part], epoch, rates)))
    for name in sorted(changed):
        subscription = (topic.get("subscriptions") or {}).get(name)
        if isinstance(subscription, dict):
            found = [item["subscriptions"].get(name) for item in partitions.values() if item.get("subscriptions")]
            yield from _add_up(subscription, [item for item in found if item])
    if changed:
        for name in SUMS_OF_SUBSCRIPTIONS:
            topic[name] = sum(item.get(name, 0) for item in partitions.values())


def _add_up(total: JsonObject, partitions: Sequence[JsonObject]) -> Generator[None, None, None]:
    """Recompute a subscription's sums from its partitions, where the merge may have changed them."""
    for name in _ADDED_TO_SUBSCRIPTION:
        if name in total:
            total[name] = sum(item.get(name, 0) for item in partitions)
    positions = total.get("consumersAfterMarkDeletePosition")
    model = next(iter(total.get("consumers") or []), None)
    by_name: dict[str, list[JsonObject]] = {}
    for partition in partitions:
        if positions is not None:
            positions.update(partition.get("consumersAfterMarkDeletePosition") or {})
        for consumer in partition.get("consumers") or []:
            by_name.setdefault(consumer.get("consumerName", ""), []).append(consumer)
    summed = []
    for consumers in by_name.values():
        summed.append(_sum_of(consumers, model if model is not None else _MODEL))
        yield
    total["consumers"] = summed


def _sum_of(consumers: Sequence[JsonObject], model: Mapping[str, Any]) -> JsonObject:
    """One consumer's parts together: what the broker leaves empty, its address for instance, is empty here too."""
    last = consumers[-1]
    total: JsonObject = dict(model)
    for name in _ADDED:
        if name in model:
            total[name] = sum(item.get(name, 0) for item in consumers)
    for name in _NEWEST:
        if name in last:
            total[name] = last[name]
    for name in _LATEST:
        if name in model:
            total[name] = max(item.get(name, 0) for item in consumers)
    total["blockedConsumerOnUnackedMsgs"] = any(item.get("blockedConsumerOnUnackedMsgs") for item in consumers)
    total["drainingHashes"] = [hash_ for item in consumers for hash_ in item.get("drainingHashes") or []]
    return total
