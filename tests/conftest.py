"""Real brokers for every test that asks for one, by fixture.

`pulsar` (4.2.4) and `pulsar_4_0` (4.0.7) are shared by the whole run and start when first asked for; `broker` runs a
test over both. Tests use topics of their own (`new_topic`) there and leave the process alone. A test that restarts,
kills, pauses or configures a broker makes its own with `start_pulsar`, or shares one with the other tests of its
module: `module_broker`, `module_pulsar`.

Run in several processes, each has brokers of its own, and a file's tests are run by one of them. `--part NAME` runs
the tests of one part (`tests.parts`). A test that is not marked `broker` cannot start one.
"""

from __future__ import annotations

import gc
import itertools
import logging
import os
import signal
from collections.abc import Callable, Generator, Iterator
from typing import TYPE_CHECKING, Any, Protocol

import pytest
import structlog
from hypothesis import settings

from hatch_build import stale
from integration.artifacts import PULSAR_VERSIONS
from integration.standalone import PulsarStandalone
from proxy.app.compiled import running
from tests.parts import FAST, NAMES, runs
from tests.thorough import THOROUGH

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SHARED = {"webSocketServiceEnabled": "true"}
"""For the brokers that tests share: their own WebSocket service is what ours is compared with."""
Options = dict[str, bool | float | int | str | None]
SPARK_AS_DEPLOYED: Options = {}
SPARK_UNCOMPILED: Options = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
LONGEST = [f"tests/integration/test_{name}.py" for name in ("story", "journal", "console", "websocket", "dashboards")]
"""Of the fast tier's files with brokers, in the order in which they begin."""
WAITED_BY = 0.7
"""After this part of the fast tier's files none that waits for a broker begins."""
COLLECTED = pytest.StashKey[list[str]]()
"""Ids of all tests that a run has found, those that it leaves out included."""


class StartPulsar(Protocol):
    """What the `start_pulsar` fixture gives."""

    def __call__(self, version: str = ..., **options: Any) -> PulsarStandalone:
        """Start a broker of the test's own; options are those of `PulsarStandalone`."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let one home of tests be run; without the option all are."""
    parser.addoption("--part", choices=list(NAMES), help="run this part's tests only (tests/parts.py)")
    parser.addoption(
        "--replicas", type=int, default=1, help="let the gateway that tests share be so many, in owner mode"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Let Ctrl-C reach what tests start: a shell without a terminal has background jobs ignore it, children and all.

    And let Java programs of the fast tier, brokers above all, compile for a short life: that takes 40 % less CPU.
    """
    if config.getoption("part") == FAST.name:
        os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1")
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # A test asserts nothing about how long the machine took for an example.
    settings.register_profile("keyline", deadline=None)
    settings.load_profile("keyline")


def pytest_report_header() -> str:
    """Say what is tested, and nothing at all where it would be something older than the sources."""
    if outdated := stale():
        raise pytest.UsageError(f"changed since they were compiled: {', '.join(outdated)}; run make compile-clean")
    return f"keyline: {running()}"


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Generator[None]:
    """Mark what needs a broker, so that `-m "not broker"` is right without anybody having to remember.

    And keep the tests of the part that was asked for.
    """
    config.stash[COLLECTED] = [item.nodeid for item in items]
    for item in items:
        if isinstance(item, pytest.Function) and makes_a_broker(item):
            item.add_marker(pytest.mark.broker)
    part = config.getoption("part")
    if part is not None:
        left = [item for item in items if not runs(item.nodeid, part)]
        items[:] = [item for item in items if runs(item.nodeid, part)]
        config.hook.pytest_deselected(items=left)
    yield
    if part == FAST.name:  # pytest has put tests of one fixture together meanwhile
        items[:] = in_turn(items)


def in_turn(items: list[pytest.Item]) -> list[pytest.Item]:
    """Give the tests in an order in which files that wait for brokers alternate with files that compute.

    Whole files are given out in this order to processes, of which there is one more than cores: so cores are busy while
    brokers are waited for, the longest files begin first, and at the end only short ones are left to wait for.
    """
    files: dict[str, list[pytest.Item]] = {}
    for item in items:
        files.setdefault(item.nodeid.partition("::")[0], []).append(item)
    waiting = [name for name, tests in files.items() if any(test.get_closest_marker("broker") for test in tests)]
    waiting.sort(key=lambda name: LONGEST.index(name) if name in LONGEST else len(LONGEST))
    computing = [name for name in files if name not in waiting]
    place = {name: WAITED_BY * number / len(waiting) for number, name in enumerate(waiting)}
    place |= {name: number / len(computing) for number, name in enumerate(computing)}
    return [test for name in sorted(files, key=place.__getitem__) for test in files[name]]


def pytest_collection_finish() -> None:
    """Let the collector walk what tests make, and not thousands of tests each time: they live until the end."""
    gc.collect()
    gc.freeze()


def makes_a_broker(item: pytest.Function) -> bool:
    """Whether a fixture of the test makes a broker, or lets the test do so."""
    definitions = item._fixtureinfo.name2fixturedefs
    return any(
        "PulsarStandalone" in definition.func.__code__.co_names
        for name in item.fixturenames
        for definition in definitions.get(name, ())
        if hasattr(definition.func, "__code__")
    ) or bool({"start_pulsar", "broker"} & set(item.fixturenames))


def refuse_a_broker(*_: object, **__: object) -> None:
    """Stand for `PulsarStandalone.start` in a test that must not call it."""
    pytest.fail("this test starts a broker and is not marked broker: `-m 'not broker'` would run it")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Let no test start a broker, with its fixtures, that is not marked so."""
    with pytest.MonkeyPatch.context() as patch:
        if item.get_closest_marker("broker") is None:
            patch.setattr(PulsarStandalone, "start", refuse_a_broker)
        return (yield)


@pytest.fixture
def quiet_log() -> Iterator[None]:
    """What thousands of bad inputs and simulated faults make the gateway say is of no use to anybody."""
    configured = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    yield
    structlog.configure(**configured)


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
    """Give a topic name that no other test uses: `new_topic("orders")`.

    There is no process's number in it, for each process has brokers of its own: what fails can be repeated by name.
    """
    numbers = itertools.count(1)

    def name_topic(name: str) -> str:
        return f"persistent://public/default/{name}-{next(numbers)}"

    return name_topic


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Spark in this process, on two threads, without its web pages.

    In the fast tier without its compiler too: tests have few rows, and compiling a query takes longer than they do.
    From the second run on Java has Spark's classes from an archive, as it has for reports: half of its CPU.
    """
    from pyspark.sql import SparkSession  # noqa: PLC0415 - it takes a second, and most tests do without

    from spark_reports import class_archive  # noqa: PLC0415 - likewise

    session = (
        SparkSession.builder.config(map=SPARK_AS_DEPLOYED if THOROUGH else SPARK_UNCOMPILED)
        .master("local[2]")
        .appName("tests")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.driver.extraJavaOptions", class_archive.options("tests").strip())
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()
