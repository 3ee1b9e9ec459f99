"""The names of the topics that the gateway makes for a subscription: of its dead letters, and of its parked keys.

Problem: the gateway makes, writes and reads them with its own authority, and clients choose what the names are made of.
Topic `orders` with subscription `a-b` and topic `orders-a` with `b` both fill in `{topic}-{subscription}-PARKED` as
`orders-a-b-PARKED`; a whole name has neither tenant nor namespace in it. A parking topic has one consumer, which is
exclusive, and is the record of what is parked: one client could keep another's subscription from its keys. Rule kept:
a parking topic's name ends with a digest of topic and subscription. So no two meet, and an operator finds it by how it
begins. Why not escape the separator: a name would be as hard to read, and each template would need a proof of its own.

A dead letter topic is only written to, and has the name that Pulsar's clients give it, without a digest: programs that
read it expect that. As with those clients, two subscriptions of a namespace may share one.
"""

from __future__ import annotations

import re
from hashlib import blake2b
from typing import Final
from urllib.parse import quote

_DIGEST_BYTES: Final = 10
"""A client that may choose names finds another name with the same digest by 2 ** 80 attempts."""
_DIGEST: Final = re.compile(rf"-[0-9a-f]{{{2 * _DIGEST_BYTES}}}\Z")
_PLACEHOLDER: Final = re.compile(r"\{(topic|subscription)\}")


def parking_topic(template: str, topic: str, subscription: str) -> str:
    """The topic for what is parked of a subscription: beside its topic, or where the template says."""
    digest = blake2b(f"{len(topic)}:{topic}{subscription}".encode(), digest_size=_DIGEST_BYTES, person=b"parked")
    return f"{_filled(template, topic, subscription)}-{digest.hexdigest()}"


def dead_letter_topic(template: str, topic: str, subscription: str) -> str:
    """The topic for its dead letters; never the name of a parking topic, in which a client could then write."""
    name = _filled(template, topic, subscription)
    return f"{name}-DLQ" if _DIGEST.search(name) else name


def _filled(template: str, topic: str, subscription: str) -> str:
    """The template with both names.

    A subscription's name may have characters that a topic's may not, and must not lead to another namespace.
    """
    namespace, _, local = topic.rpartition("/")
    names = {"topic": local, "subscription": quote(subscription, safe="")}
    made = _PLACEHOLDER.sub(lambda found: names[found[1]], template)
    return made if "://" in template else f"{namespace}/{made}"
