"""The demo from start to end: set the stage, play the story, let everything finish, judge.

Ctrl-C at any time leaves no process behind: every process is owned by a context, and should we be killed ourselves,
its guard ends it (`integration.processes`). While the story plays, the first Ctrl-C ends it early and the audit still
comes; a second one ends everything at once.
"""

from __future__ import annotations

import argparse
import logging
import shutil
import sys
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.live import Live
from rich.panel import Panel

from integration import artifacts
from integration.command_line import interrupt_on_termination
from integration.demo import story
from integration.demo.cluster import Cluster, ClusterSource, replica_name
from integration.demo.view import WHAT_IT_IS, Display, LiveDisplay, PlainDisplay, tell_hand_overs
from integration.errors import IntegrationError
from integration.load.options import Batching
from integration.load.producer import ProducerThread
from integration.load.report import audit_lines, audit_table
from integration.load.run import LoadRun
from integration.locks import exclusive_lock
from integration.ports import free_ports, is_free
from integration.standalone import PulsarStandalone

if TYPE_CHECKING:
    from collections.abc import Iterator

    from integration.load.audit import AuditResult

STATE: Final = Path(".demo")
TOPIC: Final = "persistent://public/default/orders"
KEYS: Final = 100
SKEW: Final = 0.8
"""Zipf's exponent: the first key has a tenth of all messages, as orders have large customers."""
RATE_PER_S: Final = 150.0
"""Of each of the two producers: as much as three workers manage without hurry on a small machine."""
BATCH_DELAY_MS: Final = 50
"""Of clients it is 1 to 10 by default: so that a batch has several keys at a rate this low."""
LOOK_INTERVAL_S: Final = 0.25
PORTS: Final = {"pulsar": 6650, "pulsar web": 8080, "gateway": 6660, "gateway admin": 8750}


def main(arguments: list[str] | None = None) -> int:
    """Run the demo and return the exit code: 0 if every promise was kept, 1 if not, 130 if it was broken off."""
    parser = argparse.ArgumentParser(prog="python -m integration.demo", description="Watch Keyline keep keys in order.")
    parser.add_argument("--seconds", type=float, help="length of the story; without it, it goes on until Ctrl-C")
    parser.add_argument("--replicas", type=int, default=1, choices=range(1, 10), help="gateways that share the work")
    parser.add_argument("--version", default=artifacts.DEFAULT_VERSION, help="of Pulsar")
    options = parser.parse_args(arguments)
    console = Console()
    interrupt_on_termination()
    try:
        STATE.mkdir(exist_ok=True)
        with exclusive_lock(STATE / "lock", "another demo runs in this directory; waiting for its end"):
            return Demo(console, options.version, options.replicas).run(options.seconds)
    except IntegrationError as error:
        console.print(f"error: {error}", style="red", markup=False)
        return 1
    except KeyboardInterrupt:
        console.print("Broken off. Nothing is left running.")
        return 130


class Demo:
    """One performance."""

    def __init__(self, console: Console, version: str, replicas: int) -> None:
        """Prepare; nothing is started yet."""
        self._console = console
        self._version = version
        self._replicas = replicas

    def run(self, seconds: float | None) -> int:
        """Play it and return the exit code."""
        _clear_state()
        self._console.print(Panel(WHAT_IT_IS, title="Keyline", title_align="left"))
        with ExitStack() as stage:
            broker = self._start_broker(stage)
            cluster = self._start_gateways(stage, broker)
            # A producer whose gateway is killed may send twice what was not confirmed: here it is about workers.
            producer_url = broker.service_url if cluster.shared else cluster.service_url
            run = stage.enter_context(LoadRun(STATE / "load", cluster.service_url, TOPIC, producer_url=producer_url))
            self._say(f"Three workers join: {', '.join(story.FIRST_WORKERS)}. They are ordinary Pulsar clients.")
            story.first_workers(run, cluster)
            for _ in range(2):
                run.produce(
                    in_process=False,
                    keys=KEYS,
                    skew=SKEW,
                    rate_per_s=RATE_PER_S,
                    batching=Batching.DEFAULT,
                    batch_delay_ms=BATCH_DELAY_MS,
                )
            self._say(
                f"Two producers send {2 * RATE_PER_S:.0f} messages a second with {KEYS} different keys, in batches of "
                "many keys, as clients make them by default."
            )
            with self._display() as display:
                Performance(display, cluster, run).play(seconds)
                result = finish(display, run)
        return self._judge(result)

    def _start_broker(self, stage: ExitStack) -> PulsarStandalone:
        # Fetched first, in order that the time of a download is not taken for the broker's start.
        artifacts.ensure(artifacts.broker(self._version))
        self._say(f"Starting a real Apache Pulsar {self._version}. This takes 10 to 30 seconds.")
        port, web_port = _port("pulsar"), _port("pulsar web")
        broker = PulsarStandalone(self._version, data=(STATE / "pulsar").absolute(), port=port, web_port=web_port)
        stage.enter_context(broker)
        self._say(f"Pulsar is ready at {broker.service_url}.")
        return broker

    def _start_gateways(self, stage: ExitStack, broker: PulsarStandalone) -> Cluster:
        others = self._replicas - 1
        free = free_ports(2 * others + self._replicas)
        ports = [
            (_port("gateway"), _port("gateway admin")),
            *zip(free[:others], free[others : 2 * others], strict=True),
        ]
        cluster = Cluster(broker, STATE, ports, free[2 * others :])
        cluster.start(stage)
        if cluster.shared:
            self._say(f"{self._replicas} Keyline gateways are ready, which share the work: {cluster.service_url}.")
        else:
            self._say(f"The Keyline gateway is ready at {cluster.service_url}: the one line that a client changes.")
        return cluster

    @contextmanager
    def _display(self) -> Iterator[Display]:
        if not self._console.is_terminal:
            yield PlainDisplay(self._console)
            return
        with Live(console=self._console, auto_refresh=False, vertical_overflow="crop") as live:
            yield LiveDisplay(live)

    def _judge(self, result: AuditResult) -> int:
        if self._console.is_terminal:
            self._console.print(audit_table(result))
        else:
            for line in audit_lines(result):
                self._console.print(line, markup=False, soft_wrap=True)
        if result.ok:
            self._console.print(
                "Every message was delivered, every key in order and at one worker at a time.", style="bold green"
            )
            return 0
        self._console.print(f"A promise was broken. Everything is on record in {STATE}.", style="bold red")
        return 1

    def _say(self, sentence: str) -> None:
        self._console.print(sentence, markup=False, soft_wrap=True)


class Performance:
    """The story on the stage: steps in time, and a look at the gateway four times a second."""

    def __init__(self, display: Display, cluster: Cluster, run: LoadRun) -> None:
        """Nothing happens yet."""
        self._display = display
        self._cluster = cluster
        self._run = run
        self._source = ClusterSource(cluster, TOPIC, KEYS)
        self._is_owned = False

    def play(self, seconds: float | None) -> None:
        """Play until the time is over, and at least a whole round, or until Ctrl-C."""
        shared = self._cluster.shared
        period_s = story.period_s(seconds, shared=shared)
        steps, left_of_round = story.steps(shared=shared), story.steps_count(shared=shared)
        step = next(steps)
        began = next_step = time.monotonic()
        next_step += period_s
        try:
            while seconds is None or left_of_round > 0 or time.monotonic() - began < seconds:
                if time.monotonic() >= next_step and self._can_happen(step):
                    self._display.say(step.words.format(owner=replica_name(self._cluster.owner)))
                    step.act(self._run, self._cluster)
                    step = next(steps)
                    left_of_round -= 1
                    # On a busy machine steps are late, and are to be seen one by one nevertheless.
                    next_step = max(next_step + period_s, time.monotonic() + period_s / 2)
                self._look()
                time.sleep(LOOK_INTERVAL_S)
        except KeyboardInterrupt:
            self._display.say("Ctrl-C: the story ends here. Once more ends everything at once.")

    def _can_happen(self, step: story.Step) -> bool:
        """On a busy machine the one that was restarted may still be on its way, and another not yet the owner."""
        return not step.concerns_owner or (self._is_owned and not self._cluster.restarting)

    def _look(self) -> None:
        self._run.progress.update()
        scene = self._source.scene()
        self._is_owned = any(replica.owns for replica in scene.replicas)
        for line in tell_hand_overs(scene.hand_overs):
            self._display.say(line)
        self._display.show(scene, sent_count(self._run), self._run.progress.acknowledged)


def finish(display: Display, run: LoadRun) -> AuditResult:
    """Let the producers end and the workers finish, and judge."""
    display.say("The producers stop. The workers finish what is left.")
    for producer in run.producers:
        producer.stop()
    result = run.finish(quiet_s_max=30)
    display.say("Everything is finished. The audit compares what was sent with what each worker wrote down.")
    return result


def sent_count(run: LoadRun) -> int:
    """Messages the broker has confirmed so far."""
    return sum(producer.confirmed_count for producer in run.producers if isinstance(producer, ProducerThread))


def _port(name: str) -> int:
    """Return the usual port if nothing listens there, else a free one."""
    usual = PORTS[name]
    return usual if is_free(usual) else free_ports(1)[0]


def _clear_state() -> None:
    for item in STATE.iterdir():
        if item.is_dir():
            shutil.rmtree(item)
        elif item.name != "lock":
            item.unlink()


if __name__ == "__main__":
    # The client library's own log belongs into a file, not between the demo's lines.
    STATE.mkdir(exist_ok=True)
    logging.basicConfig(filename=STATE / "clients.log", level=logging.INFO)
    sys.exit(main())
