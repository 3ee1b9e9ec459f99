"""The helper for applications that wait for a topic, as far as it needs no broker."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pulsar
import pytest

from keyline_gateway.client.waiting_producer import (
    ANNOUNCEMENT_PROPERTY,
    PRIORITY_MAX,
    PRIORITY_MIN,
    PRIORITY_PROPERTY,
    Announcement,
    WaitingProducer,
    WaitingProducerClosedError,
    parse_announcement,
    reconnect_delay_s,
)
from proxy.producers import waiting

URL = "pulsar://127.0.0.1:1"
"""Nothing listens there, and nothing is to connect."""
TOPIC = "persistent://public/default/endpoint"
MARKED = {ANNOUNCEMENT_PROPERTY: "1"}
ANNOUNCEMENT = Announcement(
    producer_name="standalone-1-2",
    priority=-7,
    promoted_at=datetime(2026, 11, 22, 1, 2, 3, 456, tzinfo=UTC),
    attributes={"host": "a.example", "resume": "ledger 5, entry 6, ü"},
)


@pytest.mark.parametrize("priority", [PRIORITY_MIN, -1, 0, 1, PRIORITY_MAX])
def test_every_signed_32_bit_number_is_a_priority(priority: int) -> None:
    """It is kept as it was given."""
    assert WaitingProducer(URL, TOPIC, priority).priority == priority


@pytest.mark.parametrize("priority", [PRIORITY_MIN - 1, PRIORITY_MAX + 1, 1.0, "1", None, True])
def test_anything_else_is_no_priority(priority: Any) -> None:
    """The error says what would be right."""
    with pytest.raises(ValueError, match=r"from -2147483648 to 2147483647"):
        WaitingProducer(URL, TOPIC, priority)


def test_helper_and_gateway_mean_the_same_bounds() -> None:
    """The helper imports nothing of the gateway, so its copy is compared here."""
    assert (PRIORITY_MIN, PRIORITY_MAX) == (waiting.PRIORITY_MIN, waiting.PRIORITY_MAX)


def test_a_priority_is_read_only() -> None:
    """PIP-440: writing it after creation throws."""
    producer = WaitingProducer(URL, TOPIC, 3)
    with pytest.raises(AttributeError):
        producer.priority = 4  # type: ignore[misc]
    assert producer.priority == 3


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"access_mode": pulsar.ProducerAccessMode.Shared}, TypeError, "access_mode"),
        ({"client_options": {"operation_timeout_seconds": 30}}, TypeError, "operation_timeout_seconds"),
        ({"properties": {PRIORITY_PROPERTY: "5"}}, ValueError, PRIORITY_PROPERTY),
        ({"schema": pulsar.schema.StringSchema()}, ValueError, "announcement=None"),
    ],
)
def test_options_of_the_helper_are_refused(options: dict[str, Any], error: type[Exception], words: str) -> None:
    """Each with a text that names it."""
    with pytest.raises(error, match=words):
        WaitingProducer(URL, TOPIC, **options)


def test_the_priority_joins_the_properties_of_the_caller() -> None:
    """What the caller passed in stays as it was, and is sent with the priority."""
    properties = {"team": "uptime"}
    producer = WaitingProducer(URL, TOPIC, -5, properties=properties)
    assert producer._producer_options["properties"] == {"team": "uptime", PRIORITY_PROPERTY: "-5"}
    assert properties == {"team": "uptime"}


def test_a_producer_with_a_schema_may_go_without_announcement() -> None:
    """Then there is no record that the schema could not encode."""
    WaitingProducer(URL, TOPIC, announcement=None, schema=pulsar.schema.StringSchema())


def test_whoever_is_preferred_comes_back_first() -> None:
    """The delay never grows with the priority, and is within its bounds."""
    delays = [reconnect_delay_s(priority, highest=100, step_s=0.1, max_s=5.0) for priority in range(-200, 201)]
    assert delays == sorted(delays, reverse=True)
    assert (max(delays), min(delays)) == (5.0, 0.0)
    assert reconnect_delay_s(99, highest=100, step_s=0.1) == pytest.approx(0.1)


def test_the_delay_is_bounded_over_the_whole_range() -> None:
    """The widest distance there is gives the largest delay, and nobody gives a negative one."""
    assert reconnect_delay_s(PRIORITY_MIN, highest=PRIORITY_MAX, max_s=7.0) == 7.0
    assert reconnect_delay_s(PRIORITY_MAX) == 0.0


def test_an_announcement_survives_the_way() -> None:
    """What is read is what was told."""
    assert parse_announcement(ANNOUNCEMENT.encode(), MARKED) == ANNOUNCEMENT


def test_a_message_without_the_mark_is_no_announcement() -> None:
    """An application's record may look alike."""
    assert parse_announcement(ANNOUNCEMENT.encode(), {}) is None
    assert parse_announcement(ANNOUNCEMENT.encode(), {ANNOUNCEMENT_PROPERTY: "0"}) is None


@pytest.mark.parametrize(
    "data",
    [b"", b"\xff\xfe", b"null", b"[]", b"7", b"{}", b'"text"', b"[" * 100_000, b'{"kind": "keyline.announcement"}'],
)
def test_garbage_is_no_announcement(data: bytes) -> None:
    """Whatever it is, nothing is raised."""
    assert parse_announcement(data, MARKED) is None


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("kind", "other"),
        ("priority", 1 << 31),
        ("priority", "1"),
        ("promoted_at", "yesterday"),
        ("promoted_at", 5),
        ("attributes", ["host"]),
    ],
)
def test_a_wrong_field_makes_it_no_announcement(field: str, value: object) -> None:
    """Nothing is guessed."""
    fields = {**json.loads(ANNOUNCEMENT.encode()), field: value}
    assert parse_announcement(json.dumps(fields).encode(), MARKED) is None


def test_what_later_versions_add_is_ignored() -> None:
    """A reader goes on reading."""
    fields = {**json.loads(ANNOUNCEMENT.encode()), "more": 1}
    assert parse_announcement(json.dumps(fields).encode(), MARKED) == ANNOUNCEMENT


def test_a_closed_one_acquires_nothing() -> None:
    """The exception is clear, and closing once more is harmless."""
    with WaitingProducer(URL, TOPIC, delay_s=partial(reconnect_delay_s, highest=9)) as producer:
        producer.close()
        with pytest.raises(WaitingProducerClosedError):
            producer.acquire()
    assert producer.producer is None
