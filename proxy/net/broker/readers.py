"""Requests for consumers that follow a topic one after the other, and leave nothing behind.

Rule: each has a subscription of its own. One that takes another's name may be confirmed and told nothing, ever, and no
word says so. On a persistent topic that was seen beside one that is just closing ("Cursor is closing", 4.2.4). On a
non-persistent one it is sure where a network was broken: a broker lets the second of an exclusive subscription wait
while it looks whether the first one's connection lives; if that dies meanwhile, it removes the subscription with its
last consumer, and then confirms the second (4.2.4 and 4.0.7, `tests/integration/test_group_mail.py`).
"""

from __future__ import annotations

from itertools import count

from proxy.wire import pulsar_pb2 as pb


class Readers:
    """Numbers the consumers of one topic."""

    def __init__(self, topic: str, name: str) -> None:
        """`name` begins their subscriptions' names, and is unique to the process."""
        self.topic = topic
        self._name = name
        self._numbers = count(1)

    def request(self) -> pb.CommandSubscribe:
        """Return the SUBSCRIBE of the next one, without its ids."""
        return pb.CommandSubscribe(
            topic=self.topic,
            subscription=f"{self._name}-{next(self._numbers)}",
            subType=pb.CommandSubscribe.Exclusive,
            durable=False,
        )
