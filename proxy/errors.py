"""Errors by fault, with their codes on the wire.

The client broke the protocol, the upstream failed, the operator misconfigured, or the gateway has a bug: each class has
another party that can fix it. `wire_code` is the ServerError for clients; `http_status` the status of the admin API.
"""

from __future__ import annotations

from proxy.wire import pulsar_pb2 as pb


class KeylineError(Exception):
    """Base of every error that may reach a client or an operator."""

    wire_code: int = pb.UnknownError
    http_status: int = 500


class ClientError(KeylineError):
    """The client asked for something it may not have."""

    http_status = 400

    def __init__(self, message: str, wire_code: int = pb.NotAllowedError) -> None:
        """The message names the error and the valid values; `wire_code` as the broker would answer."""
        super().__init__(message)
        self.wire_code = wire_code


class NotFound(KeylineError):
    """An object that an operator named is not here; the message names the wrong part, and the existing names."""

    http_status = 404


class Misdirected(NotFound):
    """Another replica owns what an operator named."""

    def __init__(self, owner: str, topic: str, subscription: str) -> None:
        """The message names it."""
        super().__init__(f"subscription {subscription} on topic {topic} is owned by replica {owner}: ask that one")
        self.owner = owner
        self.key = topic, subscription


class Conflict(KeylineError):
    """An operator's order conflicts with the current state."""

    http_status = 409


class UpstreamError(KeylineError):
    """The broker refused; its own code and words are passed on."""

    http_status = 502

    def __init__(self, message: str, wire_code: int) -> None:
        """`wire_code` is the broker's ServerError."""
        super().__init__(message)
        self.wire_code = wire_code


def broker_code(error: Exception) -> int | None:
    """The ServerError with which the broker refused; None for any other error."""
    return error.wire_code if isinstance(error, UpstreamError) else None


class UpstreamUnavailable(KeylineError):
    """The broker could not be reached, or did not answer in time; the client should try again."""

    wire_code = pb.ServiceNotReady
    http_status = 503


class OwnedElsewhere(UpstreamUnavailable):
    """Another replica owns the subscription, or is about to; a SUBSCRIBE can be led there."""


class Stopping(UpstreamUnavailable):
    """The gateway is about to end; the client should go elsewhere."""


class LimitExceeded(KeylineError):
    """A configured limit of the gateway is reached."""

    wire_code = pb.TooManyRequests
    http_status = 429


class ConfigurationError(KeylineError):
    """The operator's configuration is invalid; the message names the setting and the valid values."""


class StartFailure(KeylineError):
    """The gateway cannot start in this environment; the message has the reason."""
