"""Which topic a SUBSCRIBE means: short names are completed as the broker completes them.

Two workers that write one topic differently must meet in one subscription. What is no topic name, or not persistent,
is not served here: it goes to the broker, which refuses it in its own words.

Source: `TopicName` in Pulsar's common module.
"""

from __future__ import annotations

from typing import Final

PERSISTENT: Final = "persistent://"
COORDINATOR_TOPIC: Final = "persistent://pulsar/system/transaction_coordinator_assign-partition-{}"
"""The topic whose broker runs a transaction coordinator (`SystemTopicNames`)."""
_PARTS_SHORT: Final = 1
_PARTS_FULL: Final = 3
_PARTS_WITH_CLUSTER: Final = 4


def persistent_topic(name: str) -> str | None:
    """Give the full name of a persistent topic, or None for any other name.

    ``x`` is ``persistent://public/default/x``; ``t/n/x`` is ``persistent://t/n/x``; a name of the old form with a
    cluster, ``persistent://t/c/n/x``, stays as it is.
    """
    if "://" not in name:
        parts = name.split("/")
        if len(parts) == _PARTS_SHORT:
            parts = ["public", "default", *parts]
        if len(parts) != _PARTS_FULL or not all(parts):
            return None
        return PERSISTENT + "/".join(parts)
    if not name.startswith(PERSISTENT):
        return None
    parts = name.removeprefix(PERSISTENT).split("/", _PARTS_WITH_CLUSTER - 1)
    return name if len(parts) >= _PARTS_FULL and all(parts) else None
