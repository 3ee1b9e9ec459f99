"""What a Key_Shared subscription may be told by configuration."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from proxy.core.key_policy import KeyPolicy
from proxy.core.upstream_window import look_ahead_messages
from proxy.key_policies import DEAD_LETTER_TOPIC, PARKING_TOPIC

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class SubscriptionSettings:
    """Policy and limits of every subscription; names and defaults are the configuration's."""

    replica_name: str = "keyline"
    subscriptions_max: int = 10_000
    """Subscriptions in all, of those that are dispatched here."""
    workers_max: int = 50_000
    """Workers in all, joined or joining."""
    workers_per_subscription_max: int = 5_000
    """Workers of one subscription, as the brokers' maxConsumersPerSubscription; 0 is no bound but `workers_max`. Half
    of so many already own no slot of the ring that is worth having."""
    ordering_mode: str = "draining_hashes"
    selector: str = "consistent_hashing"
    consistent_hashing_points: int = 100
    key_shared_unblocking_interval_ms: int = 0
    key_window: int = 0
    retry_delay_ms: int = 0
    retry_multiplier: float = 1.0
    retry_delay_max_ms: int = 600_000
    dead_letter_after: int = 0
    dead_letter_topic: str = DEAD_LETTER_TOPIC
    """With ``{topic}`` and ``{subscription}`` to be filled in."""
    ack_lease_ms: int = 0
    quarantine_after: int = 0
    quarantine_ms: int = 300_000
    park_after: int = 0
    parking_topic: str = PARKING_TOPIC
    key_share_percent: float = 0.0
    key_policies: tuple[str, ...] = ()
    """Rules for some subscriptions, see `proxy.key_policies`."""
    look_ahead_messages_per_worker: int = 2_000
    look_ahead_messages_per_subscription: int = 20_000
    subscription_memory_bytes: int = 64 << 20
    gateway_memory_bytes: int = 512 << 20
    max_unacked_messages_per_worker: int = 50_000
    upstream_batch_index_ack: bool = True
    takeover_wait_s: int = 300
    """For transactions that were open when a subscription was taken over; 0 does not ask for them."""
    contract_monitor_one_in: int = 1_000
    """Of so many keys the deliveries of one are judged, see `proxy.core.contract_monitor`; 0 of none."""
    migrating_subscriptions: tuple[str, ...] = ()
    """Of those that direct workers share for now, see `proxy.subscription_patterns`."""
    keep_alive_s: float = 30.0
    """Of the gateway's own connections, too; a broker may be silent for twice as long."""
    reconnect_backoff_initial_ms: int = 100
    reconnect_backoff_max_ms: int = 30_000
    batch_peek_max_bytes: int = 64 << 20
    """Largest uncompressed batch that is opened; a larger one goes whole to its first key's owner, and is counted."""

    def changed(self, values: Mapping[str, Any]) -> SubscriptionSettings:
        """With these values; themselves if there are none, so that thousands of subscriptions share them."""
        return replace(self, **values) if values else self

    def key_policy(self) -> KeyPolicy:
        """What is asked of keys beyond their order."""
        return KeyPolicy(
            window=self.key_window,
            retry_delay_s=self.retry_delay_ms / 1_000,
            retry_multiplier=self.retry_multiplier,
            retry_delay_max_s=self.retry_delay_max_ms / 1_000,
            dead_letter_after=0 if self.park_after else self.dead_letter_after,
            park_after=self.park_after,
            share=self.key_share_percent / 100,
        )

    def look_ahead_messages(self, workers: int) -> int:
        """Messages of one subscription that may wait, by its number of workers."""
        bounds = self.look_ahead_messages_per_worker, self.look_ahead_messages_per_subscription
        return look_ahead_messages(workers, *bounds)
