"""How messages are delivered, how much of them is held, and how producers wait."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import ByteSize

from proxy.config.types import Group, KeyPolicies, OwnTopicTemplate, TopicTemplate, setting
from proxy.key_policies import DEAD_LETTER_TOPIC, KEY_POLICY, PARKING_TOPIC
from proxy.limits import MIB


def _of_keys(name: str, default: float, description: str, unit: str) -> Any:
    """Declare a setting that key policies name, too: its bounds are theirs."""
    bounds = KEY_POLICY[name]
    return setting(default, description, unit=unit, ge=bounds.least, le=bounds.most)


class Ordering(Group):
    """How Key_Shared subscriptions keep the order of a key."""

    ordering_mode: Literal["draining_hashes", "last_sent_position", "unordered"] = setting(
        "draining_hashes",
        "What a joining worker waits for: only the keys that move to it (PIP-379), the position last sent when it "
        "joined (PIP-282), or nothing. A subscriber may choose another by consumer property.",
    )
    selector: Literal["consistent_hashing", "auto_split"] = setting(
        "consistent_hashing",
        "How keys are assigned to workers; use the brokers' selector, so that both name the same owner.",
    )
    consistent_hashing_points: int = setting(
        100, "Points of each worker on the hash ring; the same number as the brokers' gives the same assignment.",
        unit="points", ge=1, le=10_000,
    )  # fmt: skip
    key_shared_unblocking_interval_ms: int = setting(
        0, "Interval at which unblocked keys, which waited for a former owner, are delivered together, like brokers' "
        "`keySharedUnblockingIntervalMs` (10 there); 0 delivers each at once.",
        unit="milliseconds", ge=0, le=60_000,
    )  # fmt: skip
    takeover_wait_s: int = setting(
        300, "How long a subscription that the gateway takes over waits at most for transactions that were open then. "
        "It is asked for them at `broker_admin_url`, if that is set; 0 does not ask.",
        unit="seconds", ge=0, le=86_400,
    )  # fmt: skip
    key_window: int = _of_keys(
        "key_window", 0, "Unacknowledged messages of a key at a worker; 0 is no bound. With 1, nothing of a key "
        "overtakes a message that is negatively acknowledged, times out or is delivered again for another reason.",
        "messages",
    )  # fmt: skip
    retry_delay_ms: int = _of_keys(
        "retry_delay_ms", 0, "How long a key waits, with all its messages, before one that a worker gave back "
        "(negative acknowledgement, acknowledgement timeout) is delivered again; 0 not at all.", "milliseconds",
    )  # fmt: skip
    retry_multiplier: float = _of_keys(
        "retry_multiplier", 1.0, "Factor of this delay for each time after the first; 1 keeps it the same.", "times"
    )
    retry_delay_max_ms: int = _of_keys("retry_delay_max_ms", 600_000, "Longest such delay.", "milliseconds")
    dead_letter_after: int = _of_keys(
        "dead_letter_after", 0, "Attempts after which a message that was not acknowledged goes to the dead letter "
        "topic, and its key goes on; 0 is no bound.",
        "attempts",
    )  # fmt: skip
    dead_letter_topic: TopicTemplate = setting(
        DEAD_LETTER_TOPIC, "The dead letter topic of a subscription, beside its topic or by its whole name; the "
        "gateway publishes to it with its own credentials.",
        takes="a topic's name, alone or behind `persistent://tenant/namespace/`, with `{topic}` and `{subscription}` "
        "to be filled in in its last part",
    )  # fmt: skip
    ack_lease_ms: int = _of_keys(
        "ack_lease_ms", 0, "How long a worker may hold a message without acknowledging it or asking for more time "
        "(GET_LAST_MESSAGE_ID). Then its consumer is closed, and its keys and messages go to other workers; 0 as long "
        "as it likes.", "milliseconds",
    )  # fmt: skip
    quarantine_after: int = _of_keys(
        "quarantine_after", 0, "Ack leases after whose loss a worker, known by its name, gets no keys for a time; no "
        "more than half of a subscription's workers at once. 0 is never.", "leases",
    )  # fmt: skip
    quarantine_ms: int = _of_keys("quarantine_ms", 300_000, "How long it gets none.", "milliseconds")
    park_after: int = _of_keys(
        "park_after", 0, "Attempts after which a key is parked: the message and every later one of the key go to the "
        "parking topic until an operator redrives or drops them; 0 is no bound. Where both are set, "
        "`dead_letter_after` has no effect.",
        "attempts",
    )  # fmt: skip
    parking_topic: OwnTopicTemplate = setting(
        PARKING_TOPIC, "How the name of a subscription's parking topic begins; a digest of topic and subscription "
        "follows, so that no two have the same. Like `dead_letter_topic`; the gateway also reads it.",
        takes="a topic's name with `{topic}` and `{subscription}`",
    )  # fmt: skip
    key_share_percent: float = _of_keys(
        "key_share_percent", 0.0, "Part of the look-ahead, and of `subscription_memory_bytes`, that waiting messages "
        "of a key keep when another worker would get none: what is beyond it is fetched again from the broker when its "
        "turn comes; 0 is no bound.", "percent",
    )  # fmt: skip
    key_policies: KeyPolicies = setting(
        (), "Other values of the numbers above, from `key_window` on, for some subscriptions. Topic and subscription "
        "may have wildcards (`*`, `?`, `[...]`); the first that matches applies. A subscriber may choose others by "
        "consumer property (`keyline.key-window`, ...), and an operator by `keyline limits`.",
        takes="texts of topic, subscription and name=number, separated by commas: `orders* billing key_window=1`",
    )  # fmt: skip
    batch_peek_max_bytes: ByteSize = setting(
        64 * MIB, "Largest batch, uncompressed, that is opened to read its keys; a larger one goes whole to the first "
        "key's worker and is counted.",
        unit="bytes", ge=1024, le=1 << 30,
    )  # fmt: skip
    upstream_batch_index_ack: bool = setting(
        default=True,
        description="Acknowledge single messages of a batch to the broker; needs "
        "acknowledgmentAtBatchIndexLevelEnabled there and is harmless without.",
    )
    contract_monitor_one_in: int = setting(
        1_000, "Of so many keys one is watched: whether its messages are in order and at one worker is checked apart "
        "from what delivers them, and told by metrics, an event and the log; 1 is every key, 0 none.",
        unit="keys", ge=0, le=65_536,
    )  # fmt: skip


class Producers(Group):
    """Producers that wait for exclusive access to a topic (WaitForExclusive)."""

    producer_return_grace_s: float = setting(
        3.0,
        "How long waiting producers wait for the owner to return after a broker has unloaded its topic or stopped, and "
        "for all owners after the gateway's start; 0 promotes the next at once, which fences the owner.",
        unit="seconds",
        ge=0,
        le=60,
    )
    waiting_producers_bytes_max: ByteSize = setting(
        256 * MIB,
        "Memory of all producers that wait, also for each other's requests, some 1.2 kB each; one more is refused with "
        "TooManyRequests.",
        unit="bytes", ge=64 * 1024, le=1 << 36,
    )  # fmt: skip


class Memory(Group):
    """Limits of subscriptions, workers, look-ahead and memory."""

    subscriptions_max: int = setting(
        10_000, "Key_Shared subscriptions in all; one more is refused with NotAllowedError.",
        unit="subscriptions", ge=1, le=1_000_000,
    )  # fmt: skip
    workers_max: int = setting(
        50_000, "Workers of all subscriptions, joined or joining; one more is refused with ConsumerBusy.",
        unit="workers", ge=1, le=10_000_000,
    )  # fmt: skip
    workers_per_subscription_max: int = setting(
        5_000, "Workers of one subscription, as the brokers' maxConsumersPerSubscription; 0: only `workers_max` "
        "applies.",
        unit="workers", ge=0, le=1_000_000,
    )  # fmt: skip

    look_ahead_messages_per_worker: int = setting(
        2_000, "Messages held for each connected worker while their keys wait.", unit="messages", ge=1, le=1_000_000
    )
    look_ahead_messages_per_subscription: int = setting(
        20_000, "Messages held for one subscription while their keys wait.", unit="messages", ge=1, le=10_000_000
    )
    max_unacked_messages_per_worker: int = setting(
        50_000, "Unacknowledged messages at which a worker gets no more; 0 is no bound.",
        unit="messages", ge=0, le=10_000_000,
    )  # fmt: skip
    subscription_memory_bytes: ByteSize = setting(
        64 * MIB, "Bytes of entries one subscription may hold before it stops reading.",
        unit="bytes", ge=1 * MIB, le=1 << 40,
    )  # fmt: skip
    gateway_memory_bytes: ByteSize = setting(
        512 * MIB, "Bytes of entries all subscriptions together may hold.", unit="bytes", ge=1 * MIB, le=1 << 40
    )
