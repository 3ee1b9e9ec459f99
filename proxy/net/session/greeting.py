"""What a client's CONNECT asks for: to which broker it goes, and in whose name."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from proxy.errors import ClientError
from proxy.net.handshake import requested_broker
from proxy.net.session.end_cause import EndCause
from proxy.net.session.identity import introduced
from proxy.net.session.router import Violation

if TYPE_CHECKING:
    from proxy.net.ports import Transport
    from proxy.net.session.identity import Introduction
    from proxy.net.session.services import SessionServices
    from proxy.service_url import ServiceUrl
    from proxy.wire import pulsar_pb2 as pb


class Greeting(NamedTuple):
    """One that is accepted."""

    connect: pb.CommandConnect
    brokers: tuple[ServiceUrl, ...]
    """Tried in turn, if it names none."""
    target: ServiceUrl | None
    """The broker that it names."""
    introduction: Introduction


def accepted(
    connect: pb.CommandConnect, transport: Transport, services: SessionServices, first_broker: int
) -> Greeting:
    """Check what comes on this connection; `first_broker` spreads clients over the brokers. Raises `Violation`."""
    settings, names = services.settings, services.names
    brokers = settings.brokers[first_broker:] + settings.brokers[:first_broker]
    try:
        target = requested_broker(connect, brokers[0].scheme, settings.targets)
    except ClientError as error:
        names.refused(connect.proxy_to_broker_url, transport.peer, str(error))
        raise Violation(EndCause.TARGET_REFUSED, str(error), error.wire_code) from error
    certificate, now_s = transport.peer_certificate, services.clock.time()
    try:
        introduction = introduced(connect, certificate, settings, services.connector, now_s)
    except ClientError as error:
        raise Violation(EndCause.CERTIFICATE_REFUSED, str(error), error.wire_code) from error
    return Greeting(connect, brokers, target, introduction)
