"""Asks a broker for the topics that gateways made in the groups' namespace."""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.net.mail.group_mail import topic_of_all
from proxy.wire import commands
from proxy.wire import pulsar_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.net.ports import BrokerDirectory, BrokerLink


def list_topics(
    brokers: BrokerDirectory,
    namespace: str,
    prefix: str,
    answered: Callable[[list[str] | Exception], None],
    *,
    stored: bool = True,
) -> None:
    """Call `answered` later, with the names of topics that begin so after the namespace; or with why there are none.

    `stored` topics are persistent, others not. A partition's name is a topic's.
    """
    begin = f"{'persistent' if stored else 'non-persistent'}://{namespace}/{prefix}"

    def located(link: BrokerLink | Exception) -> None:
        if isinstance(link, Exception):
            answered(link)
            return
        link.request(lambda request_id: commands.list_topics(namespace, prefix, request_id, stored=stored), listed)

    def listed(reply: pb.BaseCommand | Exception) -> None:
        if isinstance(reply, Exception):
            answered(reply)
            return
        found = reply.getTopicsOfNamespaceResponse.topics  # a broker may leave the choice to who asks
        answered([topic for topic in found if topic.startswith(begin)])

    brokers.locate(topic_of_all(namespace), located)
