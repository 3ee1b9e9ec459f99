"""`keyline report`: audit a journal with Spark, which must be installed."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Self

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from proxy.printable import printable

if TYPE_CHECKING:
    from rich.progress import TaskID

EXIT_VIOLATIONS = 1
EXIT_NOTHING_TO_READ = 2
EXIT_INTERRUPTED = 130

_Start = Callable[[], Any]
"""Gives a Spark session."""
_MOMENTS = ["%Y-%m-%d", "%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S"]
_From = Annotated[datetime | None, typer.Option("--from", formats=_MOMENTS, help="Start of the time range, in UTC.")]
_To = Annotated[datetime | None, typer.Option("--to", formats=_MOMENTS, help="End of the time range, in UTC.")]
_Master = Annotated[
    str | None,
    typer.Option("--master", help="URL of Spark's cluster; by default this machine, or spark-submit's."),
]
_Out = Annotated[
    Path | None, typer.Option("--out", help="Directory for index.html and all results; existing ones are replaced.")
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
_NO_SETTINGS: Final[list[str]] = []


def add_report(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        "report",
        epilog="Exit codes: 0 the contract was kept; 1 it was not; 2 no journal, or no Spark; 130 it was interrupted.",
    )(report)


def report(
    journal: Annotated[str, typer.Argument(help="The value of the setting `journal`: a directory or a URL.")],
    since: _From = None,
    until: _To = None,
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
    for wanted, option, what in ((daily, "--daily", "each day's report"), (live, "--live", "what was judged")):
        if wanted and out is None:
            raise typer.BadParameter(f"needs --out, below which {what} is kept", param_hint=option)
    if live and (daily or since or until):
        raise typer.BadParameter("judges what comes, and takes no other time", param_hint="--live")
    settings = _settings(conf)
    reports = _reports()
    span = reports.span.Span(_utc(since), _utc(until))
    try:
        start = partial(reports.run.session, master, reports.place.place_at(journal).spark_settings | settings)
        if live:
            violations = _watch(reports, journal, start, out, delay_s)
        else:
            violations = _report(reports, journal, start, out, span, daily=daily)
    except reports.place.JournalError as error:
        typer.echo(printable(f"keyline: {error}"), err=True)
        raise typer.Exit(EXIT_NOTHING_TO_READ) from None
    except reports.faults.OF_SPARK as error:
        typer.echo(f"keyline: {reports.faults.words(error)}", err=True)
        raise typer.Exit(EXIT_NOTHING_TO_READ) from None
    except KeyboardInterrupt:
        typer.echo("keyline: interrupted", err=True)
        raise typer.Exit(EXIT_INTERRUPTED) from None
    if violations:
        raise typer.Exit(EXIT_VIOLATIONS)


def _report(reports: Any, journal: str, start: _Start, out: Path | None, span: Any, *, daily: bool) -> int:
    """One run with its progress; returns the number of violations."""
    with _Bar() as bar:
        spark = start()
        with reports.interrupts.interruptible():
            if daily:
                found = reports.days.daily(spark, journal, out, span, bar)
            else:
                found = [reports.run.report(spark, journal, out, span, bar)]
    _tell(found, daily=daily)
    if out is not None:
        typer.echo(f"report: {out / 'index.html'}")
    return sum(one.violations for one in found)


def _watch(reports: Any, journal: str, start: _Start, out: Path | None, delay_s: int) -> int:
    """Runs until it is interrupted or a query fails; returns the number of violations."""
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

    pace = reports.live.Pace(delay_s=delay_s)
    spark = start()
    with reports.interrupts.interruptible():
        running = reports.live.Live(spark, journal, out, pace, say)
        try:
            running.run()
        except KeyboardInterrupt:
            running.stop()
    return violations


class _Bar:
    """Shows progress on a terminal; nothing in a file or a pipe."""

    def __init__(self) -> None:
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        console = Console(stderr=True)
        self._progress = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
        self._task: TaskID | None = None

    def __enter__(self) -> Self:
        self._progress.start()
        self._task = self._progress.add_task("Spark starts", total=None)
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def began(self, what: str, number: int, count: int) -> None:
        """As `spark_reports.run.Watcher` says."""
        assert self._task is not None
        self._progress.update(self._task, description=what, completed=number - 1, total=count)


def _tell(found: list[Any], *, daily: bool) -> None:
    for one in found:
        if daily:
            typer.echo(printable(f"{one.day} {'' if one.made else '(as before) '}{one.line}"))
            for caveat in one.caveats:
                typer.echo(printable(f"  {caveat}"))
        else:
            typer.echo(f"{one.files:,} files, {len(one.skipped):,} left out")
            for line in (*one.evidence, *one.caveats, one.line):
                typer.echo(printable(line))


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


def _reports() -> Any:
    try:
        import spark_reports.days  # noqa: PLC0415 - it needs Spark, which a gateway has not
        import spark_reports.faults  # noqa: PLC0415 - likewise
        import spark_reports.interrupts  # noqa: PLC0415 - likewise
        import spark_reports.live  # noqa: PLC0415 - likewise
    except ImportError as error:
        typer.echo(f"keyline: {error}; reports need Spark: pip install 'keyline[reports]' and Java 17", err=True)
        raise typer.Exit(EXIT_NOTHING_TO_READ) from None
    return spark_reports


def _utc(moment: datetime | None) -> datetime | None:
    return None if moment is None else moment.replace(tzinfo=UTC)
