"""Errors by fault, and what each becomes on the wire.

The client broke the protocol, the upstream failed, the operator misconfigured, or we have a bug: the one who can
mend it differs, so the classes do. `wire_code` is the ServerError a client sees; `http_status` what the admin API
answers.
"""

from __future__ import annotations

from proxy.wire import pulsar_pb2 as pb


class KeylineError(Exception):
    """Base of every error of ours that may reach a client or an operator."""

    wire_code: int = pb.UnknownError
    http_status: int = 500


class ClientError(KeylineError):
    """The client asked for something it may not have."""

    http_status = 400

    def __init__(self, message: str, wire_code: int = pb.NotAllowedError) -> None:
        """Say what is wrong and what would be right; `wire_code` as the broker would answer."""
        super().__init__(message)
        self.wire_code = wire_code


class NotFound(KeylineError):
    """What an operator named is not here; the message says which part of the name, and what is."""

    http_status = 404


class Conflict(KeylineError):
    """What an operator asked for does not go together with how things are."""

    http_status = 409


class UpstreamError(KeylineError):
    """The broker refused; its own code and words are passed on."""

    http_status = 502

    def __init__(self, message: str, wire_code: int) -> None:
        """`wire_code` is the broker's ServerError."""
        super().__init__(message)
        self.wire_code = wire_code


class UpstreamUnavailable(KeylineError):
    """The broker could not be reached, or did not answer in time; the client should try again."""

    wire_code = pb.ServiceNotReady
    http_status = 503


class LimitExceeded(KeylineError):
    """A configured limit of the gateway is reached."""

    wire_code = pb.TooManyRequests
    http_status = 429


class ConfigurationError(KeylineError):
    """The operator's configuration cannot work; the message says where and what would be right."""


class StartFailure(KeylineError):
    """The gateway cannot start where it is; the message says why."""
