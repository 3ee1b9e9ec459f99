"""The wiring: creates every part and connects it to its users (see `proxy.app.parts`).

Shutdown has an order, so that no message is lost and clients move on by themselves (G3): report "not ready" and accept
no new client; stop deliveries and wait for the pending acknowledgements; close the workers' consumers and then every
connection, which sends clients to another replica; close the gateway's own connections last, after the acknowledgements
on them. The wait is bounded: messages not acknowledged by then are redelivered elsewhere.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import structlog

from admin_api.app import admin_app, replica_app
from admin_api.metrics.text import MetricsText
from admin_api.origins import is_loopback
from admin_api.replica_answers import ReplicaAnswers
from admin_api.replicas import legs_drained
from admin_api.server import AdminServer
from proxy import __version__
from proxy.aio.background import AioBackground
from proxy.aio.clock_and_connector import AioClock, AioConnector
from proxy.aio.tls import TlsWatch
from proxy.aio.turns import LoopTurns
from proxy.app.collector import Collector
from proxy.app.compiled import running
from proxy.app.listener import GatewayServer
from proxy.app.open_transactions import takeover_asks_of
from proxy.app.owner_mode import OwnerMode, replica_of
from proxy.app.parts import (
    broker_admins_of,
    broker_settings,
    group_topics_of,
    groups_of,
    picked,
    rivals_of,
    session_settings,
    sockets_of,
)
from proxy.app.proxy_role import proxy_role_of
from proxy.app.records import Records
from proxy.app.reloadable import Reloadable
from proxy.app.security import Certificates, credentials, tokens, warn_of_access
from proxy.config.show import effective_json
from proxy.config.types import split_host_port
from proxy.errors import StartFailure
from proxy.limits import Limits
from proxy.net.broker.directory import BrokerProbe, Brokers
from proxy.net.broker.names import BrokerNames
from proxy.net.countdown import after_all
from proxy.net.election.elections import ElectionSettings, ProducerElections
from proxy.net.group.settings import GroupSettings
from proxy.net.group.streamed import StreamedSubscriptions
from proxy.net.session.services import SessionServices
from proxy.net.session.sessions import Sessions
from proxy.net.subscription.directory import Subscriptions
from proxy.net.subscription.openings import Openings
from proxy.net.subscription.settings import SubscriptionSettings
from proxy.views.admin import Admin
from proxy.views.deployment import NO_DEPLOYMENT, DeploymentSummary
from proxy.views.metrics import MetricsSource

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from proxy.aio.tls import TlsFiles
    from proxy.app.host_process import HostProcess
    from proxy.app.log_limiter import LineLimiter
    from proxy.config.load import Loaded

FAREWELL_S = 2.0
"""Time for clients to read sent data before their connections are aborted."""

log = structlog.get_logger("keyline.gateway")


class Gateway:
    """All parts of one gateway on one event loop."""

    _legs: asyncio.Task[None] | None = None
    """Waits, as it stops, for what its clients have of other replicas."""

    def __init__(
        self,
        loaded: Loaded,
        loop: asyncio.AbstractEventLoop,
        log_limiter: LineLimiter,
        process: HostProcess | None = None,
    ) -> None:
        """Create every part, of this `process` of several; nothing listens or connects yet. Raises `StartFailure`."""
        config = self._config = loaded.config
        self._process = process
        limits = picked(Limits, config)
        clock = AioClock(loop)
        tls = Certificates(config)
        turns = LoopTurns(loop, limits.turns_per_s_max)
        connector = AioConnector(loop, limits, tls.broker_context, turns=turns)
        client_settings = session_settings(config, proxy_role_of(config, loop, limits, tls))
        names = BrokerNames(client_settings.brokers, clock)
        self._brokers = Brokers(connector, clock, broker_settings(config), names.add)
        self._probe = BrokerProbe(self._brokers, clock)
        group_settings = picked(GroupSettings, config)
        owner = self._owner = (
            OwnerMode(config, loop, self._brokers, clock, limits, tls.replicas, process, turns)
            if group_settings.owned
            else None
        )
        streamed = StreamedSubscriptions(group_settings)
        self._groups = (
            groups_of(config, self._brokers, clock, None if owner is None else owner.deployment) if streamed else None
        )
        self._background = AioBackground(loop)
        openings = Openings(clock, self._background)
        subscriptions = self._subscriptions = Subscriptions(
            self._brokers,
            clock,
            picked(SubscriptionSettings, config),
            openings,
            streamed,
            secrets.randbelow(1 << 16),
        )
        if self._groups is not None:
            self._subscriptions.new_assignment = self._groups.new_assignment
        if owner is not None:
            self._subscriptions.ownership = owner.deployment.bundles
            owner.deployment.share_orders(subscriptions)
        events = self._subscriptions.events
        records = self._records = Records(config, events, clock)
        replica = replica_of(self._groups, owner)
        self._sweep, self._group_topics = group_topics_of(config, replica, self._brokers, clock, events)
        self._elections = ProducerElections(
            clock, events, picked(ElectionSettings, config), rivals_of(config, replica, self._brokers, clock)
        )
        services = SessionServices(
            connector,
            clock,
            self._subscriptions,
            self._elections,
            names,
            client_settings,
            limits,
            subscriptions.slices,
            None if owner is None else owner.ways.onward,
        )
        sessions = Sessions(services)
        self._led_here: Sessions | None = None
        if owner is not None:
            self._led_here = Sessions(replace(services, make_elsewhere=owner.ways.here_only, of_replicas=True))
        """Of clients that other replicas led here."""
        self._server = GatewayServer(sessions, limits, loop, turns)
        events.number_from(time.time_ns() // 1_000_000)  # more than in any earlier run
        collector = self._collector = Collector(clock, subscriptions.__len__, lambda: subscriptions.ended_total)
        admin = self.admin = Admin(
            subscriptions,
            self._elections,
            self.not_ready_because,
            effective_json(loaded)["settings"],
            limits.max_frame_bytes,
            self._groups,
            None if owner is None else owner.view,
        )
        metrics = self._metrics = MetricsSource(
            __version__,
            running(),
            self.own_reasons,
            self._server.statistics,
            subscriptions,
            self._elections,
            self._brokers,
            lambda: collector.collections_total,
            self._groups,
            records.journal,
            None if records.event_topic is None else records.event_topic.summary,
            lambda: tls.summary(self._tls_watch),
            lambda: log_limiter.left_out_total,
            self._deployment,
            records.tracing,
        )
        serving = config.serving
        self._metrics_text = MetricsText(
            metrics,
            workers_max=serving.metrics_workers_max,
            pulsar_names=serving.metrics_pulsar_names,
            histograms=serving.metrics_histograms,
        )
        self.reloadable = Reloadable(subscriptions, sessions, tokens(config), log_limiter)
        self._broker_admin, self._asks_broker = broker_admins_of(config, tls)
        subscriptions.services.takeovers, self._stop_asking = takeover_asks_of(
            loaded, self._asks_broker, credentials(config), clock, loop
        )
        self._admin = AdminServer(
            admin_app(
                admin,
                admin,
                __version__,
                read_only=serving.admin_read_only,
                loopback=is_loopback(split_host_port(serving.admin_listen)[0]),
                broker=self._broker_admin,
                broker_writes=serving.admin_writes_to_broker,
                metrics=self._metrics_text,
                sockets=sockets_of(config, sessions, clock, openings, self._why_no_sockets, streamed),
                socket_origins=serving.websocket_origins,
                tokens=self.reloadable.callers,
                metrics_open=config.security.metrics_open,
                others=None if owner is None else owner.others,
                group_topics=self._group_topics,
                gateway=serving.replica_name,
                processes=process,
            ),
            limits.keep_alive_s,
            tls.server.context if tls.server is not None and config.security.admin_tls else None,
        )
        self._tls = tls
        self._tls_watch = TlsWatch(clock, tls.all)
        self._listening = self._shutting_down = False
        self.admin_address = ("", 0)

    def _deployment(self) -> DeploymentSummary:
        if self._owner is None or self._led_here is None:
            return NO_DEPLOYMENT
        return self._owner.view.summary(self._led_here.statistics(accepting=self._listening))

    def _why_no_sockets(self) -> str | None:
        return "the gateway is stopping" if self._shutting_down else None

    def not_ready_because(self) -> Sequence[str]:
        """The reasons why the gateway is not ready for clients; of several processes, all of them together."""
        reasons = self.own_reasons()
        return reasons if self._process is None else self._process.not_ready_because(reasons)

    def own_reasons(self) -> Sequence[str]:
        """The reasons why this process is not."""
        reasons = []
        if self._shutting_down:
            reasons.append("shutting down")
        elif not self._listening:
            reasons.append("not listening yet")
        if self._probe.unreachable_because is not None:
            reasons.append(f"broker: {self._probe.unreachable_because}")
        return reasons

    def configured(self, loaded: Loaded) -> None:
        """Other settings are in effect."""
        self._config = loaded.config
        self.admin.configured(effective_json(loaded)["settings"])

    # ------------------------------------------------------------------ start and stop

    @property
    def _shared(self) -> bool:
        """Whether other processes listen at the same addresses."""
        return self._process is not None

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """The addresses for clients."""
        return self._server.addresses

    async def start(self) -> None:
        """Listen. Raises `StartFailure` if an address is not available; then nothing is left open.

        The admin API starts first, so that an orchestrator can see the state of the rest.
        """
        serving = self._config.serving
        try:
            self.admin_address = await self._admin.start(*split_host_port(serving.admin_listen), shared=self._shared)
        except OSError as error:
            raise StartFailure(f"admin_listen {serving.admin_listen}: {error.strerror or error}") from error
        await self._listen("listen", serving.listen, None)
        if self._config.security.listen_tls is not None:
            await self._listen("listen_tls", self._config.security.listen_tls, self._tls.clients)
        await self._take_part()
        warn_of_access(self._config)
        self._tls_watch.start()
        self._probe.start()
        self._collector.start()
        self._records.start(self._metrics)
        if self._groups is not None:
            self._groups.start()
        if self._sweep is not None:
            self._sweep.start()
        self._elections.start()
        self._listening = True
        if self._process is not None:
            self._process.started()
        log.info(
            "gateway started",
            version=__version__,
            addresses=[f"{host}:{port}" for host, port in self.addresses],
            admin="{}:{}".format(*self.admin_address),
            broker_url=self._config.broker.broker_url,
        )

    async def _listen(self, setting: str, address: str, tls: TlsFiles | None) -> None:
        try:
            context = None if tls is None else tls.context
            await self._server.listen(*split_host_port(address), context, shared=self._shared)
        except OSError as error:
            self._server.stop_accepting()
            await self._admin.stop()
            raise StartFailure(f"{setting} {address}: {error.strerror or error}") from error

    async def _take_part(self) -> None:
        """In owner mode, let other replicas in."""
        if self._owner is None or self._led_here is None:
            return
        serving = self._config.serving
        asked = replica_app(
            self.admin, self.admin, __version__, read_only=serving.admin_read_only, metrics=self._metrics_text
        )
        try:
            await self._owner.start(self._led_here.admit, ReplicaAnswers(asked).answer)
        except StartFailure:
            self._server.stop_accepting()
            await self._admin.stop()
            raise

    async def drain_and_stop(self, hurry: asyncio.Event | None = None) -> bool:
        """Stop in order; false if something delivered was not acknowledged in time, or `hurry` cut the wait short."""
        self._shutting_down = True
        self._server.stop_accepting()
        timeout_s = self._config.serving.drain_timeout_s
        log.info("gateway drain started", timeout_s=timeout_s)
        drained = asyncio.Event()
        self._drain(drained.set)
        await _first_of(timeout_s, drained, hurry)
        if self._legs is not None:
            self._legs.cancel()
        self._elections.close()
        if self._sweep is not None:
            self._sweep.close()
        if self._group_topics is not None:
            self._group_topics.close()
        complete = drained.is_set()  # once the subscriptions are closed there is nothing pending either
        if self._groups is not None:
            self._groups.close()
        if self._owner is not None:
            self._owner.close()
        self._subscriptions.close()
        self._background.close()
        self._server.close_sessions()
        if self._led_here is not None:
            self._led_here.close_all()
        farewell_s = 0.0 if hurry is not None and hurry.is_set() else FAREWELL_S
        await self._server.sessions_gone(farewell_s)
        self._probe.stop()
        self._tls_watch.stop()
        gone = asyncio.Event()
        self._brokers.close(gone.set)
        await _first_of(farewell_s, gone)
        self._subscriptions.events.close()  # otherwise the streams would keep the admin API open
        await self._records.close(FAREWELL_S)
        await self._admin.stop()
        self._stop_asking()
        await self._broker_admin.close()
        await self._asks_broker.close()
        log.info("gateway stopped", drained=complete)
        return complete

    def _drain(self, done: Callable[[], None]) -> None:
        """Shared subscriptions are handed over while the others wait for their acknowledgements."""
        steps: list[Callable[[Callable[[], None]], None]] = [self._subscriptions.drain]
        if self._groups is not None:
            steps.append(self._groups.leave_all)
        if self._owner is not None:
            steps += [self._owner.deployment.leave, partial(self._drain_legs, self._owner)]
        one_done = after_all(len(steps), done)
        for step in steps:
            step(one_done)

    def _drain_legs(self, owner: OwnerMode, done: Callable[[], None]) -> None:
        self._legs = asyncio.create_task(legs_drained(owner.others))
        self._legs.add_done_callback(lambda _: done())


async def _first_of(timeout_s: float, *events: asyncio.Event | None) -> None:
    """Wait until one of the events is set, or the time is over."""
    waits = [asyncio.ensure_future(event.wait()) for event in events if event is not None]
    _, late = await asyncio.wait(waits, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
    for wait in late:
        wait.cancel()
