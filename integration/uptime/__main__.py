"""The scenario as a program: `python -m integration.uptime`, with a broker and a gateway of its own."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from integration import artifacts
from integration.command_line import interrupt_on_termination, positive
from integration.errors import IntegrationError
from integration.gateway import KeylineGateway
from integration.standalone import PulsarStandalone
from integration.uptime.judge import problems
from integration.uptime.plan import Plan
from integration.uptime.plot import draw
from integration.uptime.report import distribution_table
from integration.uptime.scenario import Scenario

if TYPE_CHECKING:
    from integration.uptime.scenario import Record

GATEWAY_SETTINGS = {"producer_return_grace_s": "0"}
"""No owner returns to a gateway that has just been made, so it needs to wait for none."""


def main(arguments: list[str] | None = None) -> int:
    """Run both modes and return the exit code: 0 if all held, 1 if not, 130 if it was broken off."""
    options = _parser().parse_args(arguments)
    console = Console()
    interrupt_on_termination()
    try:
        plan = Plan(options.endpoints, options.hosts, options.standby)
        records = _run(console, options.version, plan)
    except IntegrationError as error:
        console.print(f"error: {error}", style="red", markup=False)
        return 1
    except KeyboardInterrupt:
        console.print("Broken off. Nothing is left running.")
        return 130
    if options.plot is not None:
        draw(records, options.plot)
        console.print(f"The picture is in {options.plot}.", markup=False)
    found = [problem for record in records for problem in problems(record)]
    for problem in found:
        console.print(problem, style="red", markup=False)
    return 1 if found else 0


def _run(console: Console, version: str, plan: Plan) -> list[Record]:
    records = []
    directory = Path(tempfile.mkdtemp(prefix="keyline-uptime-"))
    with ExitStack() as stage:
        # Fetched first, in order that the time of a download is not taken for the broker's start.
        artifacts.ensure(artifacts.broker(version))
        console.print(f"Starting a real Apache Pulsar {version} and a gateway. This takes 10 to 30 seconds.")
        broker = stage.enter_context(PulsarStandalone(version))
        urls = broker.service_url, broker.admin_url
        gateway = stage.enter_context(KeylineGateway(*urls, directory, settings=GATEWAY_SETTINGS))
        for with_priorities in (True, False):
            mode = "priorities" if with_priorities else "fifo"
            place, topics = directory / mode, f"uptime-{mode}"
            record = Scenario(broker, gateway, place, plan, topics, with_priorities=with_priorities).run()
            console.print(distribution_table(record))
            records.append(record)
    # Not after an error, whose text points to the logs.
    shutil.rmtree(directory)
    return records


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m integration.uptime", description="Uptime checkers fail one by one."
    )
    parser.add_argument("--endpoints", type=positive, default=24, help="how many topics, one for each endpoint")
    parser.add_argument("--hosts", type=positive, default=4, help="primary hosts, all of which fail")
    parser.add_argument("--standby", type=positive, default=2, help="hosts of the standby cluster")
    parser.add_argument("--version", default=artifacts.DEFAULT_VERSION, help="of Pulsar")
    parser.add_argument("--plot", type=Path, help="file for the picture, .png or .svg")
    return parser


if __name__ == "__main__":
    sys.exit(main())
