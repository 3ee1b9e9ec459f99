"""What is tried, by name, in the order of the table. Each client's probe program knows how to try each of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Feature:
    """One row of the table."""

    name: str
    """Of the probe programs, and the beginning of its topics' names; without a hyphen, which ends it there."""
    title: str


FEATURES: Final = (
    Feature("key_shared", "Key_Shared, two workers"),
    Feature("mixed_batches", "batches of several keys"),
    Feature("key_batches", "batches by key"),
    Feature("lz4", "LZ4"),
    Feature("zlib", "ZLIB"),
    Feature("zstd", "ZSTD"),
    Feature("snappy", "Snappy"),
    Feature("chunks", "chunked messages"),
    Feature("partitioned", "partitioned topic"),
    Feature("topics", "one consumer of several topics"),
    Feature("pattern", "one consumer of a topic pattern"),
    Feature("sticky", "STICKY hash ranges"),
    Feature("out_of_order", "allow out-of-order delivery"),
    Feature("negative_ack", "negative acknowledgement"),
    Feature("ack_timeout", "acknowledgement timeout"),
    Feature("dead_letter", "dead letter topic"),
    Feature("retry_letter", "retry letter topic (reconsume later)"),
    Feature("delayed", "delayed delivery"),
    Feature("seek_id", "seek by message id"),
    Feature("seek_time", "seek by time"),
    Feature("unsubscribe", "unsubscribe"),
    Feature("last_message_id", "last message id"),
    Feature("schema_string", "string schema"),
    Feature("schema_json", "JSON schema"),
    Feature("schema_avro", "Avro schema"),
    Feature("encryption", "end-to-end encryption"),
    Feature("cumulative_ack", "cumulative acknowledgement"),
    Feature("transactional_ack", "acknowledgement in a transaction"),
    Feature("non_persistent", "Key_Shared, non-persistent topic"),
    Feature("shared", "Shared subscription"),
    Feature("exclusive", "Exclusive subscription"),
    Feature("failover", "Failover subscription"),
    Feature("cumulative_exclusive", "cumulative acknowledgement on Exclusive"),
    Feature("reader", "reader, has message available"),
    Feature("table_view", "table view"),
    Feature("exclusive_producer", "exclusive producer that waits"),
    Feature("transactions", "transactions on Shared"),
    Feature("token", "token authentication"),
)
PARTITIONED: Final = {"partitioned": 3}
"""Topics that no client can create, with their partitions."""
