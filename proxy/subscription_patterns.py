"""Which subscriptions a setting is for, as operators write it: ``orders* billing``, a topic and a subscription.

Both may have wildcards (``*``, ``?``, ``[...]``). Topics are completed as clients' are; a partition is meant by its
topic, and by its own name.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

from proxy.wire.topic_names import persistent_topic

EXPECTED: Final = "topic and subscription, as in: orders* billing"
_PARTITION: Final = re.compile(r"-partition-\d+\Z", re.ASCII)


@dataclass(frozen=True, slots=True)
class SubscriptionPattern:
    """Of subscriptions."""

    topic: str
    subscription: str

    def matches(self, topic: str, subscription: str) -> bool:
        """Whether it is for this subscription; a partition's topic is matched with and without its number."""
        if not fnmatchcase(subscription, self.subscription):
            return False
        return fnmatchcase(topic, self.topic) or fnmatchcase(_PARTITION.sub("", topic), self.topic)


def subscription_pattern(topic: str, subscription: str) -> SubscriptionPattern:
    """Complete the topic's name. Raises `ValueError` for what is none of a persistent topic."""
    full_topic = topic if topic == "*" else persistent_topic(topic)
    if full_topic is None:
        raise ValueError(f"{topic} is not the name of a persistent topic")
    return SubscriptionPattern(full_topic, subscription)


def read_pattern(text: str) -> SubscriptionPattern:
    """Read both. Raises `ValueError`, which says what is wrong."""
    parts = text.split()
    if len(parts) != 2:  # noqa: PLR2004 - a topic and a subscription
        raise ValueError(f"must be {EXPECTED}")
    return subscription_pattern(*parts)
