"""Draws the demo: a live screen on a terminal, plain lines in a pipe. Both say the same things.

A flood of hand-overs (dozens within a second after a worker joined) is told as a few lines and a sum; a screen that
scrolls faster than one reads explains nothing.
"""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING, Final, Protocol

from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from integration.demo.scene import Scene

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import RenderableType

    from integration.demo.scene import HandOverView, ReplicaView, WorkerView

LINES_KEPT: Final = 12
WAITS_SHOWN_MAX: Final = 5
HAND_OVERS_TOLD_MAX: Final = 2
"""Per look at the gateway; the rest is summed up."""
PLAIN_INTERVAL_S: Final = 2.0
SHARE_WIDTH: Final = 24

WHAT_IT_IS: Final = (
    "Messages carry a key (an order number, say). All messages of a key must be handled in order, so Keyline gives "
    "each key to one worker. When workers come and go, keys move. A key moves only when its old worker has "
    "acknowledged (finished) what it has of it: until then the key [b]drains[/b], and its newer messages wait."
)


class Display(Protocol):
    """Something that shows the demo."""

    def say(self, sentence: str) -> None:
        """Tell one thing that happened."""

    def show(self, scene: Scene, sent: int, delivered: int) -> None:
        """Show how things stand."""


def tell_hand_overs(hand_overs: Iterable[HandOverView]) -> list[str]:
    """Return a line for each of the hand-overs that made most wait, and one for all the rest."""
    first = sorted(hand_overs, key=lambda item: (-item.waiting, -item.seconds))
    lines = [_tell(item) for item in first[:HAND_OVERS_TOLD_MAX]]
    rest = first[HAND_OVERS_TOLD_MAX:]
    if rest:
        waiting = sum(item.waiting for item in rest)
        lines.append(f"  and {_count(len(rest), 'more key')} moved in the same way, {_waited(waiting)}.")
    return lines


def _tell(item: HandOverView) -> str:
    done = f"{item.holder} finished it after {item.seconds * 1e3:.0f} ms"
    return f"  {item.keys} moves: {done}, {_waited(item.waiting)}, now {item.owner} has it."


def _waited(messages: int) -> str:
    return f"{_count(messages, 'message')} had to wait" if messages else "nothing had to wait"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


class PlainDisplay:
    """Lines with the time, for pipes and logs."""

    def __init__(self, console: Console) -> None:
        """Start the clock."""
        self._console = console
        self._began = time.monotonic()
        self._shown_at = 0.0

    def say(self, sentence: str) -> None:
        """Print it."""
        self._console.print(f"{time.monotonic() - self._began:6.1f} s  {sentence}", markup=False, soft_wrap=True)

    def show(self, scene: Scene, sent: int, delivered: int) -> None:
        """Print a line of numbers every two seconds."""
        if time.monotonic() - self._shown_at < PLAIN_INTERVAL_S:
            return
        self._shown_at = time.monotonic()
        workers = ", ".join(map(_share, scene.workers)) or "none"
        if scene.replicas:
            self.say("gateways: " + ", ".join(map(_replica, scene.replicas)) + ".")
        self.say(f"keys at: {workers}. Sent {sent:,}, delivered {delivered:,}.")
        if scene.waits:
            first = scene.waits[0]
            self.say(
                f"  {_count(len(scene.waits), 'key')} draining, {_count(scene.held_back, 'message')} held back. "
                f"Longest: {first.keys}, for {first.seconds * 1e3:.0f} ms, until {first.holder} is done with it."
            )


def _share(worker: WorkerView) -> str:
    return f"{worker.name} {worker.share:.0%}{worker.replica and f' (via {worker.replica})'}"


def _replica(replica: ReplicaView) -> str:
    if not replica.bundles_count:
        return f"{replica.name} {replica.state}"
    roles = [words for words, has in (("leads", replica.leads), ("owns the subscription", replica.owns)) if has]
    told = f" ({', '.join(roles)})" if roles else ""
    return f"{replica.name} {replica.bundles} of {replica.bundles_count} bundles{told}"


class LiveDisplay:
    """A screen that is redrawn in place. Use it as the target of a `rich.live.Live`."""

    def __init__(self, live: Live) -> None:
        """Start with an empty screen."""
        self._live = live
        self._began = time.monotonic()
        self._lines: deque[str] = deque(maxlen=LINES_KEPT)
        self._scene = Scene()
        self._sent = 0
        self._delivered = 0

    def say(self, sentence: str) -> None:
        """Add a line to those shown."""
        self._lines.append(f"{time.monotonic() - self._began:6.1f} s  {sentence}")
        self._draw()

    def show(self, scene: Scene, sent: int, delivered: int) -> None:
        """Redraw everything."""
        self._scene, self._sent, self._delivered = scene, sent, delivered
        self._draw()

    def _draw(self) -> None:
        counts = Text.assemble(
            ("Sent ", "dim"), f"{self._sent:,}", ("   delivered ", "dim"), f"{self._delivered:,}",
            ("   keys handed over ", "dim"), f"{self._scene.hand_over_count:,}",
            ("   messages held back now ", "dim"), f"{self._scene.held_back:,}",
        )  # fmt: skip
        log = Text("\n".join(self._lines), no_wrap=True, overflow="ellipsis")
        self._live.update(
            Group(
                *_replicas(self._scene),
                Panel(_workers(self._scene), title="Workers", title_align="left", border_style="blue"),
                Panel(
                    _waits(self._scene),
                    title="Keys that drain at their old worker",
                    title_align="left",
                    border_style="yellow",
                ),
                Panel(log, title="What happens", title_align="left", border_style="dim", height=LINES_KEPT + 2),
                counts,
            ),
            refresh=True,
        )


def _replicas(scene: Scene) -> list[RenderableType]:
    """A panel for them, where there are several."""
    if not scene.replicas:
        return []
    table = Table(box=None, expand=True)
    for title in ("replica", "bundles", "", "state", "", ""):
        table.add_column(title, style="bold" if title == "replica" else "")
    for each in scene.replicas:
        bar = ProgressBar(
            total=each.bundles_count or 1, completed=each.bundles, width=SHARE_WIDTH, complete_style="cyan"
        )
        part = f"{each.bundles:,} of {each.bundles_count:,}" if each.bundles_count else "-"
        owns = Text("owns the subscription" if each.owns else "", style="green")
        table.add_row(each.name, bar, part, each.state, "leads" if each.leads else "", owns)
    return [Panel(table, title="Gateways", title_align="left", border_style="cyan")]


def _workers(scene: Scene) -> RenderableType:
    table = Table(box=None, expand=True)
    table.add_column("worker", style="bold")
    if scene.replicas:
        table.add_column("connected to")
    table.add_column("share of the keys", width=SHARE_WIDTH)
    for title in ("", "messages in hand", "finished", "keys draining"):
        table.add_column(title, justify="right")
    for worker in scene.workers:
        bar = ProgressBar(total=1.0, completed=worker.share, width=SHARE_WIDTH, complete_style="green")
        draining = Text(str(worker.draining), style="yellow" if worker.draining else "dim")
        at = [worker.replica] if scene.replicas else []
        numbers = f"{worker.share:.0%}", f"{worker.in_hand:,}", f"{worker.done:,}"
        table.add_row(worker.name, *at, bar, *numbers, draining)
    return table


def _waits(scene: Scene) -> RenderableType:
    table = Table(box=None, expand=True)
    for title in ("key", "must be finished at", "goes to"):
        table.add_column(title)
    table.add_column("held back", justify="right")
    table.add_column("for", justify="right")
    for wait in scene.waits[:WAITS_SHOWN_MAX]:
        at = f"{wait.holder} ({_count(wait.in_hand, 'message')} in hand)"
        table.add_row(wait.keys, at, wait.owner, _count(wait.waiting, "message"), f"{wait.seconds * 1e3:.0f} ms")
    missing = WAITS_SHOWN_MAX - len(scene.waits)
    for _ in range(missing):
        table.add_row("")
    more = Text(f"and {-missing} more" if missing < 0 else "", style="dim")
    return Group(table, more)
