"""The kinds of value a setting may have, and how each setting is declared.

A setting says everything about itself in one place: default, description, unit, bounds. The documentation, the error
messages and `keyline check-config` are made from that, so they cannot disagree with what is checked.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, BeforeValidator, ByteSize, ConfigDict, Field
from pydantic.fields import FieldInfo

from proxy.key_policies import own_topic_template, rule, topic_template
from proxy.service_url import parse_service_url
from proxy.subscription_patterns import read_pattern

_PORT_MAX = 65_535
JOURNAL_SCHEMES = ("s3", "gs", "gcs", "abfs", "abfss", "hdfs", "file")
"""Of URLs that Arrow has a file system for."""


def setting(default: Any, description: str, *, unit: str = "", takes: str = "", **bounds: Any) -> Any:
    """Declare a setting.

    `bounds` are pydantic's ``ge``, ``gt`` and ``le``; `takes` says what the setting takes where its type does not.
    """
    extra: dict[str, Any] = {"unit": unit, "takes": takes, **bounds}
    return Field(default=default, description=description, json_schema_extra=extra, **bounds)


class Group(BaseModel):
    """A few settings that belong together; frozen, and every key must be known."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        validate_default=True,
        hide_input_in_errors=True,  # it may be a secret
        coerce_numbers_to_str=True,  # so that `listen = 6660` is told what an address looks like
        allow_inf_nan=False,
    )


def split_host_port(address: str) -> tuple[str, int]:
    """Take ``host:port`` apart; an IPv6 address stands in brackets. Raises `ValueError`."""
    parts = urlsplit(f"//{address}")
    try:
        port = parts.port
    except ValueError:
        port = None
    if not parts.hostname or port is None or parts.netloc != address or "@" in address:
        raise ValueError(f"must be host:port with a port from 0 to {_PORT_MAX}, e.g. 127.0.0.1:6660 or [::1]:6660")
    return parts.hostname, port


def service_urls(text: str) -> tuple[str, ...]:
    """Take ``pulsar://a:6650,b:6650`` apart into one URL per host, ports filled in. Raises `ValueError`."""
    if "@" in text:
        raise ValueError("must have no user: it is shown; the gateway's token is a setting of its own")
    scheme, separator, hosts = text.partition("://")
    if not separator:
        raise ValueError("must begin with pulsar:// or pulsar+ssl://")
    return tuple(str(parse_service_url(f"{scheme}://{host.strip()}")) for host in hosts.split(","))


def _check_host_port(text: str) -> str:
    split_host_port(text)
    return text


def _check_service_url(text: str) -> str:
    service_urls(text)
    return text


def _check_http_url(text: str) -> str:
    if "@" in text:  # wherever it stands: what is before it may be a password that has a slash in it
        raise ValueError("must have no user, query or fragment: it is shown, and used for all clients")
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("must be http://host:port or https://host:port")
    if parts.query or parts.fragment:
        raise ValueError("must have no user, query or fragment: it is shown, and used for all clients")
    return text.rstrip("/")


def _check_name(text: str) -> str:
    if not text.strip() or not text.isprintable():
        raise ValueError("must be a printable name that is not empty")
    return text


def _check_namespace(text: str) -> str:
    if not re.fullmatch(r"[\w.=:-]+/[\w.=:-]+", text, re.ASCII):
        raise ValueError("must be tenant/namespace, e.g. public/default")
    return text


def _check_topic(text: str) -> str:
    if not re.fullmatch(r"persistent://[\w.=:-]+/[\w.=:-]+/[^/\s]+", text, re.ASCII):
        raise ValueError("must be a topic's full name, e.g. persistent://public/default/keyline-events")
    return text


def _check_journal_place(place: str) -> str:
    scheme, separator, rest = place.partition("://")
    if not place or not place.isprintable():
        raise ValueError("must be the path of a directory or a URL such as s3://bucket/folder")
    if separator and (scheme not in JOURNAL_SCHEMES or not rest):
        schemes = ", ".join(JOURNAL_SCHEMES)
        raise ValueError(f"must be the path of a directory or a URL of one of these kinds: {schemes}")
    if separator and "@" in rest and scheme in {"s3", "gs", "gcs"}:
        raise ValueError("must have no user: it is shown; object stores take credentials from the environment")
    return place


def _check_subscription_pattern(text: str) -> str:
    read_pattern(text)
    return text


def _check_key_policy(text: str) -> str:
    rule(text)
    return text


def _split(value: Any) -> Any:
    """Take a list from the environment apart at its commas; a file has lists of its own."""
    return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value


HostPort = Annotated[str, AfterValidator(_check_host_port)]
ServiceUrls = Annotated[str, AfterValidator(_check_service_url)]
HttpUrl = Annotated[str, AfterValidator(_check_http_url)]
JournalPlace = Annotated[str, AfterValidator(_check_journal_place)]
Name = Annotated[str, AfterValidator(_check_name)]
Namespace = Annotated[str, AfterValidator(_check_namespace)]
OwnTopicTemplate = Annotated[str, AfterValidator(own_topic_template)]
TopicTemplate = Annotated[str, AfterValidator(topic_template)]
Topic = Annotated[str, AfterValidator(_check_topic)]
SubscriptionPatterns = Annotated[
    tuple[Annotated[Name, AfterValidator(_check_subscription_pattern)], ...], BeforeValidator(_split)
]
KeyPolicies = Annotated[tuple[Annotated[Name, AfterValidator(_check_key_policy)], ...], BeforeValidator(_split)]
Names = Annotated[tuple[Name, ...], BeforeValidator(_split)]
Ports = Annotated[tuple[Annotated[int, Field(ge=1, le=_PORT_MAX)], ...], BeforeValidator(_split)]


def size_text(size_bytes: int) -> str:
    """Write a size with the largest unit that divides it, as a setting takes it: ``64MiB``."""
    for unit, shift in (("GiB", 30), ("MiB", 20), ("KiB", 10)):
        if size_bytes and size_bytes % (1 << shift) == 0:
            return f"{size_bytes >> shift}{unit}"
    return str(size_bytes)


def expectation(field: FieldInfo) -> str:
    """Say in words what a setting takes, e.g. ``a whole number from 1 to 64 (connections)``."""
    extra = field.json_schema_extra if isinstance(field.json_schema_extra, dict) else {}
    if extra.get("takes"):
        return str(extra["takes"])
    choices = getattr(field.annotation, "__args__", ())
    if choices and all(isinstance(choice, str) for choice in choices):
        return "one of " + ", ".join(choices)
    if field.annotation is ByteSize:
        return f"a size{_range(extra, size_text)}, in bytes or with a unit"
    kinds: dict[Any, str] = {bool: "true or false", int: "a whole number", float: "a number"}
    unit = f" ({extra['unit']})" if extra.get("unit") else ""
    return f"{kinds.get(field.annotation, 'text')}{_range(extra, '{:,}'.format)}{unit}"


def _range(extra: dict[str, Any], written: Callable[[Any], str]) -> str:
    words = ""
    if "gt" in extra:
        words += f" above {written(extra['gt'])}"
    if "ge" in extra:
        words += f" from {written(extra['ge'])}"
    if "le" in extra:
        words += f" {'to' if 'ge' in extra else 'up to'} {written(extra['le'])}"
    return words
