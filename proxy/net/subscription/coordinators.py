"""Whether transactions have ended whose end was not told: their coordinators are asked.

A coordinator has no command for it. But it is told that these subscriptions have a part in the transaction: none. That
changes nothing, and is answered TransactionNotFound once the transaction has ended at all its topics. How it ended,
that does not tell. A coordinator refuses a stranger's word with other codes, which are no answer here.

Why no subscription is named, though the worker's own has a part: clients make ids up, and a gateway that is superuser
would add a subscription to a transaction that is not the client's.

Source: `ServerCnx.handleAddSubscriptionToTxn`, `MLTransactionMetadataStore`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from proxy.errors import UpstreamError
from proxy.wire import commands
from proxy.wire import pulsar_pb2 as pb
from proxy.wire.topic_names import COORDINATOR_TOPIC

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.core.transactions import TransactionId
    from proxy.net.ports import BrokerDirectory, BrokerLink

COORDINATORS_MAX: Final = 1_024
"""Numbers of coordinators that are looked up: brokers have 16 by default, and a client may make ids up."""


class Coordinators:
    """Asked for one subscription."""

    def __init__(self, brokers: BrokerDirectory) -> None:
        """`brokers` leads to them."""
        self._brokers = brokers

    def ask(self, transaction: TransactionId, ended: Callable[[], None]) -> None:
        """Call `ended` in a later turn if the transaction has ended; nothing otherwise, or if it cannot be told."""
        if transaction[0] >= COORDINATORS_MAX:
            return

        def answered(reply: pb.BaseCommand | Exception) -> None:
            if isinstance(reply, UpstreamError) and reply.wire_code == pb.TransactionNotFound:
                ended()

        def build(request_id: int) -> bytes:
            return commands.add_no_subscription_to_transaction(transaction, request_id)

        def found(link: BrokerLink | Exception) -> None:
            if not isinstance(link, Exception):
                link.request(build, answered)

        self._brokers.locate(COORDINATOR_TOPIC.format(transaction[0]), found)
