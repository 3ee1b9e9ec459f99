"""Which topic a SUBSCRIBE means: short names are completed as the broker completes them.

Two workers that write one topic differently must meet in one subscription. A topic that is not persistent is not served
here: it goes to the broker. Brokers differ in what else they take for the name of a persistent one (4.0.7 reads
``/orders`` as ``orders``), and a worker that was passed on would be beside the gateway's. So `is_of_another_domain`
says what is surely none.

Source: `TopicName` in Pulsar's common module.
"""

from __future__ import annotations

from typing import Final

_DOMAIN: Final = "persistent"
_DOMAIN_END: Final = "://"
PERSISTENT: Final = _DOMAIN + _DOMAIN_END
COORDINATOR_TOPIC: Final = "persistent://pulsar/system/transaction_coordinator_assign-partition-{}"
"""The topic whose broker runs a transaction coordinator (`SystemTopicNames`)."""
_PARTS_SHORT: Final = 1
_PARTS_FULL: Final = 3
_PARTS_WITH_CLUSTER: Final = 4


def persistent_topic(name: str) -> str | None:
    """Give the full name of a persistent topic, or None for any other name.

    ``x`` is ``persistent://public/default/x``; ``t/n/x`` is ``persistent://t/n/x``; a name of the old form with a
    cluster, ``persistent://t/c/n/x``, stays as it is. Brokers read the domain without regard to case.
    """
    domain, domain_end, rest = name.partition(_DOMAIN_END)
    if not domain_end:
        parts = name.split("/")
        if len(parts) == _PARTS_SHORT:
            parts = ["public", "default", *parts]
        if len(parts) != _PARTS_FULL or not all(parts):
            return None
        return PERSISTENT + "/".join(parts)
    if domain.lower() != _DOMAIN:
        return None
    parts = rest.split("/", _PARTS_WITH_CLUSTER - 1)
    return PERSISTENT + rest if len(parts) >= _PARTS_FULL and all(parts) else None


def is_of_another_domain(name: str) -> bool:
    """Whether a name says that it is no persistent topic's, so that no broker takes it for one.

    A domain of other letters than ASCII's may be equal to ``persistent`` without regard to case, as Java sees it.
    """
    domain, domain_end, _ = name.partition(_DOMAIN_END)
    return bool(domain_end) and domain.isascii() and domain.lower() != _DOMAIN
