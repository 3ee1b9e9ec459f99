"""A broker's classes as Java maps them into memory, kept beside its jars.

Problem: Java reads some 15,000 classes from jars and checks each whenever a broker starts, which is 40 % of the CPU of
a start. Rule kept: an archive is whole or absent, and a broker starts without one as well. Java takes an archive of the
same Java only, so its name says which; the jars of a version never change.

`python -m integration.class_archive` makes them (`make artifacts` does so): it lets Java write down what a broker has
loaded that served a producer and a consumer.

Source: Java's "Class Data Sharing", JEP 350.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import Final

import pulsar

from integration import artifacts
from integration.errors import IntegrationError
from integration.java import java
from integration.logs import tail
from integration.once import made_once
from integration.standalone import PulsarStandalone

WRITING_S_MAX: Final = 180.0
"""Java writes the archive when it ends, in some ten seconds on two cores."""
MESSAGES: Final = 20
RECEIVE_MS: Final = 30_000
TOPIC: Final = "persistent://public/default/classes"


def ensure(version: str) -> Path:
    """Return the archive of a broker's version, made first if there is none.

    Raises:
        ToolMissingError, DownloadError, StartError: as starting a broker does.
        IntegrationError: the broker served no client, or Java wrote nothing.
    """
    archive = artifacts.broker(version).classes(java())
    waiting = "another process makes an archive of classes; waiting for it"
    return made_once(archive, artifacts.cache_root() / "classes.lock", waiting, partial(_make, version))


def _make(version: str, work: Path) -> Path:
    archive = work / "classes.jsa"
    print(f"making an archive of the classes of Pulsar {version}, once", file=sys.stderr, flush=True)
    broker = PulsarStandalone(version, data=work / "data", options=(f"-XX:ArchiveClassesAtExit={archive}",))
    with broker:
        try:
            _use(broker.service_url)
        except pulsar.PulsarException as error:
            raise IntegrationError(f"the broker did not serve a client: {error}") from error
        broker.stop(WRITING_S_MAX)
    if not archive.exists():
        raise IntegrationError(f"Java has written no archive; end of the broker's log:\n{tail(broker.log)}")
    return archive


def _use(service_url: str) -> None:
    """Let it load what a topic, a producer and a consumer need."""
    client = pulsar.Client(service_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    consumer = client.subscribe(TOPIC, "s", consumer_type=pulsar.ConsumerType.KeyShared)
    producer = client.create_producer(TOPIC)
    for number in range(MESSAGES):
        producer.send(b"message", partition_key=str(number))
    for _ in range(MESSAGES):
        consumer.acknowledge(consumer.receive(RECEIVE_MS))
    client.close()


def main() -> int:
    """Make those of the versions that tests use."""
    try:
        for version in sys.argv[1:] or artifacts.PULSAR_VERSIONS:
            ensure(version)
    except IntegrationError as error:
        print(f"no archive of classes, so brokers start more slowly: {error}", file=sys.stderr)
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
