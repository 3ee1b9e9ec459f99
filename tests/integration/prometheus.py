"""A real Prometheus, Debian's own, that scrapes a gateway, and what Grafana would ask it.

It listens on loopback, keeps its data in a folder of the test's and is ended by its process id. It is asked about a
fixed moment and the time before it, so that a test may look long after the load has ended.
"""

from __future__ import annotations

import json
import math
import re
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import httpx

from integration.errors import StartError, ToolMissingError
from integration.logs import tail
from integration.ports import LOOPBACK, free_ports
from integration.processes import OwnedProcess
from tests.integration.conditions import eventually

RULES: Final = Path(__file__).parents[2] / "dashboards/rules/keyline.rules.yml"
"""Those that the product supplies."""
PACKAGE: Final = "apt-get install -y --no-install-recommends prometheus"
Series = list[dict[str, Any]]
Choice = dict[str, str | Sequence[str]]
"""Values of a dashboard's variables: a list is chosen by name, a string is an expression that stands for all."""
ALL_NAMESPACES: Final = "[^/]+/[^/]+"
"""As the variable stands for all."""
EVERYTHING: Final[Choice] = {
    "cluster": ".*", "job": ["keyline"], "instance": ".+", "namespace": ALL_NAMESPACES, "topic": ".+",
    "subscription": ".+", "worker": ".+", "__rate_interval": "10s", "__range": "60s",
}  # fmt: skip
"""All of every variable, of the job of this name."""


def program(name: str) -> str:
    """Path of `prometheus` or `promtool`.

    Raises:
        ToolMissingError: it is not installed; the text says what to do.
    """
    path = shutil.which(name)
    if path is None:
        raise ToolMissingError(
            f"the dashboards' tests need {name}, of Debian's package prometheus: make test installs it, or {PACKAGE}"
        )
    return path


def promtool(*arguments: str | Path) -> None:
    """Run it.

    Raises:
        AssertionError: it failed; the text is what it said.
    """
    done = subprocess.run([program("promtool"), *map(str, arguments)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


class Prometheus:
    """A running one; made by `prometheus`."""

    def __init__(self, url: str) -> None:
        """At this address."""
        self.url = url
        self._http = httpx.Client(base_url=f"{url}/api/v1", timeout=30, trust_env=False)

    def ask(self, path: str, **parameters: Any) -> Any:
        """Return an answer's data.

        Raises:
            AssertionError: it is an error; the text has the question.
        """
        answer = self._http.get(path, params=parameters).json()
        assert answer["status"] == "success", f"{path} {parameters}: {answer}"
        return answer["data"]

    def now(self, expression: str, at: float | None = None) -> Series:
        """Evaluate at one moment, by default the present."""
        result: Series = self.ask("query", query=expression, **({} if at is None else {"time": at}))["result"]
        return [{**series, "values": [series["value"]]} for series in result]

    def over(self, expression: str, began: float, at: float) -> Series:
        """Evaluate at each second of a time."""
        result: Series = self.ask("query_range", query=expression, start=began, end=at, step=1)["result"]
        return result

    def holds(self, condition: str) -> bool:
        """Whether a comparison leaves anything."""
        return bool(self.now(condition))

    def label_values(self, selector: str, label: str, began: float, at: float) -> list[str]:
        """Values that a label had on some series."""
        parameters = {"match[]": selector, "start": began, "end": at}
        values: list[str] = self.ask(f"label/{label}/values", **parameters)
        return values

    def close(self) -> None:
        """Let go of the connection."""
        self._http.close()


@contextmanager
def prometheus(
    directory: Path, jobs: Mapping[str, Mapping[str, str]], target: str, rules: Path
) -> Iterator[Prometheus]:
    """Start one that scrapes `target` each second, once for each job with its labels, and evaluates `rules`.

    Raises:
        StartError: it ended or was not ready in time.
        ToolMissingError: it is not installed.
    """
    directory.mkdir(parents=True)
    configuration = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(rules)],
        "scrape_configs": [
            {"job_name": job, "static_configs": [{"targets": [target], "labels": labels}]}
            for job, labels in jobs.items()
        ],
    }
    # YAML reads JSON.
    (directory / "prometheus.yml").write_text(json.dumps(configuration))
    address = f"{LOOPBACK}:{free_ports(1)[0]}"
    command = [
        program("prometheus"),
        f"--config.file={directory / 'prometheus.yml'}",
        f"--storage.tsdb.path={directory / 'data'}",
        f"--web.listen-address={address}",
    ]
    with OwnedProcess(command, directory / "prometheus.log") as process:
        _wait_ready(process, f"http://{address}/-/ready")
        running = Prometheus(f"http://{address}")
        try:
            # It waits for five seconds before it scrapes for the first time.
            eventually(lambda: len(running.now("up == 1")) == len(jobs), "the first scrapes")
            yield running
        finally:
            running.close()


def _wait_ready(process: OwnedProcess, url: str) -> None:
    def ready() -> bool:
        if not process.running:
            raise StartError(f"prometheus ended while starting; end of {process.log}:\n{tail(process.log)}")
        try:
            return httpx.get(url, trust_env=False, timeout=30).is_success
        except httpx.TransportError:
            return False

    eventually(ready, "prometheus to be ready")


def has_numbers(result: Series) -> bool:
    """Whether a result has any number: what divides nothing by nothing has series, but none."""
    return any(math.isfinite(float(value)) for series in result for _, value in series["values"])


def interpolated(expression: str, choice: Choice) -> str:
    """Put a dashboard's choice into a query as Grafana's Prometheus data source does.

    Raises:
        KeyError: the query has a variable that the dashboard does not.
    """

    def value(found: re.Match[str]) -> str:
        chosen = choice[found[1]]
        if isinstance(chosen, str):
            return chosen
        escaped = [re.sub(r"[$^*{}\[\]'+?.()|]", r"\\\\\g<0>", each.replace("\\", "\\\\\\\\")) for each in chosen]
        return escaped[0] if len(escaped) == 1 else f"({'|'.join(escaped)})"

    return re.sub(r"\$(\w+)", value, expression)


def legend(pattern: str, labels: Mapping[str, str]) -> str:
    """What Grafana calls a series: a label that it lacks is empty."""
    return re.sub(r"{{(\w+)}}", lambda found: labels.get(found[1], ""), pattern).strip()


def unix_now() -> float:
    """The moment, as Prometheus counts it."""
    return time.time()
