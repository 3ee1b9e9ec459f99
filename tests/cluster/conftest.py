"""A cluster and a broker in it for the whole run; a release of the gateway's chart for each test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from integration.artifacts import DEFAULT_VERSION
from integration.cluster.cluster import kubernetes
from integration.errors import ToolMissingError
from tests.cluster.installed import Installed
from tests.cluster.release import PulsarRelease

NAMESPACE = "pulsar"
Install = Callable[..., Installed]


@pytest.fixture(scope="session")
def release() -> Iterator[PulsarRelease]:
    """A broker in a cluster that has the gateway's image too."""
    with ExitStack() as stack:
        try:
            cluster = stack.enter_context(kubernetes())
            _, image = cluster.load_images(DEFAULT_VERSION)
        except ToolMissingError as error:
            pytest.skip(str(error))
        broker = PulsarRelease(cluster, NAMESPACE, image)
        broker.install()
        yield broker


@pytest.fixture
def install(release: PulsarRelease) -> Iterator[Install]:
    """`install(name, *settings)`: a release of the chart, ready, in the broker's namespace; gone after the test."""
    with ExitStack() as stack:

        def start(name: str, *settings: str) -> Installed:
            installed = Installed(release.cluster, NAMESPACE, name)
            stack.callback(installed.uninstall)
            installed.install(*settings)
            return installed

        yield start
