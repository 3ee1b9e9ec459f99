"""What a plot has in it is what the rows say, and what was different is seen to be."""

from __future__ import annotations

import re
from html import unescape
from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from proxy.printable import printable
from spark_reports.plots import NAME_CHARACTERS_MAX, PLOTS, plot

SECOND_NS = 1_000_000_000
SEEN = 0.2
"""Of a plot's height: what is drawn reaches over more."""


def at(second: int) -> int:
    """A moment of the wall clock."""
    return 1_800_000_000 * SECOND_NS + second * SECOND_NS


def sample(second: int, name: str, value: float) -> dict[str, Any]:
    """Of a metric of the subscription."""
    named = f"keyline_subscription_{name}"
    return {"wall_ns": at(second), "name": named, "value": value, "gateway": "gw", "life": "one", "consumer": None}


ROWS: dict[str, list[dict[str, Any]]] = {
    "rates": [
        {"window_start_ns": at(step), "consumer": name, "arrived": arrived, "acked": acked, "returned": None}
        for step, arrived, acked in ((0, 4, 1), (1, 40, 20), (2, 0, 23))
        for name in (None, "w1")
    ],
    "draining": [
        *(sample(second, "draining_hashes", value) for second, value in ((0, 0.0), (10, 3.0), (20, 1.0))),
        *(sample(second, "draining_hashes_cleared_total", value) for second, value in ((0, 0.0), (10, 0.0), (20, 7.0))),
    ],
    "latency_over_time": [
        {"window_start_ns": at(step)}
        | {
            f"{what}_{quantile}_ms": value * times
            for what, times in (("waiting", 1.0), ("processing", 10.0))
            for quantile, value in zip(("p50", "p95", "p99"), values, strict=True)
        }
        for step, values in enumerate(((1.0, 2.0, 4.0), (3.0, 30.0, 300.0)))
    ],
    "drain_timeline": [
        {"slot": slot, "holder": "w1", "began_wall_ns": at(began), "ended_wall_ns": at(ended)}
        for slot, began, ended in ((100, 0, 5), (60_000, 2, 4))
    ],
    "key_shares": [
        {"consumer": name, "traffic_share": traffic, "slots_share": 0.5} for name, traffic in (("w1", 0.9), ("w2", 0.1))
    ],
    "key_curve": [
        {"keys_share": keys, "messages_share": messages} for keys, messages in ((0.0, 0.0), (0.9, 0.2), (1.0, 1.0))
    ],
}


def drawn(name: str) -> list[Axes]:
    """Its plots."""
    figure = Figure()
    PLOTS[name][1](figure, ROWS[name])
    return figure.axes


def values(axes: Axes) -> dict[str, list[float]]:
    """Of each line, from left to right."""
    return {str(line.get_label()): np.asarray(line.get_ydata()).tolist() for line in axes.lines}


def segments(axes: Axes) -> list[list[list[float]]]:
    """Lines that are drawn one by one, each with its two ends."""
    found = [each for each in axes.collections if isinstance(each, LineCollection)]
    return [np.asarray(segment).tolist() for each in found for segment in each.get_segments()]


def test_rates_are_those_of_the_subscription() -> None:
    """Not of each worker, which would be drawn over them; what is not known is none."""
    (axes,) = drawn("rates")
    assert values(axes) == {"arrived": [4, 40, 0], "acked": [1, 20, 23], "returned": [0, 0, 0]}


def test_drains_between_two_samples_are_drawn() -> None:
    """Counters by what they have grown, gauges as they stood."""
    (axes,) = drawn("draining")
    assert values(axes) == {"draining hashes, gw": [0.0, 3.0, 1.0]}
    assert [[low, high] for (_, low), (_, high) in segments(axes)] == [[0.0, 7.0]]


def test_each_quantile_of_a_latency_is_a_line() -> None:
    """In milliseconds, beside each other."""
    waiting, processing = drawn("latency_over_time")
    assert values(waiting) == {"p50": [1.0, 3.0], "p95": [2.0, 30.0], "p99": [4.0, 300.0]}
    assert values(processing) == {"p50": [10.0, 30.0], "p95": [20.0, 300.0], "p99": [40.0, 3_000.0]}


def test_a_drain_is_as_long_as_it_took() -> None:
    """At the height of its slot."""
    (axes,) = drawn("drain_timeline")
    ends = [(low, round((right - left) * 86_400), high) for (left, low), (right, high) in segments(axes)]
    assert ends == [(100, 5, 100), (60_000, 2, 60_000)]


def test_shares_and_the_curve_are_in_percent() -> None:
    """A worker's traffic beside its slots; the curve below the line of keys that are all alike."""
    (shares,) = drawn("key_shares")
    assert [round(bar.get_height()) for bar in shares.patches] == [90, 10, 50, 50]  # type: ignore[attr-defined]  # bars
    (curve,) = drawn("key_curve")
    assert values(curve)["as it was"] == [0.0, 20.0, 100.0]


@pytest.mark.parametrize("name", PLOTS)
def test_no_plot_is_flat(name: str) -> None:
    """What differs is at different heights, and not all of it at one edge; so is the page's picture of it."""
    for axes in drawn(name):
        points = [np.asarray(line.get_xydata()) for line in axes.lines if line.get_linestyle() == "-"]
        points += [np.array(segment) for segment in segments(axes)]
        points += [bar.get_corners() for bar in axes.patches]  # type: ignore[attr-defined]  # likewise
        heights = axes.transAxes.inverted().transform(axes.transData.transform(np.concatenate(points)))[:, 1]
        assert np.ptp(heights[np.isfinite(heights)]) >= SEEN
    assert plot(name, ROWS[name]).startswith("<svg")


@pytest.mark.parametrize("name", [r"$\frac$", "$x^$", "_", "_hidden", "<b>&", "two\nlines", "\x1b[2J", "x" * 2_000])
@pytest.mark.parametrize(("drawing", "field"), [("drain_timeline", "holder"), ("key_shares", "consumer")])
@pytest.mark.filterwarnings("error")
def test_a_name_is_drawn_whatever_a_client_chose(drawing: str, field: str, name: str) -> None:
    """In one line, cut if it is long: it is no formula, which may be a wrong one, and no mark-up."""
    texts = re.findall("<text[^>]*>([^<]*)</text>", plot(drawing, [{**row, field: name} for row in ROWS[drawing]]))
    assert printable(name[:NAME_CHARACTERS_MAX]) in {unescape(text).strip() for text in texts}


@pytest.mark.parametrize("length_s", [0.0, 1e-3, 0.7, 50.0, 200.0, 290.0, 5_000.0, 20_000.0, 1e6])
def test_time_of_any_length_has_marks(length_s: float) -> None:
    """Some and not too many, and matplotlib has nothing to complain of; between three and five minutes it had."""
    rows = [
        {
            "window_start_ns": at(0) + int(share * length_s * SECOND_NS),
            **dict.fromkeys(("arrived", "acked", "returned")),
        }
        for share in (0.0, 0.4, 1.0)
    ]
    figure = Figure()
    PLOTS["rates"][1](figure, [{**row, "consumer": None} for row in rows])
    (axes,) = figure.axes
    low, high = axes.get_xlim()
    assert 2 <= sum(low <= mark <= high for mark in axes.xaxis.get_majorticklocs()) <= 9
