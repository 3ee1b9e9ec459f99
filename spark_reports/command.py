"""`keyline report`: audit a journal with Spark, which must be installed."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from enum import StrEnum
from functools import partial
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING, Annotated, Any, Final, Self

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from proxy.printable import printable
from spark_reports.time_options import From, To, check_order

if TYPE_CHECKING:
    from rich.progress import TaskID

EXIT_VIOLATIONS = 1
EXIT_NOTHING_JUDGED = 2
EXIT_INTERRUPTED = 130


class Engine(StrEnum):
    """What computes."""

    SPARK = "spark"
    DUCKDB = "duckdb"


_Start = Callable[..., Any]
"""Gives a Spark session, for a journal of so many bytes."""
LOOK_S: Final = 0.5
"""How often Spark is asked how far it is."""
_Master = Annotated[
    str | None,
    typer.Option("--master", help="URL of Spark's cluster; by default this machine, or spark-submit's."),
]
_Out = Annotated[
    Path | None,
    typer.Option(
        "--out",
        file_okay=False,
        writable=True,
        help="Directory for index.html and all results; existing ones are replaced.",
    ),
]
_Daily = Annotated[
    bool,
    typer.Option("--daily", help="A report for each day, below --out; days with unchanged files are skipped."),
]
_Live = Annotated[
    bool,
    typer.Option("--live", help="Follow a growing journal, and audit each minute when it is complete; below --out."),
]
_Delay = Annotated[
    int,
    typer.Option(
        "--delay",
        min=1,
        help="Seconds until a minute is complete, with --live: more than journal_roll_s of every gateway.",
    ),
]
_Settings = Annotated[
    list[str],
    typer.Option(
        "--conf",
        metavar="NAME=VALUE",
        help="A Spark setting, for example spark.jars.packages. Can be repeated.",
    ),
]
_Engine = Annotated[
    Engine,
    typer.Option("--engine", help="duckdb: the audit alone, of a journal on this machine, several times faster."),
]
_NO_SETTINGS: Final[list[str]] = []


def add_report(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        "report",
        epilog="Exit codes: 0 the contract was kept; 1 it was not; 2 nothing was judged: no journal, no deliveries of "
        "that time, or no Spark; 130 it was interrupted.",
    )(report)


def report(
    journal: Annotated[
        str, typer.Argument(metavar="JOURNAL", help="The value of the setting `journal`: a directory or a URL.")
    ],
    since: From = None,
    until: To = None,
    engine: _Engine = Engine.SPARK,
    master: _Master = None,
    out: _Out = None,
    daily: _Daily = False,  # noqa: FBT002 - typer makes an option of it
    live: _Live = False,  # noqa: FBT002 - likewise
    delay_s: _Delay = 600,
    conf: _Settings = _NO_SETTINGS,
) -> None:
    """Audit a journal: was every key in order and at one worker, and was no message lost or repeated?

    With --out it also analyses hand-overs, keys, latency, redeliveries, capacity and groups.
    """
    _check_together(daily=daily, live=live, out=out is not None, times=bool(since or until))
    if engine is Engine.DUCKDB and (out or daily or live or master or conf):
        raise typer.BadParameter("duckdb gives the audit alone; the other options need spark", param_hint="--engine")
    check_order(since, until, "nothing was judged")
    settings = _settings(conf)
    reports = _reports()
    span = reports.span.Span(since, until)
    try:
        start = partial(reports.run.session, master, reports.place.place_at(journal).spark_settings | settings)
        if live:
            code = _watch(reports, journal, start, out, delay_s)
        elif daily:
            code = _daily(reports, journal, start, out, span)
        elif engine is Engine.DUCKDB:
            code = _tell(_duckdb().report(reports.run.opened(journal, span), span)[0])
        else:
            code = _report(reports, journal, start, master, out, span)
    except reports.place.JournalError as error:
        typer.echo(printable(f"keyline: {error}"), err=True)
        raise typer.Exit(EXIT_NOTHING_JUDGED) from None
    except reports.faults.OF_SPARK as error:
        typer.echo(f"keyline: {reports.faults.words(error)}", err=True)
        raise typer.Exit(EXIT_NOTHING_JUDGED) from None
    except KeyboardInterrupt:
        typer.echo("keyline: interrupted", err=True)
        raise typer.Exit(EXIT_INTERRUPTED) from None
    if code:
        raise typer.Exit(code)


def _check_together(*, daily: bool, live: bool, out: bool, times: bool) -> None:
    for wanted, option, what in ((daily, "--daily", "each day's report"), (live, "--live", "what was judged")):
        if wanted and not out:
            raise typer.BadParameter(f"needs --out, below which {what} is kept", param_hint=option)
    if live and (daily or times):
        raise typer.BadParameter("judges what comes, and takes no other time", param_hint="--live")


def _report(reports: Any, root: str, start: _Start, master: str | None, out: Path | None, span: Any) -> int:
    """One run with its progress; returns the exit code."""
    journal = reports.run.opened(root, span)  # what is wrong with it is told before Spark takes its time to start
    with _Bar() as bar, reports.run.beforehand(journal, span, master) as looked:
        spark = start(journal.size_bytes)
        bar.follow(spark)
        with reports.interrupts.interruptible():
            one = reports.run.report_on(spark, journal, out, span, bar, looked)
    code = _tell(one)
    _tell_place(out)
    return code


def _tell(one: Any) -> int:
    """Say what was found; returns the exit code."""
    typer.echo(f"{one.files:,} files, {len(one.skipped):,} left out")
    for line in (*one.evidence, *one.caveats, one.coverage.words, one.line):
        typer.echo(printable(line))
    if one.violations:
        return EXIT_VIOLATIONS
    return EXIT_NOTHING_JUDGED if one.unjudged else 0


def _daily(reports: Any, root: str, start: _Start, out: Path | None, span: Any) -> int:
    """A report for each day; returns the exit code. A day without traffic is no fault unless all are."""
    days = reports.days.days_of(root, out, span)
    with _Bar() as bar:
        changed = [due for due in days if not due.is_made]
        spark = start(sum(file.size_bytes for due in changed for file in due.files)) if changed else None
        bar.follow(spark)
        with reports.interrupts.interruptible():
            found = reports.days.daily(spark, root, out, days, bar)
    for one in found:
        typer.echo(printable(f"{one.day} {'' if one.made else '(as before) '}{one.line}"))
        for line in (one.judged, *one.caveats):
            typer.echo(printable(f"  {line}"))
    _tell_place(out)
    if any(one.violations for one in found):
        return EXIT_VIOLATIONS
    lost = any(one.unjudged and not one.is_idle for one in found)
    return EXIT_NOTHING_JUDGED if lost or all(one.unjudged for one in found) else 0


def _tell_place(out: Path | None) -> None:
    if out is not None:
        typer.echo(f"report: {out / 'index.html'}")


def _watch(reports: Any, journal: str, start: _Start, out: Path | None, delay_s: int) -> int:
    """Runs until it is interrupted or a query fails; returns the exit code."""
    violations = late = 0

    def say(row: dict[str, Any]) -> None:
        nonlocal violations, late
        violations += row["violations"]
        counts = ", ".join(f"{row[name]:,} {name}" for name in ("sent", "acked", "returned", "keys", "violations"))
        typer.echo(f"{datetime.fromtimestamp(row['window_start_ns'] / 1e9, UTC):%Y-%m-%dT%H:%M:%S}Z {counts}")
        if row["late_rows"] > late:
            late = row["late_rows"]
            told = (
                f"keyline: {late:,} rows arrived after the audit of their minute: --delay should be more than {delay_s}"
            )
            typer.echo(told, err=True)

    place = reports.place.place_at(journal)
    if place.is_local:  # else it would be made; a store's folder comes with the first file
        reports.reading.list_files(place)
    pace = reports.live.Pace(delay_s=delay_s)
    spark = start()
    with reports.interrupts.interruptible():
        running = reports.live.Live(spark, journal, out, pace, say)
        try:
            running.run()
        except KeyboardInterrupt:
            running.stop()
    return EXIT_VIOLATIONS if violations else 0


class _Bar:
    """Shows progress on a terminal; nothing in a file or a pipe."""

    def __init__(self) -> None:
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        self._console = Console(stderr=True)
        disable = not self._console.is_terminal
        self._progress = Progress(*columns, console=self._console, transient=True, disable=disable)
        self._task: TaskID | None = None
        self._stages: TaskID | None = None
        self._ended = Event()

    def __enter__(self) -> Self:
        self._progress.start()
        self._task = self._progress.add_task("Spark starts", total=None)
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._progress.stop()

    def follow(self, spark: Any) -> None:
        """Show Spark's stages too, in a line of their own."""
        if spark is not None and self._console.is_terminal:
            self._stages = self._progress.add_task("Spark's stages", total=None)
            Thread(target=self._look, args=(spark.sparkContext.statusTracker(),), name="stages", daemon=True).start()

    def _look(self, tracker: Any) -> None:
        assert self._stages is not None
        while not self._ended.wait(LOOK_S):
            found = [info for stage in tracker.getActiveStageIds() if (info := tracker.getStageInfo(stage)) is not None]
            done, tasks = sum(info.numCompletedTasks for info in found), sum(info.numTasks for info in found)
            names = ", ".join(str(info.stageId) for info in found)
            words = f"  stage {names}, tasks" if found else "  being planned"
            self._progress.update(self._stages, description=words, completed=done, total=tasks or None)

    def began(self, what: str, number: int, count: int) -> None:
        """As `spark_reports.run.Watcher` says."""
        assert self._task is not None
        self._progress.update(self._task, description=what, completed=number - 1, total=count)


def _settings(given: list[str]) -> dict[str, str]:
    """By name.

    Raises:
        typer.BadParameter: one is not NAME=VALUE.
    """
    found = {}
    for one in given:
        name, separator, value = one.partition("=")
        if not separator or not name.startswith("spark."):
            raise typer.BadParameter(f"{one!r} should be spark.NAME=VALUE", param_hint="--conf")
        found[name] = value
    return found


def _duckdb() -> Any:
    try:
        from spark_reports import duckdb_audit  # noqa: PLC0415 - it needs DuckDB, which a gateway has not
    except ImportError as error:
        typer.echo(f"keyline: {error}; --engine duckdb needs it: pip install 'keyline-gateway[reports]'", err=True)
        raise typer.Exit(EXIT_NOTHING_JUDGED) from None
    return duckdb_audit


def _reports() -> Any:
    try:
        import spark_reports.days  # noqa: PLC0415 - it needs Spark, which a gateway has not
        import spark_reports.faults  # noqa: PLC0415 - likewise
        import spark_reports.interrupts  # noqa: PLC0415 - likewise
        import spark_reports.live  # noqa: PLC0415 - likewise
    except ImportError as error:
        typer.echo(
            f"keyline: {error}; reports need Spark: pip install 'keyline-gateway[reports]' and Java 17", err=True
        )
        raise typer.Exit(EXIT_NOTHING_JUDGED) from None
    return spark_reports
