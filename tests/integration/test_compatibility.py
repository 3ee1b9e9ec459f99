"""The documentation's table of what clients can do is what a run finds: Python, Java and Go, on both brokers.

All features of all clients are tried beside each other, so one run of a version serves every test here; another one
goes through three gateways in owner mode.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from integration.artifacts import PULSAR_VERSIONS
from integration.compatibility.__main__ import DOCUMENT
from integration.compatibility.clients import CLIENTS
from integration.compatibility.features import FEATURES
from integration.compatibility.outcomes import Findings, Word
from integration.compatibility.runs import run_probes
from integration.compatibility.table import Page, merged, parse, render
from integration.errors import IntegrationError, ToolMissingError

TRIED = ("python", "java", "go")
"""Rust's takes minutes to build, so its column is brought up to date by hand."""

REPLICAS = 3

Found = dict[str, dict[str, Findings]]


@pytest.fixture(scope="module")
def unavailable() -> dict[str, str]:
    """Why a client is not tried, filled by `programs`."""
    return {}


@pytest.fixture(scope="module")
def programs(unavailable: dict[str, str]) -> dict[str, list[str]]:
    """Command lines of the probe programs that this machine can build."""
    made = {}
    for client in CLIENTS:
        if client.name in TRIED:
            try:
                made[client.name] = client.prepare()
            except ToolMissingError as missing:
                unavailable[client.name] = str(missing)
    return made


@pytest.fixture(scope="module")
def found(programs: dict[str, list[str]], tmp_path_factory: pytest.TempPathFactory) -> Found:
    """What was found with each version of the broker, one after the other."""
    directory: Path = tmp_path_factory.mktemp("compatibility")
    return {version: run_probes(version, programs, directory / version) for version in PULSAR_VERSIONS}


@pytest.mark.slow
@pytest.mark.broker
@pytest.mark.parametrize("client", TRIED)
@pytest.mark.parametrize("version", PULSAR_VERSIONS)
def test_each_feature_does_what_the_documentation_says(
    version: str, client: str, found: Found, unavailable: dict[str, str]
) -> None:
    """A failure shows what came of the feature, directly and through the gateway."""
    if client in unavailable:
        pytest.skip(unavailable[client])
    page = parse(DOCUMENT.read_text())
    trials = found[version][client].trials
    wrong = {name: trial for name, trial in trials.items() if page.word(client, name, version) != trial.word}
    assert not wrong


@pytest.mark.slow
@pytest.mark.broker
def test_three_replicas_do_what_one_gateway_does(
    programs: dict[str, list[str]], unavailable: dict[str, str], tmp_path: Path
) -> None:
    """Every feature of every client that can be tried, with workers that any of the replicas may lead to the owner."""
    if not programs:
        pytest.skip("; ".join(unavailable.values()))
    page = parse(DOCUMENT.read_text())
    version = PULSAR_VERSIONS[0]
    found = run_probes(version, programs, tmp_path, REPLICAS)
    wrong = {
        (client, name): trial
        for client, findings in found.items()
        for name, trial in findings.trials.items()
        if page.word(client, name, version) != trial.word
    }
    assert not wrong


@pytest.mark.slow
@pytest.mark.broker
def test_the_page_is_what_these_results_give(found: Found) -> None:
    """With the columns of clients that were not tried, and the clients' versions, as the page has them.

    A new release of a client that does the same is no reason to fail.
    """
    text = DOCUMENT.read_text()
    page = parse(text)
    page.update(found, versions=False)
    assert render(page) == text


def test_the_page_says_something_of_every_feature_and_client() -> None:
    """A column for each client that has a program, and a cell for each feature with every broker."""
    page = parse(DOCUMENT.read_text())
    assert set(page.clients) >= set(TRIED)
    for client in page.clients:
        for feature in FEATURES:
            assert all(page.word(client, feature.name, version) for version in PULSAR_VERSIONS), (client, feature)


def test_what_is_rendered_is_read_again() -> None:
    """So that columns of clients that were not tried stay what they are, and no words are in the page alone."""
    text = DOCUMENT.read_text()
    page = parse(text)
    assert parse(render(page)) == page
    assert render(page) == text, "its words are those of `notes`"


def test_a_cell_tells_brokers_apart_where_they_differ() -> None:
    """And only there."""
    page = Page()
    newer, older = PULSAR_VERSIONS
    page.cells["python", "seek_id"] = merged({newer: Word.YES, older: Word.OWN_LIMIT})
    assert page.word("python", "seek_id", newer) == Word.YES
    assert page.word("python", "seek_id", older) == Word.OWN_LIMIT
    assert merged(dict.fromkeys(PULSAR_VERSIONS, Word.YES)) == Word.YES


def test_what_does_not_work_as_usual_needs_a_note() -> None:
    """Nobody is left alone with a refusal."""
    page = parse(DOCUMENT.read_text())
    page.cells["python", "lz4"] = Word.REFUSED
    with pytest.raises(IntegrationError, match="lz4 needs a note"):
        render(page)
