"""Which settings a running gateway takes from a configuration that it reads again: see `proxy.app.reload`."""

from __future__ import annotations

from typing import Final

RELOADABLE: Final = frozenset({
    *("log_level", "log_lines_per_s", "drain_timeout_s"),
    *("connections_max", "connections_per_address_max"),
    *("subscriptions_max", "workers_max", "workers_per_subscription_max"),
    *("gateway_memory_bytes", "subscription_memory_bytes", "max_unacked_messages_per_worker"),
    *("look_ahead_messages_per_worker", "look_ahead_messages_per_subscription"),
    *("key_window", "retry_delay_ms", "retry_multiplier", "retry_delay_max_ms", "key_share_percent"),
    *("dead_letter_after", "ack_lease_ms", "quarantine_after", "quarantine_ms", "key_policies"),
    *("admin_viewers", "admin_operators", "admin_admins"),
    *("admin_token_secret_file", "admin_token_public_key_file", "admin_token_jwks_url"),
    *("admin_token_claim", "admin_token_audience", "admin_token_issuer"),
})  # fmt: skip
"""Settings that a running gateway takes; all others need a restart."""
