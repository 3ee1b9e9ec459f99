"""Passages as spans, made by OpenTelemetry's SDK.

One span for the entry, from its arrival to its last acknowledgement, is a child of the producer's; below it stands one
for each wait and each delivery. Of a batch whose messages have several producers' contexts the span links to each. An
entry without a context begins a trace with an id made from topic and entry id, so that what another replica or a later
run sees of the same entry is in the same trace. No span has a key or other properties: they are the users' data.

Names of attributes: OpenTelemetry's semantic conventions for messaging, where they have one.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Final

from opentelemetry.context import Context as OtelContext
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanLimits, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from opentelemetry.trace import Link, NonRecordingSpan, SpanContext, SpanKind, get_current_span, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

if TYPE_CHECKING:
    from collections.abc import Callable

    from opentelemetry.trace import Tracer
    from opentelemetry.util.types import AttributeValue

    from proxy.tracing.contexts import Context
    from proxy.tracing.passage import Passage

ATTRIBUTE_CHARACTERS_MAX: Final = 256
"""Of names that clients choose."""
TRACE_ID_BYTES: Final = 16

_propagator: Final = TraceContextTextMapPropagator()


class SpanMaker:
    """Makes spans; for one thread."""

    def __init__(self, gateway: str, version: str, wall_minus_clock_ns: Callable[[], int]) -> None:
        """`gateway` is the replica's name. The last argument is the difference of the two clocks, as of now."""
        self._wall_minus_clock_ns = wall_minus_clock_ns
        self._ids = _Ids()
        self._ended = _Ended()
        resource = Resource.create(
            {"service.name": "keyline", "service.instance.id": gateway, "service.version": version}
        )
        limits = SpanLimits(max_attribute_length=ATTRIBUTE_CHARACTERS_MAX)
        provider = TracerProvider(
            ALWAYS_ON, resource, shutdown_on_exit=False, id_generator=self._ids, span_limits=limits
        )
        provider.add_span_processor(self._ended)
        self._tracer: Tracer = provider.get_tracer("keyline", version)

    def spans(self, passage: Passage) -> list[ReadableSpan]:
        """The entry's, and those of its waits and deliveries; none where a producer decided against a trace."""
        producers = [_span_context(context) for context in passage.contexts]
        known = [producer for producer in producers if producer is not None]
        if known and not any(producer.trace_flags.sampled for producer in known):
            return []
        offset_ns = self._wall_minus_clock_ns()

        def nanoseconds(at: float) -> int:
            return int(at * 1e9) + offset_ns

        self._ids.trace_id = _trace_id(passage)
        whole = self._tracer.start_span(
            f"deliver {passage.topic[:ATTRIBUTE_CHARACTERS_MAX]}",
            _below(known[0]) if len(known) == 1 else OtelContext(),
            SpanKind.CONSUMER,
            {
                "messaging.system": "pulsar",
                "messaging.operation.name": "deliver",
                "messaging.destination.name": passage.topic,
                "messaging.destination.subscription.name": passage.subscription,
                "messaging.message.id": f"{passage.ledger}:{passage.entry}",
                "messaging.message.envelope.size": passage.size_bytes,
                "keyline.redeliveries": passage.redeliveries,
                "keyline.ended": passage.ended,
            },
            [Link(producer) for producer in known] if len(known) > 1 else None,
            nanoseconds(passage.received_at),
        )
        for at, reason in passage.reasons:
            whole.add_event("waits" if reason else "waits no more", {"keyline.reason": reason}, nanoseconds(at))
        below = set_span_in_context(whole, OtelContext())
        for wait in passage.waits:
            reasons = sorted({reason for at, reason in passage.reasons if reason and wait.since <= at <= wait.until})
            facts: dict[str, AttributeValue] = {
                "keyline.worker": wait.worker,
                "keyline.attempt": wait.attempt,
                "keyline.hash_slot": wait.slot,
                "messaging.batch.message_count": wait.messages,
                "keyline.reasons": reasons,
            }
            span = self._tracer.start_span("wait", below, attributes=facts, start_time=nanoseconds(wait.since))
            span.end(nanoseconds(wait.until))
        for hold in passage.holds:
            facts = {
                "keyline.worker": hold.worker,
                "keyline.attempt": hold.attempt,
                "keyline.ended": hold.ended,
                "messaging.batch.message_count": hold.messages,
            }
            span = self._tracer.start_span("pending ack", below, attributes=facts, start_time=nanoseconds(hold.since))
            span.end(nanoseconds(hold.until))
        whole.end(nanoseconds(passage.ended_at))
        return self._ended.taken()


def _span_context(context: Context) -> SpanContext | None:
    """The producer's span; None if the properties name none."""
    carrier = {"traceparent": context.traceparent, "tracestate": context.tracestate}
    found = get_current_span(_propagator.extract(carrier, OtelContext())).get_span_context()
    return found if found.is_valid else None


def _below(producer: SpanContext) -> OtelContext:
    return set_span_in_context(NonRecordingSpan(producer), OtelContext())


def _trace_id(passage: Passage) -> int:
    """Of an entry without a producer's; never 0, which is no id."""
    text = f"{passage.topic} {passage.ledger}:{passage.entry}"
    return int.from_bytes(blake2b(text.encode(errors="replace"), digest_size=TRACE_ID_BYTES).digest()) or 1


class _Ids(RandomIdGenerator):
    """Random ones, but for the next trace's."""

    trace_id = 1

    def generate_trace_id(self) -> int:
        """For a trace that begins here."""
        return self.trace_id


class _Ended(SpanProcessor):
    """Keeps spans that have ended until they are taken."""

    def __init__(self) -> None:
        """None yet."""
        self._spans: list[ReadableSpan] = []

    def on_end(self, span: ReadableSpan) -> None:
        """One has."""
        self._spans.append(span)

    def taken(self) -> list[ReadableSpan]:
        """All of them, once."""
        spans, self._spans = self._spans, []
        return spans
