"""The gateway's own lookups of brokers and connections to them, as `ports.BrokerDirectory`.

Many subscriptions look for the same topic at once when a broker restarts, and each wants a connection, not an
address: so a topic is looked up once for all who wait, then each is dealt a connection.

Retry and backoff belong to the caller, who alone knows how urgent its work is.

Connections on which messages come are not read while the gateway holds too much (`subscription.directory`). What makes
room goes apart from them, over connections of its own, which are opened with the first that is wanted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

import structlog

from proxy.errors import KeylineError, LimitExceeded, UpstreamUnavailable
from proxy.net.broker.lookup import Lookup, connect_to_first
from proxy.net.broker.pool import BrokerPool
from proxy.net.broker.settings import BrokerSettings, BrokerTarget
from proxy.net.broker.statistics import BrokersStatistics, State

if TYPE_CHECKING:
    from proxy.net.broker.connection import BrokerConnection
    from proxy.net.ports import BrokerLink, Clock, Connector

log = structlog.get_logger("keyline.brokers")

_STOPPING = "the gateway is stopping"

Found = Callable[["BrokerLink | Exception"], None]


def _nothing() -> None:
    """There was no connection to wait for."""


def _the_second_time(call: Callable[[], None]) -> Callable[[], None]:
    """Calls it when it was called twice itself."""
    called = False

    def once_more() -> None:
        nonlocal called
        if called:
            call()
        called = True

    return once_more


def _untold(_service_url: str) -> None:
    """Ignores the result."""


class Brokers:
    """Implements `ports.BrokersTwice`."""

    def __init__(
        self, connector: Connector, clock: Clock, settings: BrokerSettings, named: Callable[[str], None] = _untold
    ) -> None:
        """Open nothing yet. `named` hears the service URL of every broker that a lookup led to."""
        self._connector = connector
        self._clock = clock
        self._settings = settings
        self._pool = BrokerPool(connector, clock, settings)
        self._service_urls = settings.service_urls
        self._waiting: dict[str, list[Found]] = {}
        self._named = named
        self._lookups = self._lookup_failures = 0
        self._closed = False
        self._apart: Brokers | None = None

    @property
    def apart(self) -> Brokers:
        """As the port says; closed, and counted, with this one."""
        if self._apart is None:
            self._apart = Brokers(self._connector, self._clock, self._settings, self._named)
            if self._closed:
                self._apart.close(_nothing)
        return self._apart

    def locate(self, topic: str, found: Found) -> None:
        """Look the topic up and hand over a connected link, in a later turn of the loop.

        `found` gets an `UpstreamError` if the broker refused the lookup, `UpstreamUnavailable` if none could be
        reached, `LimitExceeded` past `lookups_max` topics at once.
        """
        waiting = self._waiting.get(topic)
        if waiting is not None:
            waiting.append(found)
            return
        refusal = self._refusal()
        if refusal is not None:
            error = refusal
            self._clock.call_soon(lambda: found(error))
            return
        self._waiting[topic] = [found]
        self._lookups += 1
        Lookup(
            topic,
            self._service_urls,
            self._pool.acquire,
            lambda result: self._located(topic, result),
            self._settings.listener_name,
        ).start()

    def check(self, checked: Callable[[KeylineError | None], None]) -> None:
        """Say whether a configured broker can be reached, by connecting unless a connection stands."""

        def settled(result: BrokerConnection | KeylineError) -> None:
            error = result if isinstance(result, KeylineError) else None
            self._clock.call_soon(lambda: checked(error))

        connect_to_first(self._service_urls, self._pool.acquire, settled)

    def statistics(self) -> BrokersStatistics:
        """Freeze what is worth seeing."""
        states = Counter(self._pool.states())
        own = BrokersStatistics(
            lookups_total=self._lookups,
            lookup_failures_total=self._lookup_failures,
            connections={state.value: states[state] for state in State},
        )
        return own if self._apart is None else own.plus(self._apart.statistics())

    def close(self, gone: Callable[[], None]) -> None:
        """Close every connection once its queue is sent, and refuse from now on; lookups that wait fail.

        `gone` is called when the last connection is closed, perhaps at once.
        """
        self._closed = True
        if self._apart is not None:
            gone = _the_second_time(gone)
            self._apart.close(gone)
        self._pool.close(_STOPPING, gone)

    def _refusal(self) -> KeylineError | None:
        if self._closed:
            return UpstreamUnavailable(_STOPPING)
        if len(self._waiting) >= self._settings.lookups_max:
            return LimitExceeded(f"{self._settings.lookups_max} topics are being looked up already; try again")
        return None

    def _located(self, topic: str, result: BrokerTarget | Exception) -> None:
        waiting = self._waiting.pop(topic)
        if isinstance(result, BrokerTarget):
            if not result.proxy_to_broker_url:  # otherwise it is only reachable through the proxy
                self._named(result.service_url)
            for found in waiting:
                self._pool.acquire(result, found)
            return
        self._lookup_failures += 1
        log.warning("lookup failed", topic=topic, error=str(result), waiting=len(waiting))
        if isinstance(result, UpstreamUnavailable):
            self._service_urls = (*self._service_urls[1:], self._service_urls[0])  # the next asks another one first
        for found in waiting:
            found(result)
