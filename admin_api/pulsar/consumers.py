"""A worker in the format of the broker's consumers.

The broker's own consumer objects are the model: a worker gets exactly the fields of the consumers beside it, so that
parsers of that version's statistics work. Values that the gateway does not know are zero.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from admin_api.pulsar.moments import Epoch
    from admin_api.pulsar.rates import Rates

    JsonObject = dict[str, Any]

RATES: Final = ("msgRateOut", "msgThroughputOut", "messageAckRate", "msgRateRedeliver")
"""In the order of `_counters`."""
LAST_SENT_POSITION: Final = "last_sent_position"
"""The ordering mode in which PIP-282's positions mean something."""

MODEL: Final[Mapping[str, Any]] = {
    "msgRateOut": 0.0,
    "msgThroughputOut": 0.0,
    "bytesOutCounter": 0,
    "msgOutCounter": 0,
    "msgRateRedeliver": 0.0,
    "messageAckRate": 0.0,
    "chunkedMessageRate": 0.0,
    "consumerName": "",
    "availablePermits": 0,
    "unackedMessages": 0,
    "avgMessagesPerEntry": 1,
    "blockedConsumerOnUnackedMsgs": False,
    "drainingHashesCount": 0,
    "drainingHashesClearedTotal": 0,
    "drainingHashesUnackedMessages": 0,
    "drainingHashes": [],
    "address": "",
    "connectedSince": "",
    "clientVersion": "",
    "lastAckedTimestamp": 0,
    "lastConsumedTimestamp": 0,
    "firstMessagesSentTimestamp": 0,
    "lastConsumedFlowTimestamp": 0,
    "firstConsumedFlowTimestamp": 0,
    "keyHashRangeArrays": [],
    "metadata": {},
    "lastAckedTime": "1970-01-01T00:00:00Z",
    "lastConsumedTime": "1970-01-01T00:00:00Z",
}
"""What Pulsar 4.2 shows of a Key_Shared consumer: the model where the broker has no consumer to show just now."""

_NOT_OURS: Final = frozenset({"appId", "readPositionWhenJoining"})
"""The role that the model's client has, and where the model joined: nothing that a worker would share."""
_SHARED: Final = frozenset({"avgMessagesPerEntry"})
"""What is the topic's rather than the consumer's."""


def shown_as(model: Mapping[str, Any], consumer: Any, part: Any, epoch: Epoch, rates: Rates) -> JsonObject:
    """A worker, `consumer` of the gateway's `part` in a subscription, in the names of `model`."""
    known = _known(consumer, part, epoch, rates)
    if "keyHashRanges" in model:  # the classic dispatcher's
        known["keyHashRanges"] = [f"[{start}, {end}]" for start, end in known["keyHashRangeArrays"]]
    shown = {
        name: known[name] if name in known else value if name in _SHARED else type(value)()
        for name, value in model.items()
        if name not in _NOT_OURS and value is not None
    }
    position = consumer.statistics.last_sent_position_when_joining
    if part.ordering_mode == LAST_SENT_POSITION and position is not None:
        # PIP-282 renamed the one to the other. Brokers of today have neither for such consumers; `pulsar-admin` knows
        # the old name only, and leaves out what it does not know.
        shown["lastSentPositionWhenJoining"] = shown["readPositionWhenJoining"] = position
    return shown


def after_mark_delete(part: Any) -> dict[str, str]:
    """PIP-282's recently joined consumers, keyed as its text says, with their last sent position."""
    return {
        f"consumerName={item.statistics.name}, consumerId={item.consumer_id}, address={_address(item)}": (
            item.statistics.last_sent_position_when_joining
        )
        for item in part.consumers
        if item.statistics.waits_for_join_position
    }


def _known(consumer: Any, part: Any, epoch: Epoch, rates: Rates) -> JsonObject:
    worker = consumer.statistics
    owner = (part.topic, part.subscription, worker.name, consumer.consumer_id, consumer.address)
    per_second = dict(zip(RATES, rates.read(owner, part.now, _counters(worker)), strict=True))
    return {
        **per_second,
        "bytesOutCounter": worker.sent_bytes,
        "msgOutCounter": worker.sent_messages,
        "consumerName": worker.name,
        "availablePermits": worker.available_permits,
        "unackedMessages": worker.unacked_messages,
        "blockedConsumerOnUnackedMsgs": worker.blocked_on_unacked_messages,
        "drainingHashesCount": worker.draining_hashes_count,
        "drainingHashesClearedTotal": worker.draining_hashes_cleared_total,
        "drainingHashesUnackedMessages": worker.draining_hashes_unacked_messages,
        "drainingHashes": [
            {"hash": item.hash, "unackMsgs": item.unack_msgs, "blockedAttempts": item.blocked_attempts}
            for item in worker.draining_hashes
        ],
        "address": _address(consumer),
        "connectedSince": epoch.text(worker.joined_at),
        "clientVersion": consumer.client_version,
        "lastAckedTimestamp": epoch.ms(worker.last_acked_at),
        "lastConsumedTimestamp": epoch.ms(worker.last_sent_at),
        "firstMessagesSentTimestamp": epoch.ms(consumer.first_sent_at),
        "lastConsumedFlowTimestamp": epoch.ms(worker.last_flow_at),
        # Clients grant their first permits as soon as they have joined.
        "firstConsumedFlowTimestamp": epoch.ms(worker.joined_at) if worker.last_flow_at else 0,
        "keyHashRangeArrays": worker.key_hash_ranges,
        "metadata": dict(consumer.metadata),
        "lastAckedTime": epoch.text(worker.last_acked_at),
        "lastConsumedTime": epoch.text(worker.last_sent_at),
    }


def _counters(worker: Any) -> tuple[int, ...]:
    return worker.sent_messages, worker.sent_bytes, worker.acked_messages, worker.redelivered_messages


def _address(consumer: Any) -> str:
    """As Java writes a socket's other end."""
    return f"/{consumer.address}"
