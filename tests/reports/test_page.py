"""A whole report of a made journal: its numbers are the known ones, and its page stands alone in a real browser."""

from __future__ import annotations

import json
import re
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from integration.journals.make import make
from integration.journals.plan import FAULTS, Known, Plan
from proxy.cli.main import app
from spark_reports import duckdb_audit
from spark_reports.command import EXIT_VIOLATIONS
from spark_reports.jobs import SECTIONS, all_jobs
from spark_reports.report import Report
from spark_reports.run import opened, report
from tests.integration.browser import Complaints, chromium

PLAN = Plan(
    messages=6_000, keys=200, workers=4, gateways=2, rate_per_s=100, returned_share=0.02, faults=3, epoch_messages=1_500
)


class Made:
    """A journal, what is in it, and its report."""

    def __init__(self, spark: SparkSession, directory: Path) -> None:
        """Makes all of it."""
        self.known: Known = make(PLAN, directory / "journal")
        self.out = directory / "report"
        self.steps: list[tuple[str, int, int]] = []
        self.report: Report = report(spark, str(directory / "journal"), self.out, watcher=self)

    def began(self, what: str, number: int, count: int) -> None:
        """As `Watcher` says."""
        self.steps.append((what, number, count))


@pytest.fixture(scope="module")
def made(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Made:
    """Everything that can be in a report, made once."""
    return Made(spark, tmp_path_factory.mktemp("made"))


def test_the_audit_finds_what_was_planted_and_counts_what_is_there(made: Made) -> None:
    """Exactly."""
    known = asdict(made.known)
    assert made.report.by_kind == known["violations"] == dict.fromkeys(FAULTS, PLAN.faults)
    assert {name: made.report.totals[name] for name in ("messages", "deliveries", "acked", "returned", "keys")} == {
        name: known[name] for name in ("messages", "deliveries", "acked", "returned", "keys")
    }
    assert (made.report.totals["lives"], made.report.totals["gateways"], made.report.odd_runs) == (2, 2, [])
    assert len(made.report.evidence) == len(FAULTS) * PLAN.faults


def test_duckdb_gives_the_same_verdict(made: Made) -> None:
    """And the same violations, row by row; the command says the same lines."""
    root = made.report.source
    found, rows = duckdb_audit.report(opened(root))
    assert found == made.report
    written = pq.read_table(made.out / "tables" / "violations.parquet").to_pylist()
    assert rows == sorted(written, key=lambda row: (row["violation"], row["wall_ns"], row["message"]))
    result = CliRunner().invoke(app, ["report", root, "--engine", "duckdb"])
    assert (result.exit_code, result.output.splitlines()[-1]) == (EXIT_VIOLATIONS, made.report.line)


def test_every_result_is_a_file(made: Made) -> None:
    """And the run tells how far it is."""
    names = {path.stem for path in (made.out / "tables").iterdir()}
    assert names == {job.name for job in all_jobs()} | {"violations", "runs"}
    drains = pq.read_table(made.out / "tables" / "drains.parquet").to_pylist()
    assert sum(row["hand_overs"] for row in drains) == made.known.hand_overs
    said = json.loads((made.out / "audit.json").read_text())
    assert (said["line"], said["violations"]) == (made.report.line, len(FAULTS) * PLAN.faults)
    count = len(all_jobs()) + 1
    assert [(number, of) for _, number, of in made.steps] == [(number, count) for number in range(1, count + 1)]


def test_the_page_stands_alone_and_can_be_read(made: Made) -> None:
    """Nothing is asked of anybody, nothing is complained of, and every plot of what is there is drawn."""
    with chromium() as browser:
        context = browser.new_context(viewport={"width": 1200, "height": 900})
        page, complaints = context.new_page(), Complaints()
        complaints.watch(page)
        page.goto((made.out / "index.html").as_uri())
        assert (complaints.errors, complaints.hosts) == ([], {""})
        assert page.locator(".verdict.broken").inner_text() == made.report.line
        for section in SECTIONS:
            assert page.get_by_role("heading", name=section.title, exact=True).is_visible()
        drawn: list[dict[str, Any]] = page.locator("figure svg").evaluate_all(
            "all => all.map(one => ({...one.getBoundingClientRect().toJSON(), words: one.textContent}))"
        )
        assert len(drawn) == sum(len(section.plots) for section in SECTIONS)
        for one in drawn:
            assert one["width"] > 900
            assert one["height"] > 150
        assert "hash slot" in drawn[0]["words"]
        cells = page.locator("#audit td").all_inner_texts()
        assert cells.count("inversion") == cells.count("overlap") == PLAN.faults
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), "it does not fit"
        cut = "all => all.filter(one => one.scrollWidth > one.clientWidth).map(one => one.textContent.slice(0, 80))"
        assert page.locator(".wide").evaluate_all(cut) == [], "a table does not fit"


def test_the_page_is_dark_where_the_reader_wants_it(made: Made) -> None:
    """Text and plots stand out from the paper, in both."""
    colour = "one => getComputedStyle(one).{}"
    with chromium() as browser:
        for scheme, is_dark in (("light", False), ("dark", True)):
            page = browser.new_context(color_scheme=scheme).new_page()  # type: ignore[arg-type]  # of the two it knows
            page.goto((made.out / "index.html").as_uri())
            paper = brightness(page.locator("section").first.evaluate(colour.format("backgroundColor")))
            ink = brightness(page.locator("h2").first.evaluate(colour.format("color")))
            label = brightness(page.locator("figure svg text").first.evaluate(colour.format("fill")))
            assert (paper < ink, paper < label) == (is_dark, is_dark)
            assert min(abs(paper - ink), abs(paper - label)) > 100


def brightness(colour: str) -> float:
    """Of what a browser says a colour is: 0 to 255."""
    return sum(map(int, re.findall(r"\d+", colour)[:3])) / 3


def test_the_same_journal_has_the_same_report(made: Made, spark: SparkSession, tmp_path: Path) -> None:
    """Also over one that is there: results replace results."""
    (tmp_path / "tables").mkdir()
    (tmp_path / "tables" / "of-before.parquet").touch()
    (tmp_path / "mine.txt").touch()
    report(spark, made.report.source, tmp_path)
    for path in sorted((made.out / "tables").iterdir()):
        again = pq.read_table(tmp_path / "tables" / path.name)
        assert again.equals(pq.read_table(path)), path.name
    assert sorted(path.name for path in tmp_path.iterdir()) == ["audit.json", "index.html", "mine.txt", "tables"]
    assert not (tmp_path / "tables" / "of-before.parquet").exists()
