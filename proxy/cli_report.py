"""`keyline report`: judge a journal with Spark, which has to be installed for it."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

EXIT_VIOLATIONS = 1
EXIT_NOTHING_TO_READ = 2

_MOMENTS = ["%Y-%m-%d", "%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S"]
_From = Annotated[
    datetime | None, typer.Option("--from", formats=_MOMENTS, help="Only what happened then or later, in UTC.")
]
_To = Annotated[datetime | None, typer.Option("--to", formats=_MOMENTS, help="Only what happened before, in UTC.")]
_Master = Annotated[str, typer.Option("--master", help="Where Spark runs: local[*], or a cluster's URL.")]
_Out = Annotated[Path | None, typer.Option("--out", help="Directory for what is found; its report is replaced.")]


def add_report(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        "report", epilog="Exit codes: 0 the contract was kept; 1 it was not; 2 there is nothing to read, or no Spark."
    )(report)


def report(
    journal: Annotated[str, typer.Argument(help="What the setting `journal` names: a directory or a URL.")],
    since: _From = None,
    until: _To = None,
    master: _Master = "local[*]",
    out: _Out = None,
) -> None:
    """Say from a journal whether every key was kept in order and at one worker, and nothing was lost or repeated."""
    reports = _reports()
    try:
        found = reports.run.report(reports.run.session(master), journal, out, _utc(since), _utc(until), typer.echo)
    except reports.reading.JournalError as error:
        typer.echo(f"keyline: {error}", err=True)
        raise typer.Exit(EXIT_NOTHING_TO_READ) from None
    for line in (*found.evidence, *found.caveats, found.line):
        typer.echo(line)
    if found.violations:
        raise typer.Exit(EXIT_VIOLATIONS)


def _reports() -> Any:
    try:
        import spark_reports.reading  # noqa: PLC0415 - it needs Spark, which a gateway has not
        import spark_reports.run  # noqa: PLC0415 - likewise
    except ImportError as error:
        typer.echo(f"keyline: {error}; reports need Spark: pip install 'keyline[reports]' and Java 17", err=True)
        raise typer.Exit(EXIT_NOTHING_TO_READ) from None
    return spark_reports


def _utc(moment: datetime | None) -> datetime | None:
    return None if moment is None else moment.replace(tzinfo=UTC)
