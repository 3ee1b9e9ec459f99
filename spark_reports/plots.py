"""Plots of a report, as SVG that stands in its page: each of one subscription's rows of one result."""

from __future__ import annotations

import io
import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import matplotlib as mpl
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter, date2num
from matplotlib.figure import Figure
from matplotlib.ticker import LogFormatter, MaxNLocator

from proxy.printable import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from matplotlib.axes import Axes

    Row = Mapping[str, Any]

WIDTH_IN: Final = 9.5
COLOURS: Final = ("#1b5cc0", "#c05a00", "#1c6b3c", "#8a2f8a", "#b3202a", "#00798a", "#6b5b00", "#595e66")
"""Told apart by most people, also on paper."""
INK, SOFT, EDGE, GRID, BAR = "#1a1c1f", "#3a3f45", "#8a8f96", "#e4e4e0", "#b9bdc3"
NAMES: Final = {INK: "--ink", SOFT: "--soft", EDGE: "--edge", GRID: "--grid", BAR: "--bar"} | {
    colour: f"--c{place}" for place, colour in enumerate(COLOURS)
}
"""What the page calls them."""
NAMED_MAX: Final = len(COLOURS) - 1
"""Workers with a colour of their own; the rest share the last."""
NAME_CHARACTERS_MAX: Final = 40
"""Of a name that is drawn: one may have thousands, and leaves no room for what it names then."""
STYLE: Final[dict[Any, Any]] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "keyline",
    "font.family": "sans-serif",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": GRID,
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "axes.edgecolor": EDGE,
    "text.color": INK,
    "text.parse_math": False,  # clients choose names, and a dollar in one begins no formula
    "axes.labelcolor": SOFT,
    "xtick.color": SOFT,
    "ytick.color": SOFT,
}


def plot(name: str, rows: Sequence[Row]) -> str:
    """The SVG of a plot in `PLOTS`; empty if there is nothing to draw."""
    if not rows:
        return ""
    with mpl.rc_context(STYLE):
        height, draw = PLOTS[name]
        figure = Figure(figsize=(WIDTH_IN, height), layout="constrained")
        draw(figure, rows)
        return _svg(figure)


def _svg(figure: Figure) -> str:
    """With the page's colours by their names, so that it is right on a dark page too."""
    out = io.StringIO()
    figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None}, transparent=True)
    text = re.sub(
        "#[0-9a-f]{6}", lambda found: f"var({NAMES[found[0]]})" if found[0] in NAMES else found[0], out.getvalue()
    )
    return re.sub(
        r'(<svg [^>]*?)width="[^"]*pt"|(?<=<svg )height="[^"]*pt" ', r"\1", text[text.index("<svg") :], count=1
    )


def _drain_timeline(figure: Figure, rows: Sequence[Row]) -> None:
    axes = figure.subplots()
    for label, colour, of_one in _by_worker(rows):
        began = [_date(row["began_wall_ns"]) for row in of_one]
        ended = [_date(row["ended_wall_ns"]) for row in of_one]
        slots = [row["slot"] for row in of_one]
        axes.hlines(slots, began, ended, colors=colour, linewidth=2.2, label=_shown(label))
        axes.plot(ended, slots, linestyle="none", marker="|", markersize=3, color=colour)
    axes.set_ylabel("hash slot")
    axes.set_ylim(0, 65_536)
    _over_time(axes)
    _legend(axes, "until it let go")


def _shares(figure: Figure, rows: Sequence[Row]) -> None:
    axes = figure.subplots()
    shown = sorted(rows, key=lambda row: -row["traffic_share"])[:24]
    places = range(len(shown))
    axes.bar([place - 0.2 for place in places], [100 * row["traffic_share"] for row in shown], 0.38, color=COLOURS[0])
    axes.bar([place + 0.2 for place in places], [100 * row["slots_share"] for row in shown], 0.38, color=BAR)
    names = [_shown(row["consumer"]) for row in shown]
    axes.set_xticks(list(places), names, rotation=0 if len(shown) <= NAMED_MAX else 60)
    axes.grid(visible=False, axis="x")
    axes.set_ylabel("share, %")
    named = ["of the traffic", "of the slots that were seen"]
    axes.legend(named, frameon=False, loc="lower right", bbox_to_anchor=(1, 1), ncols=2)  # above: bars may be anywhere


def _curve(figure: Figure, rows: Sequence[Row]) -> None:
    axes = figure.subplots()
    keys, messages = ([100 * row[name] for row in rows] for name in ("keys_share", "messages_share"))
    axes.plot([0, 100], [0, 100], color=EDGE, linestyle="--", linewidth=1, label="all keys alike")
    axes.plot(keys, messages, color=COLOURS[0], linewidth=2, label="as it was")
    axes.fill_between(keys, messages, keys, color=COLOURS[0], alpha=0.08)
    axes.set_xlabel("keys, those with fewest messages first, %")
    axes.set_ylabel("messages, %")
    axes.set_xlim(0, 100)
    axes.set_ylim(0, 100)
    _legend(axes, None)


def _latency(figure: Figure, rows: Sequence[Row]) -> None:
    both = figure.subplots(1, 2, sharey=True)
    times = [_date(row["window_start_ns"]) for row in rows]
    for axes, what in zip(both, ("waiting", "processing"), strict=True):
        for place, quantile in enumerate(("p50", "p95", "p99")):
            values = [_positive(row[f"{what}_{quantile}_ms"]) for row in rows]
            axes.plot(times, values, color=COLOURS[place], linewidth=1.6, marker=".", markersize=3, label=quantile)
        axes.set_yscale("log")
        for axis_formatter in (axes.yaxis.set_major_formatter, axes.yaxis.set_minor_formatter):
            axis_formatter(LogFormatter(labelOnlyBase=False, minor_thresholds=(2, 1)))
        axes.set_title(f"{what}, ms", loc="left", fontsize=9)
        _over_time(axes)
    _legend(both[0], None)


def _rates(figure: Figure, rows: Sequence[Row]) -> None:
    axes = figure.subplots()
    whole = [row for row in rows if row["consumer"] is None]
    times = [_date(row["window_start_ns"]) for row in whole]
    for place, name in enumerate(("arrived", "acked", "returned")):
        values = [row[name] or 0 for row in whole]
        axes.plot(times, values, color=COLOURS[place], linewidth=1.6, marker=".", markersize=3, label=name)
    axes.set_ylabel("messages in each step")
    axes.set_ylim(bottom=0)
    _over_time(axes)
    _legend(axes, None)


def _draining(figure: Figure, rows: Sequence[Row]) -> None:
    """What drains at a sample, and how many have since the one before: short drains are between two samples."""
    axes = figure.subplots()
    cleared = _increments([row for row in rows if row["consumer"] is None and row["name"].endswith("_cleared_total")])
    if cleared:
        bars = axes.vlines([_date(at) for at in cleared], 0, list(cleared.values()), color=BAR, linewidth=6)
        bars.set_label("slots that drained since the sample before")
    gauges = [row for row in rows if row["consumer"] is None and not row["name"].endswith("_total")]
    lines = sorted({(row["name"].removeprefix("keyline_subscription_"), row["gateway"]) for row in gauges})
    for place, (name, gateway) in enumerate(lines):
        of_one = [row for row in gauges if row["name"].endswith(f"_{name}") and row["gateway"] == gateway]
        axes.plot(
            [_date(row["wall_ns"]) for row in of_one],
            [row["value"] for row in of_one],
            color=COLOURS[min(place, NAMED_MAX)],
            linewidth=1.6,
            label=f"{name.replace('_', ' ')}, {gateway}" if place <= NAMED_MAX else None,
        )
    highest = max([*cleared.values(), *(row["value"] for row in gauges)], default=0.0)
    axes.set_ylim(0, max(1.0, 1.05 * highest))
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    _over_time(axes)
    axes.legend(frameon=False, loc="lower left", bbox_to_anchor=(0, 1), ncols=3)  # above: bars may be anywhere


def _increments(rows: Sequence[Row]) -> dict[int, float]:
    """By the wall clock: what counters have grown since their sample before, where they have; all gateways'."""
    found: dict[int, float] = {}
    before: dict[str, float] = {}
    for row in sorted(rows, key=lambda one: int(one["wall_ns"])):
        value, last = row["value"], before.get(row["life"], 0.0)
        before[row["life"]] = value
        if grown := value - last if value >= last else value:
            found[row["wall_ns"]] = found.get(row["wall_ns"], 0.0) + grown
    return found


PLOTS: Final[dict[str, tuple[float, Callable[[Figure, Sequence[Row]], None]]]] = {
    "drain_timeline": (3.6, _drain_timeline),
    "key_shares": (2.8, _shares),
    "key_curve": (3.2, _curve),
    "latency_over_time": (3.0, _latency),
    "rates": (2.6, _rates),
    "draining": (2.4, _draining),
}
"""By the result that they draw: height in inches, and how."""

CAPTIONS: Final = {
    "drain_timeline": "Each line is a slot that drained, from when it began to when the last message was acknowledged.",
    "key_shares": "A worker whose blue bar is the higher one has the busier keys.",
    "key_curve": "The further the curve is below the dashed line, the more few keys have.",
    "latency_over_time": "Quantiles of the messages that were sent in each step.",
    "rates": "Messages that came to the subscription, and what its workers made of them.",
    "draining": "Slots that drain, those that did, and messages of draining slots, as the gateways exported it.",
}


def _by_worker(rows: Sequence[Row]) -> list[tuple[str, str, list[Row]]]:
    """Name, colour and rows: those with most rows each with its own, then all others together."""
    of_each: dict[str, list[Row]] = {}
    for row in rows:
        of_each.setdefault(row["holder"], []).append(row)
    ranked = sorted(of_each, key=lambda name: (-len(of_each[name]), name))
    named = [(name, COLOURS[place], of_each[name]) for place, name in enumerate(ranked[:NAMED_MAX])]
    rest = [row for name in ranked[NAMED_MAX:] for row in of_each[name]]
    return [*named, ("others", COLOURS[-1], rest)] if rest else named


def _shown(name: str) -> str:
    """A name that a client chose, in a line of its own: a legend leaves out those that begin with an underscore."""
    text = printable(name[:NAME_CHARACTERS_MAX])
    return f" {text}" if text.startswith("_") else text


def _over_time(axes: Axes) -> None:
    # With three marks at least, minutes are marks from the third on: seconds would be too many until the fifth.
    locator = AutoDateLocator(minticks=3, maxticks=8)  # type: ignore[no-untyped-call]  # matplotlib's dates have no types
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(ConciseDateFormatter(locator, tz=UTC))  # type: ignore[no-untyped-call]  # likewise


def _legend(axes: Axes, title: str | None) -> None:
    if axes.get_legend_handles_labels()[0]:
        axes.legend(frameon=False, title=title, loc="best", ncols=2)


def _date(wall_ns: int) -> float:
    return float(date2num(datetime.fromtimestamp(wall_ns / 1e9, UTC)))  # type: ignore[no-untyped-call]  # likewise


def _positive(value: float | None) -> float:
    """What a logarithmic axis can show."""
    return float("nan") if value is None else max(value, 1e-3)
