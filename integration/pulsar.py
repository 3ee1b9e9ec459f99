"""`python -m integration.pulsar start|stop|status`: one broker in the background, for people (`make pulsar`).

The record of what runs is a file in the data directory. A process is only taken for the broker, and ended, if its
command line names that directory's configuration: process ids are used again after a reboot.
Tests take `integration.standalone.PulsarStandalone` instead, whose brokers end with the test run.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

import psutil

from integration.artifacts import DEFAULT_VERSION, PULSAR_VERSIONS
from integration.errors import IntegrationError, StartError
from integration.ports import LOOPBACK
from integration.standalone import STOP_S_MAX, PulsarStandalone

__all__ = ["PulsarStandalone", "main"]

RECORD = "running.json"


def main(arguments: list[str] | None = None) -> int:
    """Run one command and return the exit code; errors are told in a sentence."""
    options = _parser().parse_args(arguments)
    data: Path = (options.data or Path(".pulsar") / options.version).absolute()
    try:
        if options.command == "start":
            return _start(data, options.version, options.port, options.web_port)
        return _stop(data) if options.command == "stop" else _status(data)
    except (IntegrationError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m integration.pulsar", description=__doc__.splitlines()[0])
    parser.add_argument("command", choices=("start", "stop", "status"))
    parser.add_argument("--version", default=DEFAULT_VERSION, help=f"tried: {', '.join(PULSAR_VERSIONS)}")
    parser.add_argument("--port", type=int, default=6650, help="of the binary protocol")
    parser.add_argument("--web-port", type=int, default=8080, help="of the admin API")
    parser.add_argument("--data", type=Path, help="data directory; default .pulsar/<version>")
    return parser


def _start(data: Path, version: str, port: int, web_port: int) -> int:
    if process := _running(data):
        print(f"Pulsar runs already, as process {process.pid}: {_describe(data)}")
        return 0
    for taken in (port, web_port):
        _require_free(taken)
    broker = PulsarStandalone(version, data=data, port=port, web_port=web_port)
    started_at = time.monotonic()
    print(f"starting Pulsar {version} ...", file=sys.stderr, flush=True)
    broker.start()
    record = {
        "pid": broker.pid,
        "version": version,
        "service_url": broker.service_url,
        "admin_url": broker.admin_url,
        "log": str(broker.log),
    }
    (data / RECORD).write_text(json.dumps(record) + "\n")
    broker.release()
    print(f"ready after {time.monotonic() - started_at:.0f} s: {_describe(data)}")
    return 0


def _stop(data: Path) -> int:
    process = _running(data)
    if process is None:
        print(f"no Pulsar runs on {data}")
    else:
        process.terminate()
        try:
            process.wait(STOP_S_MAX)
        except psutil.TimeoutExpired:
            process.kill()
            process.wait(STOP_S_MAX)
        print(f"Pulsar, process {process.pid}, has ended; its data is kept in {data}")
    (data / RECORD).unlink(missing_ok=True)
    return 0


def _status(data: Path) -> int:
    process = _running(data)
    print(f"running as process {process.pid}: {_describe(data)}" if process else f"no Pulsar runs on {data}")
    return 0 if process else 1


def _running(data: Path) -> psutil.Process | None:
    """Return the broker's process if it lives and is the one that was recorded."""
    try:
        process = psutil.Process(json.loads((data / RECORD).read_text())["pid"])
        ours = str(data / "standalone.conf") in process.cmdline()
    except (FileNotFoundError, psutil.NoSuchProcess, psutil.AccessDenied):
        return None
    return process if ours and process.status() != psutil.STATUS_ZOMBIE else None


def _describe(data: Path) -> str:
    record = json.loads((data / RECORD).read_text())
    return f"Pulsar {record['version']}, {record['service_url']}, {record['admin_url']}, log {record['log']}"


def _require_free(port: int) -> None:
    """Fail before a start that could only end in a stack trace, naming who is in the way if that can be seen."""
    for connection in psutil.net_connections("tcp"):
        if connection.status == psutil.CONN_LISTEN and connection.laddr and connection.laddr.port == port:
            holder = f"process {connection.pid}" if connection.pid else "another process"
            msg = f"port {port} of {LOOPBACK} is taken by {holder}; choose another with PULSAR_PORT or PULSAR_WEB_PORT"
            raise StartError(msg)


if __name__ == "__main__":
    sys.exit(main())
