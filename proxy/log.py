"""Logging: one line per event, its facts as fields, on standard error.

Everything goes through the standard library's logging, so that lines of uvicorn and asyncio look like ours. The
configuration of logging is global by nature; it is set once, by the command line, and nowhere else.

Nothing secret is logged: credentials hide themselves in their repr, and fields with a name that sounds like a secret
are masked here in case someone forgets. Tracebacks show no values of variables, for credentials, keys and messages are
among them.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import MutableMapping
from typing import Any, TextIO

import structlog

from proxy.printable import printable

SECRET_WORDS = ("token", "secret", "password", "auth_data", "authorization", "credentials")
MASK = "********"

_traceback = structlog.processors.ExceptionRenderer(structlog.tracebacks.ExceptionDictTransformer(show_locals=False))


def configure_logging(level: str, line_format: str, replica_name: str, stream: TextIO | None = None) -> None:
    """Write events of at least `level` to `stream` (standard error), each with the replica's name.

    `line_format` is ``json`` or ``console``.
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
        render = [_traceback, structlog.processors.JSONRenderer()]
    else:
        render = [
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
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(level.upper())
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.PositionalArgumentsFormatter(),
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )


def _bind(**fields: object) -> structlog.types.Processor:
    """Add fields to every event, of ours and of libraries; an event's own field of that name wins."""

    def add(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        for name, value in fields.items():
            event.setdefault(name, value)
        return event

    return add


def _escape(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """For a terminal: clients choose names. JSON escapes them by itself, and what is no text is shown by its repr."""
    for name, value in event.items():
        if isinstance(value, str) and name not in {"exception", "stack"}:
            event[name] = printable(value)
    return event


def _mask_secrets(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    for name in event:
        if any(word in name.lower() for word in SECRET_WORDS):
            event[name] = MASK
    return event
