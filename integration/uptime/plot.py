"""Draws how much each host owns after each failure, with priorities (above) and without (below)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from matplotlib.axes import Axes

    from integration.uptime.scenario import Record

PRIMARY_COLOURS: Final = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00")
"""Okabe and Ito's, which people with any colour vision tell apart. Further hosts have them again, hatched."""
STANDBY_COLOURS: Final = ("#8A8A8A", "#C4C4C4")
DARK_COLOURS: Final = frozenset({"#0072B2"})
"""On which a black number is hard to read."""
HATCHES: Final = ("", "//", "..", "xx")
LABELLED_SHARE_MIN: Final = 0.035
"""A bar's part that is smaller than this share of all endpoints has no room for its number."""
BAR_WIDTH: Final = 0.62
TITLES: Final = {
    True: "With priorities: the survivors share, the standby waits for the last of them",
    False: "First in, first out: the standby queued first, so all work goes there at once",
}


def draw(records: Sequence[Record], file: Path) -> None:
    """Write one panel for each record to the file; its ending says the format (png, svg)."""
    with mpl.rc_context({"font.size": 10.5, "svg.fonttype": "none"}):
        figure = Figure(figsize=(9.6, 4.1 * len(records) + 0.5), layout="constrained")
        panels = figure.subplots(len(records), 1, sharex=True, squeeze=False)[:, 0]
        for axes, record in zip(panels, records, strict=True):
            _panel(axes, record)
        handles, labels = panels[0].get_legend_handles_labels()
        # From top to bottom, as the bars are stacked.
        figure.legend(handles[::-1], labels[::-1], loc="outside right upper", frameon=False)
        figure.savefig(file, dpi=160)


def _panel(axes: Axes, record: Record) -> None:
    """One stacked bar for each step, primaries below and the standby on top."""
    plan, places = record.plan, range(len(record.steps))
    bottoms = [0] * len(record.steps)
    least = LABELLED_SHARE_MIN * plan.endpoint_count
    for host, colour, hatch in _looks(record):
        loads = record.loads(host)
        bars = axes.bar(places, loads, BAR_WIDTH, bottoms, label=host, color=colour, hatch=hatch, edgecolor="white")
        numbers = [str(load) if load >= least else "" for load in loads]
        axes.bar_label(bars, numbers, label_type="center", color="white" if colour in DARK_COLOURS else "black")
        bottoms = [bottom + load for bottom, load in zip(bottoms, loads, strict=True)]
    axes.set_title(TITLES[record.with_priorities], loc="left", fontweight="bold", pad=10)
    axes.set_ylabel("endpoints owned")
    axes.set_xticks(
        places, [f"{step.failed}\nfails" if step.failed else "before any\nfailure" for step in record.steps]
    )
    axes.tick_params(axis="x", labelbottom=True, length=0)
    axes.set_ylim(0, plan.endpoint_count * 1.02)
    axes.yaxis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 4, 6, 10]))
    axes.spines[["top", "right"]].set_visible(False)


def _looks(record: Record) -> Iterator[tuple[str, str, str]]:
    """Each host with its colour and hatch."""
    for hosts, colours in ((record.plan.primaries, PRIMARY_COLOURS), (record.plan.standbys, STANDBY_COLOURS)):
        for index, host in enumerate(hosts):
            again, place = divmod(index, len(colours))
            yield host, colours[place], HATCHES[again % len(HATCHES)]
