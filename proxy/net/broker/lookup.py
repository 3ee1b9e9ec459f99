"""Finding the broker that serves a topic.

A lookup asks any broker, or a Pulsar proxy, at the configured service URL. The answer is a redirect to a broker that
may know better, or the broker itself, perhaps with the order to reach it only through the service URL.
A redirect loop is possible while ownership moves, so hops are counted.

Specification: Pulsar binary protocol, "Topic lookup"; the Java client's `BinaryProtoLookupService`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from proxy.errors import KeylineError, UpstreamUnavailable
from proxy.net.broker.settings import BrokerTarget
from proxy.wire import frames
from proxy.wire import pulsar_pb2 as pb

if TYPE_CHECKING:
    from proxy.net.broker.connection import BrokerConnection

REDIRECTS_MAX = 10

GotConnection = Callable[["BrokerConnection | KeylineError"], None]
Acquire = Callable[[BrokerTarget, GotConnection], None]
"""Hands over a connected `BrokerConnection` to a target, or why there is none."""

Located = Callable[["BrokerTarget | Exception"], None]


def connect_to_first(service_urls: tuple[str, ...], acquire: Acquire, got: GotConnection) -> None:
    """Connect to the first of several equal entry points that can be reached."""

    def attempt(index: int, failures: list[str]) -> None:
        def settled(result: BrokerConnection | KeylineError) -> None:
            if not isinstance(result, UpstreamUnavailable):
                got(result)  # a connection, or a refusal that another entry point would repeat
                return
            reasons = [*failures, str(result)]
            if index + 1 < len(service_urls):
                attempt(index + 1, reasons)
            else:
                got(UpstreamUnavailable("; ".join(reasons)))

        acquire(BrokerTarget(service_urls[index]), settled)

    attempt(0, [])


class Lookup:
    """One topic being looked up; `located` is called once, never from inside `start`'s first turn of the loop."""

    def __init__(
        self,
        topic: str,
        service_urls: tuple[str, ...],
        acquire: Acquire,
        located: Located,
        listener_name: str | None = None,
    ) -> None:
        """Nothing happens before `start`. See `BrokerSettings.listener_name`."""
        self.topic = topic
        self._listener_name = listener_name
        self._service_urls = service_urls
        self._acquire = acquire
        self._located = located
        self._redirects = 0
        self._authoritative = False
        self._asked = BrokerTarget(service_urls[0])

    def start(self) -> None:
        """Ask the first service URL that can be reached."""
        connect_to_first(self._service_urls, self._acquire, self._ask)

    def _ask(self, connection: BrokerConnection | KeylineError) -> None:
        if isinstance(connection, KeylineError):
            self._located(connection)
            return
        self._asked = connection.target
        connection.request(self._frame, self._answered)

    def _frame(self, request_id: int) -> bytes:
        lookup = pb.CommandLookupTopic(
            topic=self.topic,
            request_id=request_id,
            authoritative=self._authoritative,
            advertised_listener_name=self._listener_name,
        )
        return frames.encode_command(pb.BaseCommand(type=pb.BaseCommand.LOOKUP, lookupTopic=lookup))

    def _answered(self, reply: pb.BaseCommand | Exception) -> None:
        if isinstance(reply, Exception):
            self._located(reply)
            return
        answer = reply.lookupTopicResponse
        secure = self._asked.service_url.startswith("pulsar+ssl://")
        url = answer.brokerServiceUrlTls if secure else answer.brokerServiceUrl
        if not url:
            kind = "TLS" if secure else "plain"
            self._located(UpstreamUnavailable(f"the broker of {self.topic} has no {kind} address"))
        elif answer.response == pb.CommandLookupTopicResponse.Redirect:
            self._follow(url, authoritative=answer.authoritative)
        elif answer.proxy_through_service_url:
            self._located(BrokerTarget(self._asked.service_url, urlsplit(url).netloc))
        else:
            self._located(BrokerTarget(url))

    def _follow(self, url: str, *, authoritative: bool) -> None:
        self._redirects += 1
        if self._redirects > REDIRECTS_MAX:
            message = f"the lookup of {self.topic} was redirected more than {REDIRECTS_MAX} times, last to {url}"
            self._located(UpstreamUnavailable(message))
            return
        self._authoritative = authoritative
        self._acquire(BrokerTarget(url), self._ask)
