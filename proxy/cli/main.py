"""The command line: serve, check a configuration, and inspect or control a running gateway."""

from __future__ import annotations

import gc
import json
import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from proxy import __version__
from proxy.cli.export_metrics import EXIT_CODES as EXPORT_EXIT_CODES
from proxy.cli.export_metrics import export_metrics
from proxy.cli.operate import add_commands
from proxy.config.load import CONFIG_FILE_VARIABLE, InvalidConfiguration, Loaded, load
from proxy.config.show import effective, effective_json, mistakes, mistakes_json
from proxy.errors import StartFailure
from spark_reports.command import add_report

EXIT_FAILED = 1
"""The gateway could not start, or failed."""

EXIT_MISCONFIGURED = 2
"""The configuration, or the command line, is wrong."""

_EXIT_CODES = (
    "Exit codes: 0 done, or drained and stopped by a signal; 1 could not start or failed; 2 invalid configuration."
)

app = typer.Typer(
    name="keyline",
    help="A consumer gateway in front of Apache Pulsar that keeps every Key_Shared key in order and at one worker.",
    epilog=_EXIT_CODES,
    no_args_is_help=True,
    pretty_exceptions_enable=False,  # they print local variables, and those may hold a token
)

ConfigFile = Annotated[
    Path | None,
    typer.Option(
        "--config", "-c", envvar=CONFIG_FILE_VARIABLE, help="TOML file with settings; the environment overrides it."
    ),
]


def _print_version(wanted: bool) -> None:  # noqa: FBT001 - the form typer calls it in
    if wanted:
        from proxy.app.compiled import running  # noqa: PLC0415 - it loads what it tells of

        typer.echo(f"keyline {__version__} ({running()})")
        raise typer.Exit


_Version = Annotated[
    bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
]
_Processes = Annotated[
    int | None,
    typer.Option("--processes", help="Processes that serve together on this host; overrides the setting `processes`."),
]
_Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]


@app.callback()
def keyline(_version: _Version = False) -> None:  # noqa: FBT002 - the form typer takes a flag in
    """Take the options that stand before a command."""


@app.command(epilog=_EXIT_CODES)
def serve(config: ConfigFile = None, processes: _Processes = None) -> None:
    """Run the gateway until SIGTERM or SIGINT; a second signal stops it at once."""
    read = partial(load, config, os.environ, {} if processes is None else {"processes": processes})
    try:
        loaded = read()
    except InvalidConfiguration as error:
        typer.echo(f"keyline: {mistakes(error)}", err=True)
        raise typer.Exit(EXIT_MISCONFIGURED) from None
    _run(loaded, read)


@app.command("check-config", epilog=_EXIT_CODES)
def check_config(config: ConfigFile = None, as_json: _Json = False) -> None:  # noqa: FBT002 - as above
    """Print the configuration in effect with the origin of each value, or all its errors."""
    try:
        loaded = load(config, os.environ)
    except InvalidConfiguration as error:
        if as_json:
            typer.echo(json.dumps(mistakes_json(error), indent=2))
        else:
            typer.echo(f"keyline: {mistakes(error)}", err=True)
        raise typer.Exit(EXIT_MISCONFIGURED) from None
    typer.echo(json.dumps(effective_json(loaded), indent=2) if as_json else effective(loaded))


add_commands(app)
add_report(app)
app.command("export-metrics", epilog=EXPORT_EXIT_CODES)(export_metrics)


def _run(loaded: Loaded, read: Callable[[], Loaded]) -> None:
    gc.disable()  # while all is loaded there is no garbage, and each collection would walk what is there
    from proxy.app.log import configure_logging  # noqa: PLC0415
    from proxy.app.log_limiter import LineLimiter  # noqa: PLC0415
    from proxy.app.run import run  # noqa: PLC0415 - `check-config` and `--version` need not load the gateway
    from proxy.app.supervisor import supervise  # noqa: PLC0415

    gc.freeze()
    gc.enable()
    serving = loaded.config.serving
    limiter = LineLimiter(time.monotonic, serving.log_lines_per_s)
    configure_logging(serving.log_level, serving.log_format, serving.replica_name, limiter)
    try:
        if serving.processes > 1:
            raise typer.Exit(supervise(loaded, read))
        run(loaded, limiter, read)
    except StartFailure as error:
        typer.echo(f"keyline: {error}", err=True)
        raise typer.Exit(EXIT_FAILED) from None


def main() -> None:
    """Entry point of the ``keyline`` script."""
    app()
