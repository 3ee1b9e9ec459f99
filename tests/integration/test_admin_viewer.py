"""Whoever may only see, before a real broker that would let it change everything: the gateway alone is in the way.

The token of `vera` is a viewer's here and a superuser's at the broker, so each change that arrives there happens.
"""

from __future__ import annotations

import secrets
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import httpx
import pytest

from integration.artifacts import PULSAR_VERSIONS
from integration.gateway import KeylineGateway
from integration.secured import signed_token, token_settings
from integration.standalone import PulsarStandalone

pytestmark = [pytest.mark.slow, pytest.mark.broker]

NAMESPACE = "/admin/v2/persistent/public/default"
ANSWER_S_MAX = 30.0


class Place(NamedTuple):
    """A broker that knows who asks, a gateway that passes changes on, and the key of both."""

    broker: PulsarStandalone
    gateway: KeylineGateway
    key: bytes

    def raw(self, target: str, method: str, role: str) -> int:
        """A request written by hand, so that no client changes its path; the status."""
        url = urlsplit(self.gateway.admin_url)
        assert url.hostname is not None
        with socket.create_connection((url.hostname, url.port or 80), ANSWER_S_MAX) as connection:
            head = f"{method} {target} HTTP/1.1\r\nhost: {url.netloc}\r\nconnection: close\r\n"
            head += f"authorization: Bearer {signed_token(self.key, role)}\r\ncontent-length: 0\r\n\r\n"
            connection.sendall(head.encode())
            with connection.makefile("rb") as answer:
                return int(answer.readline().split()[1])

    def new_topic(self, name: str) -> str:
        """The path of a topic that is there."""
        path = f"{NAMESPACE}/{name}-{time.monotonic_ns()}"
        with self.broker.admin() as http:
            http.put(path).raise_for_status()
        assert self.is_there(path)
        return path

    def is_there(self, path: str) -> bool:
        """Whether the broker still has it."""
        with self.broker.admin() as http:
            topics: list[str] = http.get(NAMESPACE).raise_for_status().json()
            return any(topic.rpartition("/")[2] == httpx.URL(path).path.rpartition("/")[2] for topic in topics)


@pytest.fixture(scope="module", params=PULSAR_VERSIONS)
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """One for all tests of a version."""
    key = secrets.token_bytes(32)
    directory: Path = tmp_path_factory.mktemp("viewer")
    (directory / "secret").write_bytes(key)
    at_broker = token_settings(key) | {"superUserRoles": "admin,vera,ada"}
    with PulsarStandalone(request.param, settings=at_broker, token=signed_token(key, "admin")) as broker:
        settings = {
            "broker_token": signed_token(key, "admin"),
            "admin_token_secret_file": str(directory / "secret"),
            "admin_writes_to_broker": "true",
            "admin_viewers": "vera",
            "admin_admins": "ada",
        }
        with KeylineGateway(broker.service_url, broker.admin_url, directory, settings=settings) as gateway:
            yield Place(broker, gateway, key)


ENDS = (";x=%2Fpreview%2Fjoin", ";x=/preview/join", "", "?x=/preview/join", ";", "%3Bx=%2Fpreview%2Fjoin", "/..;/../x")


def test_a_viewers_delete_deletes_nothing(place: Place) -> None:
    """In every writing of the path, the broker would drop what is behind the semicolon and delete the topic."""
    topic = place.new_topic("kept")
    for end in ENDS:
        assert place.raw(topic + end, "DELETE", "vera") in {400, 403}, end
    for method in ("delete", "Delete", "PUT", "POST", "PATCH"):
        assert place.raw(topic, method, "vera") in {400, 403, 405}, method
    assert place.is_there(topic)


def test_the_same_is_refused_to_an_admin_and_the_plain_way_is_not(place: Place) -> None:
    """What can be read in two ways is passed on for nobody; what cannot is, with unusual names too."""
    topic = place.new_topic("deleted%3Bx%C3%A9")
    assert place.raw(topic + ";x=%2Fpreview%2Fjoin", "DELETE", "ada") == 400
    assert place.is_there(topic)
    assert place.raw(topic, "DELETE", "vera") == 403
    assert place.is_there(topic)
    assert place.raw(topic, "DELETE", "ada") == 204
    assert not place.is_there(topic)


def test_reads_are_a_viewers(place: Place) -> None:
    """And a read that would change something is not."""
    topic = place.new_topic("read")
    assert place.raw(topic + "/stats", "GET", "vera") == 200
    assert place.raw("/admin/v2/brokers/backlog-quota-check", "GET", "vera") == 403
    assert place.raw("/admin/v2/brokers/backlog-quota-check", "GET", "ada") in {200, 204}
    made = f"{NAMESPACE}/made-{time.monotonic_ns()}"
    assert place.raw(made + "/partitions?checkAllowAutoCreation=true", "GET", "vera") == 403
    assert not place.is_there(made)
