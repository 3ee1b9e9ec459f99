"""Spans as OpenTelemetry's own protobuf service reads them, and what happens while nobody takes them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from structlog.testing import capture_logs

from proxy.tracing import export
from proxy.tracing.contexts import Context
from proxy.tracing.export import QUEUED_MAX, SpanExport
from proxy.tracing.passage import Hold, Passage, Wait
from proxy.tracing.spans import ATTRIBUTE_CHARACTERS_MAX, SpanMaker
from tests.integration.conditions import eventually
from tests.tracing.collector_fake import Collector, collecting

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = Context(f"00-{TRACE}-b7ad6b7169203331-01", "shop=1")
UNSAMPLED = Context(f"00-{TRACE}-b7ad6b7169203331-00", "")
OFFSET_NS = 1_700_000_000_000_000_000
PUT_MAX = 100 * QUEUED_MAX
"""Passages that are put before a queue that nothing leaves must have been full, however slow the machine is at it."""
PATIENCE_S = 10.0
"""Of a busy machine beside the time that is promised; all that is queued would take longer."""


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is waited for that a test does not need."""
    monkeypatch.setattr(export, "GATHER_S", 0.01)
    monkeypatch.setattr(export, "TIMEOUT_S", 0.2)


def passage(*contexts: Context, entry: int = 7, topic: str = "persistent://t/n/orders") -> Passage:
    """A message that waited for permits, was returned once and acknowledged at the second attempt."""
    return Passage(
        topic, "s", 5, entry, 100, 0, 10.0, contexts, 16.0, "acked",
        [(10.0, "draining"), (11.0, "no_permits"), (12.0, "")],
        [Wait("a", 1, 1, 4711, 10.0, 12.0), Wait("b", 2, 1, 4711, 14.0, 14.5)],
        [Hold("a", 1, 1, 12.0, 14.0, "returned"), Hold("b", 2, 1, 14.5, 16.0, "acked")],
    )  # fmt: skip


def maker() -> SpanMaker:
    """Of a gateway whose clock began at a round date."""
    return SpanMaker("keyline-0", "1.2.3", lambda: OFFSET_NS)


@contextmanager
def exporting(url: str) -> Iterator[SpanExport]:
    """A thread that sends to this place."""
    sender = SpanExport(url, maker())
    sender.start()
    try:
        yield sender
    finally:
        sender.close()


@pytest.fixture
def collector() -> Iterator[Collector]:
    """One that takes everything."""
    with collecting() as found:
        yield found


def attributes(span: Span) -> dict[str, object]:
    """By name, of text, numbers and lists of texts."""
    found: dict[str, object] = {}
    for each in span.attributes:
        kind = each.value.WhichOneof("value")
        assert kind is not None
        value = getattr(each.value, kind)
        found[each.key] = [item.string_value for item in value.values] if kind == "array_value" else value
    return found


def test_a_passage_arrives_as_a_child_of_its_producers_span(collector: Collector) -> None:
    """With its moments, its waits and their reasons, its deliveries and their workers; and the gateway's name."""
    with exporting(collector.url) as sender:
        sender.put(passage(PARENT))
        eventually(lambda: sender.counters.exported_total == 1, "the export")
    (resource,) = [each.resource for request in collector.requests for each in request.resource_spans]
    facts = {each.key: each.value.string_value for each in resource.attributes}
    assert (facts["service.name"], facts["service.instance.id"]) == ("keyline", "keyline-0")
    *below, whole = sorted(collector.spans(), key=lambda span: span.end_time_unix_nano)
    assert {span.trace_id.hex() for span in collector.spans()} == {TRACE}
    assert whole.name == "deliver persistent://t/n/orders"
    assert (whole.parent_span_id.hex(), whole.trace_state) == ("b7ad6b7169203331", "shop=1")
    assert whole.start_time_unix_nano == OFFSET_NS + 10_000_000_000
    assert whole.end_time_unix_nano == OFFSET_NS + 16_000_000_000
    told = attributes(whole)
    assert told["messaging.system"] == "pulsar"
    assert told["messaging.message.id"] == "5:7"
    assert told["messaging.destination.subscription.name"] == "s"
    assert told["keyline.ended"] == "acked"
    assert [event.name for event in whole.events] == ["waits", "waits", "waits no more"]
    assert all(span.parent_span_id == whole.span_id for span in below)
    assert [span.name for span in below] == ["wait", "pending ack", "wait", "pending ack"] or [
        span.name for span in below
    ] == ["wait", "pending ack", "wait"]
    by_name = [(span.name, attributes(span)) for span in collector.spans()[:-1]]
    waits = [facts for name, facts in by_name if name == "wait"]
    assert [wait["keyline.reasons"] for wait in waits] == [["draining", "no_permits"], []]
    assert [wait["keyline.hash_slot"] for wait in waits] == [4711, 4711]
    holds = [facts for name, facts in by_name if name == "pending ack"]
    assert [(hold["keyline.worker"], hold["keyline.ended"]) for hold in holds] == [("a", "returned"), ("b", "acked")]


def test_a_batch_of_several_producers_links_to_each() -> None:
    """It can have one parent only."""
    other = Context(f"00-{TRACE[:-1]}d-b7ad6b7169203332-01", "")
    *_, whole = maker().spans(passage(PARENT, other))
    assert whole.parent is None
    assert [f"{link.context.span_id:x}" for link in whole.links] == ["b7ad6b7169203331", "b7ad6b7169203332"]


def test_without_a_producers_context_an_entry_has_one_trace_everywhere() -> None:
    """Another replica, or a later run, adds to the same; another entry has another."""
    first, again, other = (maker().spans(passage(entry=entry))[-1] for entry in (1, 1, 2))
    assert first.context.trace_id == again.context.trace_id != other.context.trace_id
    assert first.context.span_id != again.context.span_id
    assert first.parent is None


def test_a_producer_that_wants_no_trace_gets_none() -> None:
    """As long as none of a batch's other producers does."""
    assert maker().spans(passage(UNSAMPLED)) == []
    assert maker().spans(passage(UNSAMPLED, PARENT))
    assert maker().spans(passage(Context("00-" + "0" * 32 + "-b7ad6b7169203331-01", "")))[-1].parent is None


def test_names_that_clients_choose_are_cut() -> None:
    """A topic or worker may have a name of any length."""
    *_, whole = maker().spans(passage(topic="persistent://t/n/" + "x" * 100_000))
    assert whole.attributes is not None
    name = whole.attributes["messaging.destination.name"]
    assert isinstance(name, str)
    assert len(name) == ATTRIBUTE_CHARACTERS_MAX
    assert len(whole.name) < 2 * ATTRIBUTE_CHARACTERS_MAX


def test_a_collector_that_fails_is_told_of_once_and_tried_again(collector: Collector) -> None:
    """Each passage is counted; the log says when it began and when it was over."""
    collector.status = 400
    with capture_logs() as logs, exporting(collector.url) as sender:
        for number in range(3):
            sender.put(passage(entry=number))
            eventually(lambda told=number: sender.counters.failed_total == told + 1, "the failure")  # type: ignore[misc]
        collector.status = 200
        sender.put(passage())
        eventually(lambda: sender.counters.exported_total == 1, "the export")
    assert [(line["event"], line["log_level"]) for line in logs] == [
        ("traces not exported", "warning"),
        ("traces exported again", "info"),
    ]


def test_nothing_waits_for_a_collector_that_is_not_there() -> None:
    """The queue fills up and is counted; what puts into it returns at once, and so does the gateway's end."""
    with capture_logs() as logs, exporting("http://127.0.0.1:9/v1/traces") as sender:
        for number in range(PUT_MAX):
            sender.put(passage(entry=number))
            if sender.counters.queue_full_total:
                break
        assert sender.counters.queue_full_total, "it never filled up, or who puts into it has waited"
        eventually(lambda: sender.counters.failed_total > 0, "the failure")
        began = time.perf_counter()
    assert time.perf_counter() - began < export.END_S_MAX + PATIENCE_S
    assert [line["event"] for line in logs] == ["traces not exported"]
