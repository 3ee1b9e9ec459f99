"""Logging: one line per event, its facts as fields, on standard error.

Everything goes through the standard library's logging, so that lines of uvicorn and asyncio have the same format. The
configuration of logging is global by nature; only the command line sets it, once.

No secret is logged: credentials are masked in their repr, and fields with a secret's name are masked here as a second
check. Tracebacks show no values of variables, because these include credentials, keys and messages.

Every text is cut: clients choose names, versions and reasons, and the limiter counts lines, not bytes.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, MutableMapping
from typing import TYPE_CHECKING, Any, TextIO

import structlog

from proxy.printable import printable
from proxy.shortened import both_ends, shortened_within

if TYPE_CHECKING:
    from proxy.app.log_limiter import LineLimiter

SECRET_WORDS = ("token", "secret", "password", "auth_data", "authorization", "credentials")
MASK = "********"

TEXT_CHARACTERS_MAX = 1_000
"""Of each text in a line."""
TRACEBACK_CHARACTERS_MAX = 8_000
"""Of a traceback, or of each text in one."""
TRACEBACKS = frozenset({"exception", "stack"})
"""The fields that hold one."""

_traceback = structlog.processors.ExceptionRenderer(structlog.tracebacks.ExceptionDictTransformer(show_locals=False))


def configure_logging(
    level: str, line_format: str, replica_name: str, limiter: LineLimiter, stream: TextIO | None = None
) -> None:
    """Write events of at least `level` to `stream` (standard error), each with the replica's name.

    `line_format` is ``json`` or ``console``. Lines that `limiter` does not admit are omitted, also those of libraries.
    """
    shared: list[structlog.types.Processor] = [
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.stdlib.ExtraAdder(),
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
        _bind(replica=replica_name),
        _mask_secrets,
    ]
    output = stream if stream is not None else sys.stderr
    render: list[structlog.types.Processor]
    if line_format == "json":
        render = [_traceback, _shorten, structlog.processors.JSONRenderer()]
    else:
        render = [
            structlog.processors.format_exc_info,
            _shorten,
            _escape,
            structlog.dev.ConsoleRenderer(
                colors=output.isatty(), timestamp_key="time", exception_formatter=structlog.dev.plain_traceback
            ),
        ]
    handler = logging.StreamHandler(output)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *render],
        )
    )
    handler.addFilter(_limit_others(limiter))
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(level.upper())
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            _limit(limiter),
            *shared,
            structlog.stdlib.PositionalArgumentsFormatter(),
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )


def set_level(level: str) -> None:
    """Write events of at least this level from now on."""
    logging.getLogger().setLevel(level.upper())


def _limit(limiter: LineLimiter) -> structlog.types.Processor:
    """Drop the gateway's events beyond the limit, before they are formatted."""

    def admit(logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        left_out = limiter.admit(logger.name, str(event["event"]))
        if left_out is None:
            raise structlog.DropEvent
        if left_out:
            event["left_out"] = left_out
        return event

    return admit


def _limit_others(limiter: LineLimiter) -> Callable[[logging.LogRecord], bool]:
    """Drop lines of libraries beyond the limit; the gateway's own are dicts, and already checked."""

    def admit(record: logging.LogRecord) -> bool:
        if isinstance(record.msg, dict):
            return True
        left_out = limiter.admit(record.name, str(record.msg))
        if left_out:
            record.left_out = left_out
        return left_out is not None

    return admit


def _bind(**fields: object) -> structlog.types.Processor:
    """Add fields to every event, also of libraries; an event's own field of that name wins."""

    def add(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        for name, value in fields.items():
            event.setdefault(name, value)
        return event

    return add


def _shorten(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Cut every text of the finished event: a traceback in its middle, anything else at its end."""
    return {
        name: shortened_within(value, TRACEBACK_CHARACTERS_MAX, both_ends)
        if name in TRACEBACKS
        else shortened_within(value, TEXT_CHARACTERS_MAX)
        for name, value in event.items()
    }


def _escape(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Escape names, which clients choose, for a terminal. JSON escapes them itself; other values are shown by repr."""
    for name, value in event.items():
        if isinstance(value, str) and name not in TRACEBACKS:
            event[name] = printable(value)
    return event


def _mask_secrets(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    for name in event:
        if any(word in name.lower() for word in SECRET_WORDS):
            event[name] = MASK
    return event
