"""The servers of a run: a broker with authentication, a gateway in front of it, and its statistics of each topic.

The broker has transactions, and takes messages of 128 KiB at most, so that small ones are chunked.
"""

from __future__ import annotations

import json
import threading
from contextlib import ExitStack, suppress
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, Self

import httpx
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from integration.compatibility.features import PARTITIONED
from integration.gateway import KeylineGateway
from integration.lifetime import Lifetime
from integration.replicas import Replicas
from integration.secured import SUPERUSER, SecuredPulsar

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

NAMESPACE: Final = "persistent://public/default/"
MESSAGE_BYTES_MAX: Final = 128 * 1024
KEY_BITS: Final = 2048
HELLO: Final = "hello"
"""Topic on which each program keeps a producer."""


class Place(Lifetime):
    """A broker and gateways. Use it as a context manager; `kinds_of` is complete when it is closed."""

    service_url: str
    """The gateways', which one sets that is started."""
    admin_url: str
    """Of one of them; likewise."""
    gateways: list[KeylineGateway]
    """Likewise."""

    def __init__(
        self, version: str, directory: Path, replicas: int = 1, settings: Mapping[str, str] | None = None
    ) -> None:
        """Describe it: a version of the broker, where logs and keys go, and how many gateways there are.

        `settings` are further ones of all gateways.
        """
        self.version = version
        self.directory = directory
        self.broker = SecuredPulsar(version, settings={"maxMessageSize": str(MESSAGE_BYTES_MAX)}, transactions=True)
        self.token = self.broker.token(SUPERUSER)
        self._replicas = replicas
        self._settings = dict(settings or {})
        self._kinds: dict[str, set[str]] = {}
        self._listeners: list[threading.Thread] = []
        self._parts = ExitStack()

    def start(self) -> Self:
        """Start all, and listen."""
        make_keys(self.directory)
        with ExitStack() as parts:
            parts.enter_context(self.broker)
            self.gateways = self._start_gateways(parts)
            self._parts = parts.pop_all()
        self._listeners = [threading.Thread(target=self._listen, args=(each,), daemon=True) for each in self.gateways]
        for listener in self._listeners:
            listener.start()
        return self

    def close(self) -> None:
        """Stop all; a gateway's end is that of its events."""
        self._parts.close()
        for listener in self._listeners:
            listener.join()

    def _start_gateways(self, parts: ExitStack) -> list[KeylineGateway]:
        settings = {"broker_token": self.token} | self._settings
        if self._replicas > 1:
            replicas = Replicas(parts, self.broker, self.directory, settings)
            replicas.start(self._replicas)
            self.service_url, self.admin_url = replicas.service_url, replicas.gateways[0].admin_url
            return replicas.gateways
        gateway = KeylineGateway(
            self.broker.service_url, self.broker.admin_url, self.directory / "gateway", settings=settings
        )
        self.service_url, self.admin_url = gateway.service_url, gateway.admin_url
        return [parts.enter_context(gateway)]

    def make_partitioned(self, prefix: str) -> None:
        """Create the topics below a prefix that no client can create."""
        with self.broker.admin() as http:
            for name, count in PARTITIONED.items():
                http.put(f"{_path(prefix + name)}/partitions", json=count).raise_for_status()

    def client_version(self, prefix: str) -> str | None:
        """What the client whose topics begin so calls itself, as soon as it is connected."""
        with self.broker.admin() as http:
            answer = http.get(f"{_path(prefix + HELLO)}/stats")
        if answer.status_code == HTTPStatus.NOT_FOUND:
            return None
        publishers = answer.raise_for_status().json()["publishers"]
        return str(publishers[0].get("clientVersion", "")) if publishers else None

    def kinds_of(self, prefix: str, feature: str) -> frozenset[str]:
        """Kinds of the events that the gateways told of a feature's topics."""
        whole = prefix + feature
        found = (kinds for topic, kinds in self._kinds.items() if topic == whole or topic.startswith(f"{whole}-"))
        return frozenset[str]().union(*found)

    def _listen(self, gateway: KeylineGateway) -> None:
        url = f"{gateway.admin_url}/api/v1/events"
        forever = httpx.Timeout(None)
        with suppress(httpx.TransportError), httpx.stream("GET", url, timeout=forever, trust_env=False) as answer:
            for line in answer.iter_lines():
                if line.startswith("data:"):
                    event: dict[str, Any] = json.loads(line.removeprefix("data:"))
                    self._kinds.setdefault(event.get("topic", ""), set()).add(event.get("kind", ""))


def make_keys(directory: Path) -> None:
    """Write a key pair, `private.pem` and `public.pem`, in the form that every client reads."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=KEY_BITS)
    private = key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "private.pem").write_bytes(private)
    (directory / "public.pem").write_bytes(public)


def _path(topic: str) -> str:
    return f"/admin/v2/{topic.replace('://', '/')}"
