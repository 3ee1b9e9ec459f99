"""Helm for the tests that ask for the chart, which are slow for that: the first may have to build it."""

from __future__ import annotations

import pytest

from integration.errors import ToolMissingError
from integration.helm_tool import ensure_helm
from tests.helm.chart import Chart


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what runs Helm."""
    for item in items:
        if "chart" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def chart(tmp_path_factory: pytest.TempPathFactory) -> Chart:
    """The chart; skips where there is neither Helm nor Go."""
    try:
        ensure_helm()
    except ToolMissingError as error:
        pytest.skip(str(error))
    return Chart(tmp_path_factory.mktemp("helm"))
