"""A broker's address as clients and operators write it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

PLAIN: Final = "pulsar"
TLS: Final = "pulsar+ssl"
DEFAULT_PORTS: Final = {PLAIN: 6650, TLS: 6651}


@dataclass(frozen=True, slots=True)
class ServiceUrl:
    """One broker's address."""

    scheme: str
    host: str
    port: int

    @property
    def tls(self) -> bool:
        """Whether the connection is encrypted."""
        return self.scheme == TLS

    @property
    def authority(self) -> str:
        """``host:port``, an IPv6 address in brackets."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def __str__(self) -> str:
        """As a client or an operator writes it."""
        return f"{self.scheme}://{self.authority}"


def parse_service_url(text: str, scheme: str = PLAIN) -> ServiceUrl:
    """Read ``pulsar://host:port``, ``pulsar+ssl://host:port`` or, with `scheme` understood, ``host:port``.

    Raises `ValueError` that says what is wrong.
    """
    if "://" not in text:
        text = f"{scheme}://{text}"
    parts = urlsplit(text)
    if parts.scheme not in DEFAULT_PORTS:
        message = f"{text!r}: the scheme is {parts.scheme!r}, it should be {PLAIN} or {TLS}"
        raise ValueError(message)
    if not parts.hostname or parts.path.strip("/") or parts.query or parts.fragment or "@" in parts.netloc:
        message = f"{text!r} is not {PLAIN}://host:port"
        raise ValueError(message)
    port = parts.port
    if port == 0:
        message = f"{text!r}: port 0 cannot be dialled"
        raise ValueError(message)
    return ServiceUrl(parts.scheme, parts.hostname, DEFAULT_PORTS[parts.scheme] if port is None else port)
