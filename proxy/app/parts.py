"""Creates the parts of a gateway from its configuration; `proxy.app.gateway` connects and runs them."""

from __future__ import annotations

import time
import uuid
from dataclasses import fields
from typing import TYPE_CHECKING, Any, TypeVar

from admin_api.pulsar.proxying import BrokerAdmin
from proxy import __version__
from proxy.app.security import client_version, credentials
from proxy.config.types import service_urls
from proxy.core.sticky_key import consistent_slot, murmur31, range_slot
from proxy.errors import StartFailure
from proxy.net.broker.settings import BrokerSettings
from proxy.net.election.rivals import ProducerRivals, rivals_topic
from proxy.net.group.groups import Groups
from proxy.net.group.settings import GroupSettings
from proxy.net.group.sweep import GroupSweep
from proxy.net.group.topics import GroupTopics
from proxy.net.handshake import TargetPolicy
from proxy.net.mail.group_mail import PulsarSharedMail
from proxy.net.session.settings import SessionSettings
from proxy.net.websocket.sockets import WorkerSockets
from proxy.service_url import parse_service_url

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.aio.clock_and_connector import AioClock
    from proxy.app.security import Certificates
    from proxy.config.settings import Config
    from proxy.journal.service import JournalService
    from proxy.journal.topic import EventTopic
    from proxy.net.broker.directory import Brokers
    from proxy.net.events import Events
    from proxy.net.group.streamed import StreamedSubscriptions
    from proxy.net.owner.deployment import Deployment
    from proxy.net.relay.identity import ProxyRole
    from proxy.net.session.sessions import Sessions
    from proxy.net.subscription.openings import Openings
    from proxy.tracing.service import TracingService

T = TypeVar("T")


def broker_settings(config: Config) -> BrokerSettings:
    """Make what the gateway's own connections need."""
    broker, client_side = config.broker, config.client_side
    return BrokerSettings(
        service_urls=service_urls(broker.broker_url),
        client_version=client_version(),
        credentials=credentials(config),
        listener_name=broker.broker_listener_name,
        connections_per_broker=broker.upstream_connections_per_broker,
        max_frame_bytes=client_side.max_frame_bytes,
        connect_timeout_s=client_side.connect_timeout_s,
        request_timeout_s=broker.upstream_request_timeout_s,
        keep_alive_s=client_side.keep_alive_s,
    )


def broker_admins_of(config: Config, tls: Certificates) -> tuple[BrokerAdmin, BrokerAdmin]:
    """Make what asks the brokers' admin API: for callers of this one's, and for the gateway itself.

    Apart, since the gateway's own certificate would have the broker take a caller without credentials for the gateway,
    and since callers may use up all connections.
    """
    url, timeout_s = config.broker.broker_admin_url, config.broker.upstream_request_timeout_s
    callers, own = (files.context if files is not None else None for files in (tls.callers, tls.broker))
    return BrokerAdmin(url, timeout_s=timeout_s, tls=callers), BrokerAdmin(url, timeout_s=timeout_s, tls=own)


def session_settings(config: Config, proxy_role: ProxyRole | None) -> SessionSettings:
    """Make what client sessions need."""
    serving = config.serving
    return SessionSettings(
        brokers=tuple(parse_service_url(url) for url in service_urls(config.broker.broker_url)),
        targets=TargetPolicy(
            hosts=frozenset(serving.allowed_broker_hosts) or None,
            ports=frozenset(serving.allowed_broker_ports) or None,
        ),
        listener_name=config.broker.broker_listener_name,
        upstream_is_proxy=config.broker.broker_is_proxy,
        authorize_workers=config.security.authorize_workers,
        authorize_again_s=config.security.authorize_again_s,
        proxy_role=proxy_role,
    )


def groups_of(config: Config, brokers: Brokers, clock: AioClock, deployment: Deployment | None) -> Groups:
    """Make this replica's member of groups, under a name unique to the process: that of its part in `deployment`."""
    settings = picked(GroupSettings, config)
    if deployment is None:
        return Groups(new_name(config), brokers, clock, settings)
    return Groups(deployment.replica, brokers, clock, settings, deployment.post)


def new_name(config: Config) -> str:
    """Name this process as a replica; the name is unique per process."""
    return f"{config.serving.replica_name}-{uuid.uuid4().hex[:8]}"


def rivals_of(config: Config, replica: str | None, brokers: Brokers, clock: AioClock) -> ProducerRivals | None:
    """Make the exchange of waiting producers between replicas, under the same name; None for a single gateway."""
    if replica is None:
        return None
    topic = rivals_topic(picked(GroupSettings, config).groups_namespace)
    return ProducerRivals(replica, PulsarSharedMail(topic, replica, brokers, clock), clock)


def group_topics_of(
    config: Config, replica: str | None, brokers: Brokers, clock: AioClock, events: Events
) -> tuple[GroupSweep | None, GroupTopics | None]:
    """Make what removes topics of former groups: by itself, and for operators; None for a gateway that is alone.

    In both modes: a deployment may have changed its mode.
    """
    if replica is None:
        return None, None
    namespace = picked(GroupSettings, config).groups_namespace
    return GroupSweep(namespace, replica, brokers, clock), GroupTopics(namespace, brokers, clock, events)


def journal_of(config: Config, events: Events, clock: AioClock) -> JournalService | None:
    """Make the journal of these events, if it is enabled; only then load Arrow and numpy. Raises `StartFailure`."""
    if config.journaling.journal is None:
        return None
    from proxy.journal.service import JournalService, JournalSettings  # noqa: PLC0415

    values = config.values()
    secret = config.journaling.journal_key_secret
    values["journal_key_secret"] = None if secret is None else secret.get_secret_value().encode()
    settings = JournalSettings(**{field.name: values[field.name] for field in fields(JournalSettings)})
    try:
        service = JournalService(settings, config.serving.replica_name, __version__, clock, time.time_ns)
    except ValueError as error:
        raise StartFailure(f"journal {error}") from error
    events.event_recorder = service.journal
    return service


def tracing_of(config: Config, events: Events, clock: AioClock) -> TracingService | None:
    """Make the tracer of messages, if it is enabled; only then load OpenTelemetry's SDK. Raises `StartFailure`."""
    url = config.tracing.tracing_url
    if url is None:
        return None
    try:
        from proxy.tracing.service import TracingService  # noqa: PLC0415
    except ModuleNotFoundError as error:
        right = "pip install 'keyline-gateway[tracing]'"
        raise StartFailure(f"tracing_url {url} needs OpenTelemetry's SDK ({error}): {right}") from error
    name, ratio = config.serving.replica_name, config.tracing.tracing_sample
    service = TracingService(url, ratio, name, __version__, clock, time.time_ns)
    events.tracers = service.tracing
    return service


def event_topic_of(config: Config, events: Events, clock: AioClock) -> EventTopic | None:
    """Make the publisher of events, if it is enabled; only then load the official client."""
    broker, topic = config.broker, config.journaling.journal_topic
    if topic is None:
        return None
    from proxy.journal.topic import EventTopic  # noqa: PLC0415
    from proxy.journal.topic_client import producer_of  # noqa: PLC0415

    token = None if broker.broker_token is None else broker.broker_token.get_secret_value()
    open_producer = producer_of(topic, broker.broker_url, token, broker.broker_token_file, broker.broker_tls_ca_file)
    name = config.serving.replica_name
    return EventTopic(events, open_producer, name, lambda at: clock.time() - (clock.now() - at))


def sockets_of(
    config: Config,
    sessions: Sessions,
    clock: AioClock,
    openings: Openings,
    why_not: Callable[[], str | None],
    streamed: StreamedSubscriptions,
) -> WorkerSockets | None:
    """Make the workers and listeners on WebSockets, if they are enabled."""
    if not config.serving.websocket_workers:
        return None
    ring = config.ordering.selector == "consistent_hashing"

    def slot_of(subscription: tuple[str, str], key: bytes) -> int:
        slot = consistent_slot if ring and subscription not in streamed else range_slot
        return slot(murmur31(key))

    return WorkerSockets(sessions.admit, why_not, clock, openings, slot_of)


def picked(kind: type[T], config: Config) -> T:
    """Make a settings dataclass whose fields are named like the configuration's."""
    values: dict[str, Any] = config.values()
    return kind(**{field.name: values[field.name] for field in fields(kind)})  # type: ignore[arg-type]
