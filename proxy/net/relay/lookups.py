"""Rewrites the answers to a client's lookups, so that the client stays at the gateway.

A client connects directly to the broker of a lookup's answer. `proxy_through_service_url` makes it reconnect to its
service URL instead, and name the broker in CONNECT. Redirects are followed here (see `redirects`).

A standalone broker names localhost and sends clients through the service URL: then the answering broker is meant, which
may be on another host (`TopicLookupBase.shouldRedirectThroughServiceUrl`).

Specification: Pulsar binary protocol, "Topic lookup"; `LookupProxyHandler` in Pulsar's proxy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from proxy.net.relay.requests import OWN_REQUESTS
from proxy.service_url import parse_service_url
from proxy.wire import frames
from proxy.wire import pulsar_pb2 as pb

if TYPE_CHECKING:
    from proxy.limits import Limits
    from proxy.net.broker.names import BrokerNames
    from proxy.net.relay.redirects import RedirectedLookups
    from proxy.net.relay.requests import RelayedRequests
    from proxy.net.relay.statistics import SessionCounters
    from proxy.service_url import ServiceUrl

_T = pb.BaseCommand
_Answer = pb.CommandLookupTopicResponse

LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})


class RelayedLookups:
    """Every LOOKUP_RESPONSE on its way to one client, from the relay's own leg or from a redirect's."""

    def __init__(
        self,
        requests: RelayedRequests,
        redirects: RedirectedLookups,
        limits: Limits,
        counters: SessionCounters,
        names: BrokerNames,
        deliver: Callable[[bytes], None],
        own_answered: Callable[[], None],
        *,
        behind_proxy: bool,
    ) -> None:
        """`deliver` gets the frames for the client; `own_answered` hears that a lookup of the gateway's own is over.

        Every broker that is answered with is added to `names`: only brokers are asked that are known there. Their names
        are a proxy's to understand, if there is one.
        """
        self._requests = requests
        self._redirects = redirects
        self._redirects_max = limits.redirects_max
        self._counters = counters
        self._names = names
        self._deliver = deliver
        self._own_answered = own_answered
        self._behind_proxy = behind_proxy
        self._hops: dict[int, int] = {}

    def close(self) -> None:
        """The client has gone; the relay that made us goes with it."""
        self._redirects.close()
        self._deliver = _nowhere
        self._own_answered = _no_more

    def answered(self, command: pb.BaseCommand, broker: ServiceUrl) -> None:
        """Follow, rewrite or pass on an answer of `broker`. Drops unrequested answers."""
        answer = command.lookupTopicResponse
        if answer.response == _Answer.Redirect and self._follow(answer, tls=broker.tls):
            return
        self._hops.pop(answer.request_id, None)
        if self._requests.answered(command) is None:
            return  # refused meanwhile, when the leg was lost
        if answer.response == _Answer.Connect:
            stay_here(answer, broker, behind_proxy=self._behind_proxy)
            self._names.add(answer.brokerServiceUrl)
        if answer.request_id > OWN_REQUESTS:
            self._own_answered()
            return
        if answer.response == _Answer.Connect:
            self._counters.lookups_rewritten_total += 1
        self._deliver(frames.encode_command(command))

    def _follow(self, answer: pb.CommandLookupTopicResponse, *, tls: bool) -> bool:
        """Ask the broker a lookup was redirected to; false when `answer` has become the failure to report."""
        pending = self._requests.waiting_lookup(answer.request_id)
        if pending is None or pending.kind != _T.LOOKUP:
            return False
        hops = self._hops.get(answer.request_id, 0) + 1
        if hops > self._redirects_max:
            _fail(answer, f"the lookup was redirected more than {self._redirects_max} times")
            return False
        try:
            broker = parse_service_url(answer.brokerServiceUrlTls if tls else answer.brokerServiceUrl)
        except ValueError as error:
            _fail(answer, f"the broker redirected the lookup to a wrong address: {error}")
            return False
        self._hops[answer.request_id] = hops
        self._counters.lookup_redirects_total += 1
        lookup = pb.CommandLookupTopic()
        lookup.CopyFrom(pending.body)
        lookup.authoritative = answer.authoritative
        self._redirects.ask(broker, lookup, lambda command: self.answered(command, broker))
        return True


def _nowhere(_frame: bytes) -> None:
    """Stand in for a client that has gone."""


def _no_more() -> None:
    """Stand in for a relay that has ended."""


def stay_here(answer: pb.CommandLookupTopicResponse, broker: ServiceUrl, *, behind_proxy: bool = False) -> None:
    """Make the client of this answer of `broker`, possibly a proxy, reconnect to the gateway and name the broker.

    Both addresses are set to the one that the gateway can use, as in Pulsar's proxy: the client's use of TLS is
    independent of the gateway's, and it returns the address of its own kind.
    """
    url = answer.brokerServiceUrlTls if broker.tls else answer.brokerServiceUrl
    if answer.proxy_through_service_url and not behind_proxy and urlsplit(url).hostname in LOOPBACK:
        url = str(broker)
    answer.proxy_through_service_url = True
    if url:
        answer.brokerServiceUrl = url
        answer.brokerServiceUrlTls = url


def without_assigned_broker(command: pb.BaseCommand) -> pb.BaseCommand:
    """Take out of a close which broker has the topic now: some clients would connect to it, and all can look it up."""
    body = command.close_producer if command.type == _T.CLOSE_PRODUCER else command.close_consumer
    body.ClearField("assignedBrokerServiceUrl")
    body.ClearField("assignedBrokerServiceUrlTls")
    return command


def _fail(answer: pb.CommandLookupTopicResponse, message: str) -> None:
    """Turn an answer into a failure that makes the client try again."""
    request_id = answer.request_id
    answer.Clear()
    answer.request_id = request_id
    answer.response = _Answer.Failed
    answer.error = pb.ServiceNotReady
    answer.message = message
