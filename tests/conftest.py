"""Real brokers for every test that asks for one, by fixture.

`pulsar` (4.2.4) and `pulsar_4_0` (4.0.7) are shared by the whole run and start when first asked for; `broker` runs a
test over both. Tests use topics of their own (`new_topic`) there and leave the process alone. A test that restarts,
kills, pauses or configures a broker makes its own with `start_pulsar`.

Run in several processes, each has brokers of its own, and a file's tests are run by one of them.
"""

from __future__ import annotations

import itertools
import os
import signal
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Protocol

import pytest
from hypothesis import settings

from integration.artifacts import PULSAR_VERSIONS
from integration.standalone import PulsarStandalone

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SHARED = {"webSocketServiceEnabled": "true"}
"""For the brokers that tests share: their own WebSocket service is what ours is compared with."""
BROKER_FIXTURES = frozenset({"pulsar", "pulsar_4_0", "broker", "start_pulsar"})


class StartPulsar(Protocol):
    """What the `start_pulsar` fixture gives."""

    def __call__(self, version: str = ..., **options: Any) -> PulsarStandalone:
        """Start a broker of the test's own; options are those of `PulsarStandalone`."""


def pytest_configure() -> None:
    """Let Ctrl-C reach what tests start: a shell without a terminal has background jobs ignore it, children and all."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # A test asserts nothing about how long the machine took for an example.
    settings.register_profile("keyline", deadline=None)
    settings.load_profile("keyline")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what needs a broker, so that `-m "not broker"` is right without anybody having to remember."""
    for item in items:
        if BROKER_FIXTURES & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.broker)


@pytest.fixture(scope="session")
def pulsar(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PulsarStandalone]:
    """The current Pulsar, shared by the run."""
    data = tmp_path_factory.mktemp("pulsar")
    with PulsarStandalone(PULSAR_VERSIONS[0], data=data, settings=SHARED) as standalone:
        yield standalone


@pytest.fixture(scope="session")
def pulsar_4_0(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PulsarStandalone]:
    """The Pulsar with long support, shared by the run."""
    data = tmp_path_factory.mktemp("pulsar-4-0")
    with PulsarStandalone(PULSAR_VERSIONS[1], data=data, settings=SHARED) as standalone:
        yield standalone


@pytest.fixture(scope="session", params=["pulsar", "pulsar_4_0"], ids=PULSAR_VERSIONS)
def broker(request: pytest.FixtureRequest) -> PulsarStandalone:
    """Each of the shared brokers in turn."""
    standalone = request.getfixturevalue(request.param)
    assert isinstance(standalone, PulsarStandalone)
    return standalone


@pytest.fixture
def start_pulsar(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StartPulsar]:
    """Start brokers that a test may do anything to; they end with the test."""
    brokers: list[PulsarStandalone] = []

    def start(version: str = PULSAR_VERSIONS[0], **options: Any) -> PulsarStandalone:
        standalone = PulsarStandalone(version, data=tmp_path_factory.mktemp("own-pulsar"), **options)
        brokers.append(standalone)
        return standalone.start()

    yield start
    for standalone in brokers:
        standalone.close()


@pytest.fixture(scope="session")
def new_topic() -> Callable[[str], str]:
    """Give a topic name that no other test uses: `new_topic("orders")`."""
    numbers = itertools.count(1)

    def name_topic(name: str) -> str:
        return f"persistent://public/default/{name}-{os.getpid()}-{next(numbers)}"

    return name_topic


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Spark in this process, on two threads, without its web pages."""
    from pyspark.sql import SparkSession  # noqa: PLC0415 - it takes a second, and most tests do without

    session = (
        SparkSession.builder.master("local[2]")
        .appName("tests")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()
