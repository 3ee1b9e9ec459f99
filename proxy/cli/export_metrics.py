"""`keyline export-metrics`: what Prometheus scraped, as Parquet files that `keyline report` reads."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from proxy.printable import printable
from spark_reports.time_options import From, To, check_order

if TYPE_CHECKING:
    from collections.abc import Iterable

    from proxy.exports.series import Series

    Hours = Iterable[tuple[datetime, list[Series]]]

EXIT_NOTHING_EXPORTED = 2
DAY, HOUR = timedelta(days=1), timedelta(hours=1)
EXIT_CODES = "Exit codes: 0 exported; 2 nothing was, and the message says why."

_Sources = Annotated[
    list[str], typer.Argument(metavar="SOURCE", help="URL of a Prometheus server, or scrapes: files and folders.")
]
_Out = Annotated[str, typer.Option("--out", help="Directory or URL for the files; it is for exported metrics only.")]
_Step = Annotated[
    int, typer.Option("--step", min=1, max=3_600, help="Seconds between two samples; at least the scrape interval.")
]
_Match = Annotated[
    str, typer.Option("--match", metavar="LABELS", help="Narrow by labels, for example 'job=\"keyline\"'.")
]
_GatewayLabel = Annotated[str, typer.Option("--gateway-label", help="The label that tells replicas apart.")]
_Gateway = Annotated[str | None, typer.Option("--gateway", help="Of scrapes in files: whose they are.")]
_Token = Annotated[Path | None, typer.Option("--token-file", help="File with the server's bearer token.")]


def export_metrics(
    sources: _Sources,
    out: _Out,
    since: From = None,
    until: To = None,
    step_s: _Step = 60,
    match: _Match = "",
    gateway_label: _GatewayLabel = "instance",
    gateway: _Gateway = None,
    token_file: _Token = None,
) -> None:
    """Export what Prometheus scraped of gateways into Parquet files that `keyline report` reads.

    Whole hours are written and replaced, by default those of the last day.
    """
    check_order(since, until, "nothing was exported")
    # Arrow takes a while to load, and the other commands do without.
    from proxy.exports.files import write  # noqa: PLC0415
    from proxy.exports.series import ExportError  # noqa: PLC0415

    try:
        if sources[0].startswith(("http://", "https://")):
            hours = _of_server(sources, since, until, step_s, match, gateway_label, token_file)
        else:
            hours = _of_files(sources, since, until, gateway)
        done = write(out, hours)
    except ExportError as error:
        typer.echo(printable(f"keyline: nothing was exported: {error}"), err=True)
        raise typer.Exit(EXIT_NOTHING_EXPORTED) from None
    typer.echo(
        f"{done.samples:,} samples of {len(done.names):,} metrics of {len(done.gateways):,} gateways, "
        f"{done.files:,} files; next: keyline report {out} --out DIRECTORY"
    )


def _of_server(
    sources: list[str],
    since: datetime | None,
    until: datetime | None,
    step_s: int,
    match: str,
    gateway_label: str,
    token_file: Path | None,
) -> Hours:
    from proxy.exports.prometheus_api import PrometheusServer  # noqa: PLC0415 - as above

    if len(sources) > 1:
        raise typer.BadParameter(f"{len(sources)} sources; one server at a time should be read", param_hint="SOURCE")
    end = until or datetime.now(UTC)
    return PrometheusServer(sources[0], gateway_label, match, token_file, step_s).hours(since or end - DAY, end)


def _of_files(sources: list[str], since: datetime | None, until: datetime | None, gateway: str | None) -> Hours:
    """Hours that are of the time, each as a whole."""
    from proxy.exports import scrapes  # noqa: PLC0415 - as above

    for hour, found in scrapes.hours(scrapes.files_below([Path(each) for each in sources]), gateway):
        if (until is None or hour < until) and (since is None or hour + HOUR > since):
            yield hour, found
