"""Traces of a real gateway in front of a real broker, at the OpenTelemetry collector's own receiver."""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pulsar
import pytest
from opentelemetry import propagate
from opentelemetry.sdk.trace import TracerProvider

from integration.collector import collecting
from integration.gateway import KeylineGateway
from integration.standalone import PulsarStandalone
from tests.integration.conditions import eventually
from tests.integration.conftest import StartGateway

MESSAGES = 20
CLOCKS_APART_S = 1.0
"""A span's times are counted on from one look at the time of day, which may be set meanwhile."""
QUIET = pulsar.ConsoleLogger(pulsar.LoggerLevel.Warn)

pytestmark = pytest.mark.broker


@pytest.fixture
def newest(pulsar: PulsarStandalone) -> PulsarStandalone:
    """The shared broker; `pulsar` is the client's name here."""
    return pulsar


def subscribed(client: pulsar.Client, topic: str, name: str, queue: int = 1_000) -> Any:
    """A worker."""
    return client.subscribe(
        topic, "s", consumer_type=pulsar.ConsumerType.KeyShared, consumer_name=name, receiver_queue_size=queue
    )


def produced(client: pulsar.Client, topic: str, count: int, *, batched: bool) -> dict[str, str]:
    """Send messages as an instrumented producer does; span ids by trace ids."""
    provider = TracerProvider(shutdown_on_exit=False)
    tracer = provider.get_tracer("shop")
    producer = client.create_producer(topic, batching_enabled=batched, batching_type=pulsar.BatchingType.KeyBased)
    spans = {}
    for number in range(count):
        with tracer.start_as_current_span("publish") as span:
            properties: dict[str, str] = {}
            propagate.inject(properties)
            producer.send_async(b"x", lambda *_: None, properties=properties, partition_key=f"k-{number}")
            context = span.get_span_context()
            spans[f"{context.trace_id:032x}"] = f"{context.span_id:016x}"
    producer.flush()
    return spans


def acknowledged(worker: Any, count: int) -> None:
    """Take so many."""
    for _ in range(count):
        worker.acknowledge(worker.receive(30_000))


def attributes(span: dict[str, Any]) -> dict[str, Any]:
    """By name; a list of texts as it is."""
    found = {}
    for each in span.get("attributes", ()):
        ((kind, value),) = each["value"].items()
        found[each["key"]] = (
            [item["stringValue"] for item in value.get("values", ())] if kind == "arrayValue" else value
        )
    return found


@pytest.mark.parametrize("batched", [False, True], ids=["unbatched", "key-batched"])
def test_each_message_is_a_child_of_its_producers_span(
    newest: PulsarStandalone,
    start_gateway: StartGateway,
    tmp_path: Path,
    new_topic: Callable[[str], str],
    batched: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    """From the official client's properties to the collector; what waited says why, and who held it is named."""
    topic, began = new_topic("traced"), time.time()
    with collecting(tmp_path / "collector") as collector:
        gateway = start_gateway(newest, tracing_url=collector.url, tracing_sample="1")
        client = pulsar.Client(gateway.service_url, logger=QUIET)
        worker = subscribed(client, topic, "slow", queue=1)
        spans = produced(client, topic, MESSAGES, batched=batched)
        eventually(lambda: waiting(gateway, topic) > 0, "messages that wait")
        acknowledged(worker, MESSAGES)
        eventually(lambda: exported(gateway) >= MESSAGES, "the export")
        client.close()
        found, over = collector.spans(), time.time()
    whole = {span["traceId"]: span for span in found if span["name"].startswith("deliver")}
    assert {trace: span["parentSpanId"] for trace, span in whole.items()} == spans
    assert {attributes(span)["messaging.destination.name"] for span in whole.values()} == {topic}
    below = [span for span in found if not span["name"].startswith("deliver")]
    assert {span["name"] for span in below} == {"wait", "pending ack"}
    assert all(span["parentSpanId"] == whole[span["traceId"]]["spanId"] for span in below)
    assert {attributes(span)["keyline.worker"] for span in below} == {"slow"}
    reasons = [attributes(span)["keyline.reasons"] for span in below if span["name"] == "wait"]
    assert ["no_permits"] in reasons
    assert all(int(span["startTimeUnixNano"]) <= int(span["endTimeUnixNano"]) for span in found)
    assert all(began - CLOCKS_APART_S < int(span["endTimeUnixNano"]) / 1e9 < over + CLOCKS_APART_S for span in found)


def test_a_collector_that_never_answers_delays_nothing(
    newest: PulsarStandalone, start_gateway: StartGateway, new_topic: Callable[[str], str]
) -> None:
    """Deliveries go on, the loss is counted, the log says it once, and the gateway stops in time."""
    topic = new_topic("black-hole")
    with socket.create_server(("127.0.0.1", 0), backlog=1) as hole:
        url = f"http://127.0.0.1:{hole.getsockname()[1]}/v1/traces"
        gateway = start_gateway(newest, tracing_url=url, tracing_sample="1")
        client = pulsar.Client(gateway.service_url, logger=QUIET)
        worker = subscribed(client, topic, "a")
        took = []
        for _ in range(10):
            produced(client, topic, MESSAGES, batched=False)
            began = time.monotonic()
            acknowledged(worker, MESSAGES)
            took.append(time.monotonic() - began)
        assert sorted(took)[5] < 3, took
        eventually(lambda: metric(gateway, 'keyline_gateway_traces_lost_total{cause="export_failed"}') > 0, "a failure")
        client.close()
        began = time.monotonic()
        gateway.stop()
        assert time.monotonic() - began < 30
    assert gateway.log.read_text().count('"traces not exported"') == 1


def metric(gateway: KeylineGateway, series: str) -> float:
    """Of /metrics."""
    text = httpx.get(f"{gateway.admin_url}/metrics", trust_env=False, timeout=30).text
    found = re.search(rf"^{re.escape(series)} (\S+)$", text, re.MULTILINE)
    assert found is not None, series
    return float(found[1])


def exported(gateway: KeylineGateway) -> float:
    """Traces that the collector took."""
    return metric(gateway, "keyline_gateway_traces_exported_total")


def waiting(gateway: KeylineGateway, topic: str) -> float:
    """Messages of a topic's subscription."""
    return metric(gateway, f'keyline_subscription_waiting_messages{{subscription="s",topic="{topic}"}}')
