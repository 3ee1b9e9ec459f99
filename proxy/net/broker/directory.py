"""The gateway's own lookups of brokers and connections to them, as `ports.BrokerDirectory`.

Many subscriptions look for the same topic at once when a broker restarts, and each wants a connection, not an
address: so a topic is looked up once for all who wait, then each is dealt a connection.

Retry and backoff belong to the caller, who alone knows how urgent its work is.

Rule: what the gateway itself needs answered shares no connection with what may stop one. Deliveries do: they are not
read while the gateway holds too much (`subscription.directory`). So do diversions: a broker that holds a topic to its
publish rate reads nothing from the connection of a producer that is too fast. So do elections: a leader that was fenced
and does not know it loses its connection with the next record that it writes (seen with 4.2.4 and 4.0.7). Each of the
four has connections of its own, opened with the first that is wanted: a full gateway hears its leader, finds topics,
and makes room; and one that leads no longer hears who does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Final

import structlog

from proxy.errors import KeylineError, LimitExceeded, UpstreamUnavailable
from proxy.net.alarm import Alarm
from proxy.net.broker.lookup import Lookup, connect_to_first
from proxy.net.broker.pool import BrokerPool
from proxy.net.broker.settings import BrokerSettings, BrokerTarget
from proxy.net.broker.statistics import BrokersStatistics, State
from proxy.net.countdown import after_all

if TYPE_CHECKING:
    from proxy.net.broker.connection import BrokerConnection
    from proxy.net.ports import BrokerLink, Clock, Connector

log = structlog.get_logger("keyline.brokers")

_STOPPING = "the gateway is stopping"
OWN_KEEP_ALIVE_S: Final = 4.0
"""At most, on the connections for what the gateway needs answered: leases are renewed there, and last 5 s. One on which
nothing comes any more is replaced after twice this time. Not those for deliveries: a gateway that comes back before its
broker has given its former consumer up shares the keys with it, and order is lost. Nor those for diversions: a broker
that holds a topic to its rate says nothing for long."""
CHECK_S: Final = 2.0
"""Pause between an answer of `BrokerProbe` and its next question."""

Found = Callable[["BrokerLink | Exception"], None]


def _untold(_service_url: str) -> None:
    """Ignores the result."""


class _Over:
    """Implements `ports.BrokerDirectory` over one set of connections."""

    def __init__(self, pool: BrokerPool, locate: Callable[[str, BrokerPool, Found], None]) -> None:
        self.pool = pool
        self._locate = locate

    def locate(self, topic: str, found: Found) -> None:
        """As the port says."""
        self._locate(topic, self.pool, found)


class Brokers:
    """Implements `ports.Brokers`."""

    def __init__(
        self, connector: Connector, clock: Clock, settings: BrokerSettings, named: Callable[[str], None] = _untold
    ) -> None:
        """Open nothing yet. `named` hears the service URL of every broker that a lookup led to."""
        self._clock = clock
        self._settings = settings
        keep_alive_s = min(settings.keep_alive_s, OWN_KEEP_ALIVE_S)
        own = replace(settings, connections_per_broker=1, keep_alive_s=keep_alive_s)
        self._pool = BrokerPool(connector, clock, own)
        self.deliveries = _Over(BrokerPool(connector, clock, settings), self._locate)
        self.diversions = _Over(BrokerPool(connector, clock, settings), self._locate)
        self.elections = _Over(BrokerPool(connector, clock, own), self._locate)
        self._pools = (self._pool, self.deliveries.pool, self.diversions.pool, self.elections.pool)
        self._service_urls = settings.service_urls
        self._waiting: dict[str, list[tuple[BrokerPool, Found]]] = {}
        self._named = named
        self._lookups = self._lookup_failures = 0
        self._closed = False

    def locate(self, topic: str, found: Found) -> None:
        """Look the topic up and hand over a connected link, in a later turn of the loop.

        `found` gets an `UpstreamError` if the broker refused the lookup, `UpstreamUnavailable` if none could be
        reached, `LimitExceeded` past `lookups_max` topics at once.
        """
        self._locate(topic, self._pool, found)

    def _locate(self, topic: str, pool: BrokerPool, found: Found) -> None:
        waiting = self._waiting.get(topic)
        if waiting is not None:
            waiting.append((pool, found))
            return
        refusal = self._refusal()
        if refusal is not None:
            error = refusal
            self._clock.call_soon(lambda: found(error))
            return
        self._waiting[topic] = [(pool, found)]
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
        states = Counter(chain.from_iterable(pool.states() for pool in self._pools))
        return BrokersStatistics(
            lookups_total=self._lookups,
            lookup_failures_total=self._lookup_failures,
            connections={state.value: states[state] for state in State},
        )

    def close(self, gone: Callable[[], None]) -> None:
        """Close every connection once its queue is sent, and refuse from now on; lookups that wait fail.

        `gone` is called when the last connection is closed, perhaps at once.
        """
        self._closed = True
        one_gone = after_all(len(self._pools), gone)
        for pool in self._pools:
            pool.close(_STOPPING, one_gone)

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
            for pool, found in waiting:
                pool.acquire(result, found)
            return
        self._lookup_failures += 1
        log.warning("lookup failed", topic=topic, error=str(result), waiting=len(waiting))
        if isinstance(result, UpstreamUnavailable):
            self._service_urls = (*self._service_urls[1:], self._service_urls[0])  # the next asks another one first
        for _, found in waiting:
            found(result)


class BrokerProbe:
    """Checks periodically whether a broker can be reached, for the readiness check; keeps the last answer.

    A check succeeds with an open connection, so it costs nothing in the normal case, and lookups use the connection.
    """

    def __init__(self, brokers: Brokers, clock: Clock) -> None:
        """Ask nothing before `start`."""
        self._brokers = brokers
        self._timer = Alarm(clock)
        self._stopped = False
        self.unreachable_because: str | None = "no broker was reached yet"
        """Why not, in words; None while the last answer was good."""

    def start(self) -> None:
        """Ask for the first time."""
        self._ask()

    def stop(self) -> None:
        """Ask no more."""
        self._stopped = True
        self._timer.cancel()

    def _ask(self) -> None:
        if not self._stopped:
            self._brokers.check(self._answered)

    def _answered(self, error: KeylineError | None) -> None:
        if self._stopped:
            return
        reason = str(error) if error is not None else None
        if reason != self.unreachable_because:
            if reason is None:
                log.info("brokers reached")
            else:
                log.warning("brokers not reached", reason=reason)
        self.unreachable_because = reason
        self._timer.set(CHECK_S, self._ask)
