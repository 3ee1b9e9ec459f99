"""Where traces of messages go, and of how many."""

from __future__ import annotations

from proxy.config.types import Group, HttpUrl, setting


class Tracing(Group):
    """Traces of sampled messages, for an OpenTelemetry collector; needs the extra `tracing` of the package."""

    tracing_url: HttpUrl | None = setting(
        None,
        "URL of a collector for OTLP over HTTP, such as http://collector:4318/v1/traces. None: no traces. Headers and "
        "certificates by the SDK's own variables (OTEL_EXPORTER_OTLP_HEADERS, OTEL_EXPORTER_OTLP_CERTIFICATE, ...).",
        takes="http:// or https://, then host:port/v1/traces",
    )
    tracing_sample: float = setting(
        0.001, "Share of the entries that are traced, chosen by their ids; a producer that has decided against a trace "
        "of its message is obeyed.",
        unit="of all entries", ge=0, le=1,
    )  # fmt: skip
