"""Relations that must hold between two settings.

Each is a row in `RELATIONS`, so that an error names both settings.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple


def unmet(values: Mapping[str, Any]) -> Iterator[str]:
    """Every relation that does not hold between settings of which both are among the values, in words."""
    for relation in RELATIONS:
        if relation.left in values and relation.right in values and not relation.holds_in(values):
            yield relation.broken(values)


class Relation(NamedTuple):
    """`left` must stand in this relation to `right`."""

    left: str
    holds: Callable[[Any, Any], bool]
    words: str
    right: str
    why: str

    def holds_in(self, values: Mapping[str, Any]) -> bool:
        """Whether it holds between these."""
        return bool(self.holds(values[self.left], values[self.right]))

    def broken(self, values: Mapping[str, Any]) -> str:
        """Say that it does not."""
        left, right = values[self.left], values[self.right]
        return f"{self.left} ({left}) must be {self.words} {self.right} ({right}): {self.why}"


RELATIONS = (
    Relation(
        "subscription_memory_bytes", operator.le, "at most", "gateway_memory_bytes",
        "one subscription cannot hold more than all together",
    ),
    Relation(
        "max_frame_bytes", operator.le, "at most", "subscription_memory_bytes",
        "the largest entry must fit into a subscription's budget",
    ),
    Relation(
        "look_ahead_messages_per_worker", operator.le, "at most", "look_ahead_messages_per_subscription",
        "one worker cannot hold more than its subscription",
    ),
    Relation("retry_delay_ms", operator.le, "at most", "retry_delay_max_ms", "delays only grow"),
    Relation(
        "reconnect_backoff_initial_ms", operator.le, "at most", "reconnect_backoff_max_ms", "pauses only grow"
    ),
    Relation(
        "unread_low_water_bytes", operator.lt, "less than", "unread_high_water_bytes",
        "reading must stop before it can resume",
    ),
    Relation(
        "unread_high_water_bytes", operator.lt, "less than", "unread_bytes_max",
        "a peer is slowed before it is disconnected",
    ),
    Relation("max_frame_bytes", operator.lt, "less than", "unread_bytes_max", "one frame must not end its connection"),
    Relation(
        "queued_while_connecting_bytes", operator.lt, "less than", "max_frame_bytes",
        "requests are held for a short time, messages are not",
    ),
    Relation(
        "connections_per_address_max", operator.le, "at most", "connections_max",
        "one address cannot have more than all together",
    ),
    Relation(
        "group_lease_s", operator.lt, "less than", "group_drop_s",
        "a stream would go to others while its replica still delivers it",
    ),
)  # fmt: skip
