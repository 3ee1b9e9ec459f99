"""The parts that serve one client from its CONNECT on: relay, workers, producers, permission, consumers elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from proxy.net.handshake import client_version_of
from proxy.net.ports import ElsewhereClient
from proxy.net.relay.client import RelayClient
from proxy.net.relay.closing import ProducersToClose
from proxy.net.relay.relay import Relay
from proxy.net.relay.route import RelayRoute
from proxy.net.session.permission import Permission
from proxy.net.session.producers import SessionProducers
from proxy.net.session.replica_router import ReplicaRouter
from proxy.net.session.router import CommandRouter
from proxy.net.session.workers import SessionWorkers

if TYPE_CHECKING:
    from proxy.net.frames_in_slices import FramesInSlices
    from proxy.net.ports import Transport
    from proxy.net.relay.statistics import SessionCounters
    from proxy.net.session.elsewhere import Elsewhere
    from proxy.net.session.greeting import Greeting
    from proxy.net.session.services import SessionServices
    from proxy.wire import pulsar_pb2 as pb


class PartsClient(RelayClient, ElsewhereClient, Protocol):
    """The client's side, as the parts need it."""


@dataclass(slots=True)
class ClientParts:
    """What a session passes commands and news on to."""

    relay: Relay
    workers: SessionWorkers
    producers: SessionProducers
    router: CommandRouter
    permission: Permission | None
    elsewhere: Elsewhere | None

    def writability_changed(self, writable: bool) -> None:  # noqa: FBT001 - the port's one bit of news
        """Let all parts know whether the client takes more."""
        self.relay.client_writable(writable)
        if self.elsewhere is not None:
            self.elsewhere.client_writable(writable)
        self.workers.writability_changed(writable)
        self.producers.writability_changed(writable)

    def transaction_ended(self, request: pb.CommandEndTxn) -> None:
        """The coordinator has ended a transaction: subscriptions here, and the owners of its consumers, hear so."""
        self.workers.transaction_ended(request)
        if self.elsewhere is not None:
            self.elsewhere.transaction_ended(request)

    def broker_dropped(self, *, returns: bool) -> None:
        """Let elections go on without what was lost, and answer who waits for a permission; see `relay_dropped`."""
        self.producers.broker_lost()
        if self.permission is not None:
            self.permission.dropped(returns=returns)

    def auth_response(self, command: pb.CommandAuthResponse, frame: bytes) -> None:
        """Pass on fresh credentials of the client's: to an owner that asks for them too, or to the broker.

        The one that did not ask begins its next connection with them.
        """
        if self.elsewhere is not None and self.elsewhere.auth_response(command.response, frame):
            self.relay.renewed(command.response)
        else:
            self.relay.auth_response(command, frame)

    def end(self, reason: str, *, by_broker: bool) -> None:
        """The session is over; `by_broker`: because the broker was lost."""
        self.workers.lose(reason)
        if self.elsewhere is not None:
            self.elsewhere.close()
        if self.relay.holds_back:
            self.producers.unsent()
        to_close = ProducersToClose()
        self.producers.lose(reason, to_close, by_broker=by_broker)
        self.relay.close(to_close)


def make_parts(
    client: PartsClient,
    services: SessionServices,
    transport: Transport,
    greeting: Greeting,
    counters: SessionCounters,
    incoming: FramesInSlices,
    stuck: Callable[[], None],
) -> ClientParts:
    """Make the parts of a client that sent CONNECT; call `open` of the relay next.

    Args:
        client: hears what comes of it.
        services: what all sessions share.
        transport: the client's connection.
        greeting: its first command, accepted.
        counters: of the session.
        incoming: its frames that were not looked at yet.
        stuck: called when the client leaves an answer unread that other clients wait for.
    """
    settings, clock, limits, names = services.settings, services.clock, services.limits, services.names
    connect, brokers, target, (identity, connector, _) = greeting
    behind_proxy = settings.upstream_is_proxy
    workers = SessionWorkers(
        transport,
        connect,
        services.directory,
        counters,
        services.slices,
        incoming.first,
        limits.workers_per_connection_max,
        client.check_liveness,
        clock,
        try_again=not services.of_replicas,
    )
    route = RelayRoute(brokers, target, names, settings.listener_name, behind_proxy=behind_proxy)
    relay = Relay(client, connector, clock, limits, route, identity, names, counters, behind_proxy=behind_proxy)
    permission = None
    if settings.authorize_workers:
        permission = Permission(relay, counters, services.slices)
        workers.judge(permission, settings.authorize_again_s)
    elections, version = services.elections, client_version_of(connect)
    producers = SessionProducers(relay, transport, version, elections, clock, stuck, permission)
    elsewhere = None if services.make_elsewhere is None else services.make_elsewhere(client, connect, transport)
    router = ReplicaRouter if services.of_replicas else CommandRouter
    return ClientParts(
        relay, workers, producers, router(relay, workers, producers, counters, elsewhere), permission, elsewhere
    )
