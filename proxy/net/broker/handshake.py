"""The gateway's CONNECT, and its answer to an AUTH_CHALLENGE.

Only supported feature flags are set, because they change the commands that a broker sends.
"""

from __future__ import annotations

from proxy.net.broker.settings import PROTOCOL_VERSION, BrokerTarget, Credentials
from proxy.wire import frames
from proxy.wire import pulsar_pb2 as pb


def connect_frame(target: BrokerTarget, client_version: str, credentials: Credentials | None) -> bytes:
    """Introduce the gateway to a broker, or through a Pulsar proxy to the broker behind it."""
    connect = pb.CommandConnect(client_version=client_version, protocol_version=PROTOCOL_VERSION)
    connect.feature_flags.supports_auth_refresh = True  # challenges are answered with fresh credentials
    connect.feature_flags.supports_broker_entry_metadata = True  # passed on, or taken off, per worker
    if target.proxy_to_broker_url:
        connect.proxy_to_broker_url = target.proxy_to_broker_url
    if credentials is not None:
        connect.auth_method_name = credentials.method
        connect.auth_data = credentials.data
    return frames.encode_command(pb.BaseCommand(type=pb.BaseCommand.CONNECT, connect=connect))


def auth_response_frame(client_version: str, credentials: Credentials | None) -> bytes:
    """Answer a challenge; a broker that wants credentials where there are none gets empty ones and will refuse."""
    response = pb.CommandAuthResponse(client_version=client_version, protocol_version=PROTOCOL_VERSION)
    response.response.auth_method_name = credentials.method if credentials is not None else "none"
    response.response.auth_data = credentials.data if credentials is not None else b""
    return frames.encode_command(pb.BaseCommand(type=pb.BaseCommand.AUTH_RESPONSE, authResponse=response))
