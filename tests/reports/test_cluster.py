"""The same report on a real Spark cluster: a master and two workers of pyspark's own package, by `spark-submit`."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path

import httpx
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import spark_reports.submit
from integration.journals.make import make
from integration.journals.plan import Plan
from integration.logs import tail
from integration.ports import LOOPBACK, free_ports
from integration.processes import OwnedProcess
from spark_reports.run import report
from tests.integration.conditions import eventually

pytestmark = pytest.mark.slow

PLAN = Plan(messages=20_000, keys=300, workers=5, gateways=3, rate_per_s=1_000, faults=2)
WORKERS = 2
SUBMIT_S_MAX = 600
PROJECT = Path(__file__).parents[2]


def program(name: str) -> str:
    """One of pyspark's."""
    package = find_spec("pyspark")
    assert package is not None
    assert package.origin is not None
    return str(Path(package.origin).parent / "bin" / name)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[str]:
    """URL of a standalone cluster."""
    port, page = free_ports(2)
    environment = {"SPARK_LOCAL_IP": LOOPBACK, "SPARK_NO_DAEMONIZE": "1"}
    master = [program("spark-class"), "org.apache.spark.deploy.master.Master"]
    worker = [program("spark-class"), "org.apache.spark.deploy.worker.Worker", "--host", LOOPBACK, "--webui-port", "0"]
    url = f"spark://{LOOPBACK}:{port}"
    with ExitStack() as ends:

        def start(name: str, *command: str) -> None:
            process = OwnedProcess(list(command), tmp_path / f"{name}.log", environment=environment)
            ends.callback(process.stop, 20)

        def workers_there() -> int:
            try:
                state = httpx.get(f"http://{LOOPBACK}:{page}/json/", trust_env=False, timeout=30).json()
            except (httpx.HTTPError, ValueError):
                return 0
            return sum(one["state"] == "ALIVE" for one in state["workers"])

        start("master", *master, "--host", LOOPBACK, "--port", f"{port}", "--webui-port", f"{page}")
        for number in range(WORKERS):
            place = str(tmp_path / f"worker-{number}")
            start(f"worker-{number}", *worker, "--cores", "1", "--memory", "1g", "--work-dir", place, url)
        eventually(lambda: workers_there() == WORKERS, "both workers at the master", deadline_s=240)
        yield url


def test_results_are_those_of_one_machine(cluster: str, spark: SparkSession, tmp_path: Path) -> None:
    """By `spark-submit` with the project's packages in a file; every result, row by row."""
    make(PLAN, tmp_path / "journal")
    packages = tmp_path / "keyline.zip"
    pack = [sys.executable, "-m", "zipfile", "-c", str(packages), "proxy", "spark_reports"]
    subprocess.run(pack, cwd=PROJECT, check=True, timeout=240)
    command = [program("spark-submit"), "--master", cluster, "--py-files", str(packages)]
    limits = ["--executor-memory", "1g", "--conf", "spark.sql.shuffle.partitions=4", "--conf", "spark.ui.enabled=false"]
    where = ["--conf", f"spark.driver.host={LOOPBACK}", "--conf", f"spark.driver.bindAddress={LOOPBACK}"]
    arguments = [str(tmp_path / "journal"), "--out", str(tmp_path / "cluster")]
    log = tmp_path / "submit.log"
    with log.open("w") as output:
        done = subprocess.run(
            [*command, *limits, *where, spark_reports.submit.__file__, *arguments],
            env={**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": LOOPBACK},
            stdout=output,
            stderr=subprocess.STDOUT,
            timeout=SUBMIT_S_MAX,
            check=False,
        )
    local = report(spark, str(tmp_path / "journal"), tmp_path / "local")
    assert done.returncode == 1, tail(log)  # the planted faults are found
    assert local.line in log.read_text()
    for path in sorted((tmp_path / "local" / "tables").iterdir()):
        there = pq.read_table(tmp_path / "cluster" / "tables" / path.name)
        assert there.equals(pq.read_table(path)), path.name
