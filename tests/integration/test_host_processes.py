"""Several processes of one host at one address, on a real broker.

They are killed, stand still and fail, and the host is stopped; deliveries are audited from the clients' side.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from dashboards.overview import OVERVIEW
from integration.certificates import Authority
from integration.gateway import KeylineGateway
from integration.load.lives import Cause
from integration.load.options import SUBSCRIPTION, Batching
from integration.load.run import LoadRun
from integration.logs import lines
from integration.ports import LOOPBACK
from integration.standalone import PulsarStandalone
from proxy.cli.admin_client import AdminClient
from tests.integration.busy_replicas import note_standstills
from tests.integration.conditions import eventually
from tests.integration.conftest import explain
from tests.integration.owner_rig import TAKING
from tests.integration.prometheus import EVERYTHING, RULES, Prometheus, interpolated, legend, prometheus

PROCESSES: Final = 2
WORKERS: Final = tuple(f"w{number}" for number in range(6))
MESSAGES: Final = 20_000
KEYS: Final = 300
RATE_PER_S: Final = 2_000.0
BOTH_UP: Final = {"0": 1.0, "1": 1.0}
DOWN: Final = "Processes that do not answer"
"""The panel of this title."""

pytestmark = [pytest.mark.slow, pytest.mark.broker]


@pytest.fixture
def host(pulsar: PulsarStandalone, tmp_path: Path) -> Iterator[Host]:
    """Two processes that serve."""
    with Host(pulsar, tmp_path) as host:
        yield host


class Host(KeylineGateway):
    """A supervisor and its processes."""

    def __init__(self, broker: PulsarStandalone, directory: Path, **settings: str) -> None:
        """The name tells one test's deployment from another's."""
        self.file = directory / "keyline.toml"
        self.file.write_text("")
        settings = {"processes": str(PROCESSES), "replica_name": directory.name, **settings}
        super().__init__(broker.service_url, broker.admin_url, directory, settings=settings)
        self._environment["KEYLINE_CONFIG"] = str(self.file)

    def processes(self) -> list[int]:
        """Ids of the running ones, without the supervisor."""
        children = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
        return [int(pid) for pid in children]

    def said(self, event: str) -> list[dict[str, Any]]:
        """Lines of the log."""
        return [line for line in lines(self.log) if line["event"] == event]

    def started(self, process: int) -> list[int]:
        """Ids that a process has had. One is a child before its line is written."""
        return [line["pid"] for line in self.said("process started") if line["process"] == process]

    def metric(self, name: str) -> dict[str, float]:
        """Of each process; empty while the one that has the connection ends."""
        try:
            text = self._http.get("/metrics").raise_for_status().text
        except httpx.TransportError:
            return {}
        begin = f'{name}{{process="'
        rows = [line.removeprefix(begin) for line in text.splitlines() if line.startswith(begin)]
        return {row.partition('"')[0]: float(row.rpartition(" ")[2]) for row in rows}

    def wait_up(self) -> None:
        """Both processes answer."""
        eventually(lambda: self.metric("keyline_process_up") == BOTH_UP, "both processes")

    def wait_whole(self) -> None:
        """All processes take part."""
        asked = AdminClient(self.admin_url)
        eventually(
            lambda: [row["bundles"] > 0 for row in asked.ask("GET", "/deployment")["replicas"]] == PROCESSES * [True],
            "bundles of each process",
        )


class Load:
    """A subscription with six workers at the address of all processes."""

    def __init__(self, host: Host, run: LoadRun) -> None:
        self.host = host
        self.run = run
        for worker in [run.start_worker(name, **TAKING) for name in WORKERS]:
            worker.wait_joined()

    def produce(self) -> None:
        """As clients do by default: many keys in a batch."""
        self.run.produce(
            count=MESSAGES, keys=KEYS, rate_per_s=RATE_PER_S, batching=Batching.DEFAULT, batch_messages_max=100
        )

    def finish(self, *causes: Cause) -> None:
        """Everything in order and at one worker, and nothing again but for these causes, or for want of CPU."""
        self.run.wait_acknowledged(MESSAGES)
        allowed = {*causes, *note_standstills(self.run, self.host.log)}
        result = self.run.finish()
        assert result.ok, explain(result, self.host)
        assert result.delivered == result.acknowledged == MESSAGES, explain(result, self.host)
        assert set(result.duplicates_by_cause) <= allowed, explain(result, self.host)


@pytest.fixture
def load(pulsar: PulsarStandalone, host: Host, new_topic: Callable[[str], str], tmp_path: Path) -> Iterator[Load]:
    """Workers that have joined."""
    host.wait_whole()
    url = host.service_url
    with LoadRun(tmp_path / "load", url, new_topic("processes"), producer_url=pulsar.service_url) as run:
        yield Load(host, run)


def test_a_process_is_killed_and_the_others_go_on(load: Load) -> None:
    """By SIGKILL, the owner of what is delivered: it comes again in order; another process takes its place.

    The address answers all the time, and shows what happened.
    """
    host = load.host
    path = f"/subscriptions/{load.run.topic.removeprefix('persistent://')}/{SUBSCRIPTION}"
    load.produce()
    load.run.wait_acknowledged(MESSAGES // 3)
    host.wait_up()
    owner = AdminClient(host.admin_url).ask("GET", path)["served_by"]
    number = int(owner.rsplit("-", 2)[1])
    pid = next(line["pid"] for line in host.said("process started") if line["process"] == number)
    load.run.interruption(Cause.GATEWAY_KILLED)
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: host._ready() and pid not in host.processes(), "an address that is ready without the process")
    host.wait_up()
    restarts = {str(each): float(each == number) for each in range(PROCESSES)}
    eventually(lambda: host.metric("keyline_process_restarts_total") == restarts, "one restart of the one")
    load.finish(Cause.GATEWAY_KILLED, Cause.CLIENT_QUEUE, Cause.CONNECTION_LOST)


def test_the_host_is_restarted_under_load(load: Load) -> None:
    """By SIGTERM to all its processes, as a process manager may send it: each drains, and nothing is repeated."""
    host = load.host
    load.produce()
    load.run.wait_acknowledged(MESSAGES // 3)
    load.run.interruption(Cause.GATEWAY_STOPPED)
    processes = host.processes()
    assert host.stop() == 0
    assert not [pid for pid in processes if Path(f"/proc/{pid}").exists()]
    assert [line["drained"] for line in host.said("gateway stopped")] == PROCESSES * [True]
    host.start()
    load.finish(Cause.CLIENT_QUEUE)


def test_a_hang_up_reaches_all_processes_and_those_that_come_later(host: Host) -> None:
    """So does an order to any of them; a mistake changes nothing anywhere."""

    def reloaded() -> list[str]:
        lines = host.said("configuration reloaded")
        return sorted(line["replica"] for line in lines if "workers_max" in line["changed"])

    name = host.file.parent.name
    everyone = sorted([name, *(f"{name}-{number}" for number in range(PROCESSES))])
    host.file.write_text("workers_max = 77\n")
    os.kill(host.pid, signal.SIGHUP)
    eventually(lambda: reloaded() == everyone, "a reload everywhere")
    host.file.write_text("workers_max = 78\n")
    AdminClient(host.admin_url).ask("POST", "/configuration/reload")
    eventually(lambda: reloaded() == sorted(2 * everyone), "a second reload everywhere")
    host.file.write_text("workers_max = 0\n")
    os.kill(host.pid, signal.SIGHUP)
    # the process that an operator asked reads it once more with all others, and may refuse it, too
    eventually(lambda: name in {line["replica"] for line in host.said("configuration not reloaded")}, "a refusal")
    for pid in host.processes():
        os.kill(pid, signal.SIGKILL)
        eventually(lambda pid=pid: pid not in host.processes(), "its end")  # type: ignore[misc]
        host.wait_up()
    asked = AdminClient(host.admin_url)
    assert {asked.ask("GET", "/configuration")["workers_max"]["value"] for _ in range(10)} == {78}


def test_a_process_that_fails_again_and_again_is_started_after_longer_pauses(host: Host) -> None:
    """The other one serves meanwhile, and the host is ready."""
    eventually(lambda: len(host.said("brokers reached")) == PROCESSES, "two processes that are ready each by itself")
    for failures in range(1, 4):
        eventually(lambda count=failures: len(host.started(0)) == count, "its start")  # type: ignore[misc]
        os.kill(host.started(0)[-1], signal.SIGKILL)
        eventually(lambda count=failures: len(host.said("process ended")) == count, "its end")  # type: ignore[misc]
        assert host._ready() or len(host.started(0)) > failures, "the host is not ready while one is away"
    assert [line["again_in_s"] for line in host.said("process ended")] == [1.0, 2.0, 4.0]
    assert {line["reason"] for line in host.said("process ended")} == {"SIGKILL"}


@contextmanager
def watched(host: Host, directory: Path) -> Iterator[Prometheus]:
    """A Prometheus with all rules, whose alerts fire as soon as their expressions hold."""
    directory.mkdir()
    rules = directory / "rules.yml"
    rules.write_text(re.sub(r"for: \d+[mh]", "for: 1s", RULES.read_text()))
    with prometheus(directory / "prometheus", {"keyline": {}}, f"{LOOPBACK}:{host.admin_port}", rules) as running:
        yield running


def shown(watching: Prometheus, title: str = "") -> dict[str, list[tuple[str, float]]]:
    """Lines of the overview's panels that have one for each process, by title: legend and number, in order."""
    found: dict[str, list[tuple[str, float]]] = {}
    for panel in (panel for row in OVERVIEW.rows for panel in row.panels):
        for query in panel.queries:
            if "{{instance}}" in query.legend and panel.title.startswith(title):
                result = watching.now(interpolated(query.expression, EVERYTHING))
                lines = [(legend(query.legend, one["metric"]), float(one["values"][0][1])) for one in result]
                found[panel.title] = sorted([*found.get(panel.title, ()), *lines])
    return found


def has_a_line_for_each(panels: dict[str, list[tuple[str, float]]], lines: list[str]) -> bool:
    """Whether every panel has, whatever it shows of a process; in a failed scrape are none."""
    legends = {title: [name for name, _ in found] for title, found in panels.items()}
    both = legends.pop("Memory", None) == [f"{line} {what}" for line in lines for what in ("held", "resident")]
    return (
        both
        and set(legends) >= {"Processor", "Uptime", DOWN, "Restarts"}
        and all(found == lines for found in legends.values())
    )


def test_a_process_that_cannot_be_started_again_is_told_of_by_alerts_and_panels(
    pulsar: PulsarStandalone, tmp_path: Path
) -> None:
    """They name it; alerts end with its trouble. Before, every rule can be evaluated and neither fires."""
    signed = Authority(tmp_path / "certificates").sign("gateway", "localhost")
    files = {"tls_certificate_file": str(signed.certificate), "tls_key_file": str(signed.key)}
    about, both = 'ALERTS{alertname=~"KeylineProcess.*", alertstate="firing"}', "sum(keyline_process_up) == 2"
    with Host(pulsar, tmp_path, listen_tls=f"{LOOPBACK}:0", **files) as host:
        host.wait_whole()
        with watched(host, tmp_path / "watched") as watching:

            def firing() -> set[tuple[str, str]]:
                alerts = [series["metric"] for series in watching.now(about)]
                return {(alert["alertname"], alert["process"]) for alert in alerts}

            eventually(lambda: watching.holds(both), "a scrape of both")
            rules = [rule for group in watching.ask("rules")["groups"] for rule in group["rules"]]
            for rule in rules:
                watching.now(rule["query"])  # two processes' series may be more than an operator can match
            assert not firing()
            lines = [f"{LOOPBACK}:{host.admin_port} {process}" for process in range(PROCESSES)]
            eventually(lambda: has_a_line_for_each(shown(watching), lines), "each process in every panel")
            certificate = signed.certificate.read_text()
            signed.certificate.unlink()
            os.kill(next(line["pid"] for line in host.said("process started") if line["process"] == 1), signal.SIGKILL)
            told = {("KeylineProcessDown", "1"), ("KeylineProcessRestarts", "1")}
            eventually(lambda: firing() == told, "both alerts")
            down = [(lines[0], 0.0), (lines[1], 1.0)]
            eventually(lambda: shown(watching, DOWN) == {DOWN: down}, "the panel that names the one")
            signed.certificate.write_text(certificate)
            ended = {("KeylineProcessRestarts", "1")}
            eventually(lambda: watching.holds(both) and firing() == ended, "the end of the one")


def test_a_process_that_stands_still_is_killed_and_replaced(host: Host) -> None:
    """The kernel would give it clients for ever."""
    stopped, other = host.processes()
    os.kill(stopped, signal.SIGSTOP)
    eventually(lambda: stopped not in host.processes(), "its end")
    eventually(lambda: len(host.processes()) == PROCESSES, "the next one")
    assert other in host.processes()
    assert [line["pid"] for line in host.said("process stands still")] == [stopped]


def test_without_its_supervisor_a_process_drains_and_ends(host: Host) -> None:
    """However that ended: no process is left that nothing watches."""
    processes = host.processes()
    os.kill(host.pid, signal.SIGKILL)
    eventually(lambda: not [pid for pid in processes if Path(f"/proc/{pid}").exists()], "their end")
    assert [line["drained"] for line in host.said("gateway stopped")] == PROCESSES * [True]


def test_a_second_host_at_the_address_is_refused(host: Host) -> None:
    """It would take a part of the clients, which is why no one may share the address unnoticed."""
    second = subprocess.run(
        [*host._program, "serve", "--processes", "2"],
        env={**os.environ, **host._environment, "KEYLINE_ADMIN_LISTEN": f"{LOOPBACK}:0"},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert second.returncode == 1
    assert f"listen {LOOPBACK}:{host.port}: Address already in use" in second.stderr


def test_what_no_process_can_start_with_ends_all_of_them(pulsar: PulsarStandalone, tmp_path: Path) -> None:
    """As with one process: the exit code is 1, and the reason is told."""
    certificate = tmp_path / "certificate.pem"
    certificate.write_text("no certificate")
    settings = {name: str(certificate) for name in ("tls_certificate_file", "tls_key_file")}
    host = Host(pulsar, tmp_path, listen_tls=f"{LOOPBACK}:0", **settings)
    done = subprocess.run(
        [*host._program, "serve"],
        env={**os.environ, **host._environment},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    assert re.search(r"^keyline: process [01]: .*certificate.pem", done.stderr, re.MULTILINE), done.stderr
    host.close()
