"""Pulsar's tools and Go's client against a real broker."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from integration import tools
from integration.errors import IntegrationError, ToolMissingError
from integration.perf_output import Sample
from integration.standalone import PulsarStandalone

SAMPLE_S_MAX = 180.0


@pytest.mark.slow
def test_javas_load_client_produces_and_consumes(
    pulsar: PulsarStandalone, new_topic: Callable[[str], str], tmp_path: Path
) -> None:
    """At least as many messages as asked for go through, the admin tool counts them too, and both runs end."""
    topic = new_topic("java-load")
    consuming = ["-st", "Key_Shared", "-ss", "load", "-sp", "Earliest", "-m", "2000", topic]
    with (
        tools.pulsar_perf(
            "consume", *consuming, service_url=pulsar.service_url, log=tmp_path / "consume.log"
        ) as consumer,
        tools.pulsar_perf(
            *("produce", "-mk", "random", "-r", "2000", "-m", "2000", topic),
            service_url=pulsar.service_url,
            log=tmp_path / "produce.log",
        ) as producer,
    ):
        produced = producer.wait(300.0)[-1]
        consumed = consumer.wait(300.0)[-1]
    for total in (produced, consumed):
        assert total.is_total
        assert total.message_count is not None
        assert total.message_count >= 2000
        assert total.latency is not None
    stats = tools.pulsar_admin_json("topics", "stats", topic, admin_url=pulsar.admin_url)
    assert stats["msgInCounter"] >= 2000


@pytest.mark.slow
def test_gos_load_client_produces(pulsar: PulsarStandalone, new_topic: Callable[[str], str], tmp_path: Path) -> None:
    """A second implementation of the protocol that is not ours."""
    try:
        tools.ensure_go_perf()
    except ToolMissingError as error:
        pytest.skip(str(error))
    with tools.go_perf(
        "produce", "--rate", "500", new_topic("go-load"), service_url=pulsar.service_url, log=tmp_path / "go.log"
    ) as producer:
        (sample,) = first_samples(producer)
    assert 100 < sample.messages_per_s < 1000
    assert sample.latency is not None


def first_samples(run: tools.LoadRun) -> list[Sample]:
    """Wait for the run's first samples; Go prints them every ten seconds and never ends by itself."""
    deadline = time.monotonic() + SAMPLE_S_MAX
    while not (samples := run.samples()):
        assert run.running
        assert time.monotonic() < deadline
        time.sleep(0.2)
    return samples


def test_a_failing_admin_command_says_why(pulsar: PulsarStandalone) -> None:
    """The tool's own words, not an exit code."""
    with pytest.raises(IntegrationError, match=r"topics stats .* failed: .*not found"):
        tools.pulsar_admin("topics", "stats", "persistent://public/default/nobody", admin_url=pulsar.admin_url)


def test_a_failing_load_run_shows_the_end_of_its_log(tmp_path: Path) -> None:
    """A load client that never ran must not look like one that measured nothing."""
    run = tools.pulsar_perf("juggle", service_url="pulsar://127.0.0.1:1", log=tmp_path / "juggle.log")
    with pytest.raises(IntegrationError, match=r"juggle\.log ended with exit code"):
        run.wait(60.0)


def test_go_that_is_missing_is_a_reason_to_skip(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The text names what is needed."""
    monkeypatch.setenv("KEYLINE_CACHE", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ToolMissingError, match=r"needs Go 1\.21"):
        tools.ensure_go_perf()
