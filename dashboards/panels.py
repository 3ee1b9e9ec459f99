"""The shapes that most panels have: one number now, a line for each query, for each of the worst subscriptions."""

from __future__ import annotations

from collections.abc import Sequence

from dashboards.grafana import NO_LIMIT, Panel, Query, Thresholds
from dashboards.promql import SERIES_MAX, subscription


def stat(
    title: str,
    description: str,
    unit: str,
    thresholds: Thresholds,
    expression: str,
    *,
    width: int = 4,
    texts: Sequence[tuple[int, str, str]] = (),
) -> Panel:
    """One number, as it is now."""
    queries = (Query(expression, title),)
    return Panel(title, description, unit, thresholds, queries, kind="stat", width=width, height=4, texts=texts)


def worst(
    title: str, description: str, metric: str, *, unit: str = "short", thresholds: Thresholds = NO_LIMIT
) -> Panel:
    """The subscriptions where a gauge is highest; the highest of their gateways'."""
    series = subscription(f"keyline_subscription_{metric}")
    expression = f"topk({SERIES_MAX}, max by (topic, subscription) ({series}))"
    queries = (Query(expression, "{{topic}} {{subscription}}"),)
    return Panel(title, f"{description} The {SERIES_MAX} highest.", unit, thresholds, queries)


def lines(
    title: str,
    description: str,
    unit: str,
    *queries: tuple[str, str],
    width: int = 12,
    thresholds: Thresholds = NO_LIMIT,
) -> Panel:
    """A line for each query, or for each of its series; queries are legend and expression."""
    made = tuple(Query(expression, legend) for legend, expression in queries)
    return Panel(title, description, unit, thresholds, made, width=width)
