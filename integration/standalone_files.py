"""The configuration files of one standalone broker: what the distribution ships as `conf/`, cut to what tests need.

The published artifacts contain no configuration, and Pulsar's defaults are those of a cluster. Settings here keep the
broker on loopback, small (some 400 MB resident) and quick, and keep its behaviour towards clients that of the
distribution's `standalone.conf`. One file configures broker and bookie, as Pulsar's own does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from integration.ports import LOOPBACK

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_SETTINGS = {
    "clusterName": "standalone",
    # Empty is not the default: it lets the starter keep its metadata in RocksDB under --metadata-dir.
    "metadataStoreUrl": "",
    "configurationMetadataStoreUrl": "",
    "bindAddress": LOOPBACK,
    "advertisedAddress": LOOPBACK,
    "managedLedgerDefaultEnsembleSize": "1",
    "managedLedgerDefaultWriteQuorum": "1",
    "managedLedgerDefaultAckQuorum": "1",
    "loadBalancerEnabled": "false",
    # A test's topic must survive a minute without clients.
    "brokerDeleteInactiveTopicsEnabled": "false",
    "acknowledgmentAtBatchIndexLevelEnabled": "true",
    # After five errors of a bookie in a minute a broker leaves it alone for half an hour; here there is no other.
    "bookkeeperClientHealthCheckEnabled": "false",
    # The bookie: on loopback, on the port it is told, and without waiting for the disk. The page cache outlives a
    # SIGKILL of the process, so nothing that a test can do loses data.
    "allowLoopback": "true",
    "listeningInterface": "lo",
    "allowEphemeralPorts": "true",
    "journalSyncData": "false",
    "journalMaxGroupWaitMSec": "1",
    "diskUsageThreshold": "0.99",
    "diskUsageWarnThreshold": "0.99",
    # The defaults are shares of the machine's memory, split over as many write-ahead buffers as it has cores.
    "dbStorage_writeCacheMaxSizeMb": "64",
    "dbStorage_readAheadCacheMaxSizeMb": "64",
    "dbStorage_rocksDB_blockCacheSize": str(32 * 1024 * 1024),
}

_TRANSACTION_SETTINGS = {"transactionCoordinatorEnabled": "true", "systemTopicEnabled": "true"}

LOG4J = """status = warn
# Its own hook races with those of the tools, which print their totals as they end.
shutdownHook = disable
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{ISO8601} %-5p %c{1} - %m%n%throwable
rootLogger.level = info
rootLogger.appenderRef.console.ref = console
# One line per HTTP request would bury the rest under the readiness checks.
logger.requests.name = org.eclipse.jetty.server.RequestLog
logger.requests.level = warn
"""


def write_configuration(
    directory: Path, *, port: int, web_port: int, transactions: bool, settings: Mapping[str, str]
) -> tuple[Path, Path]:
    """Write `standalone.conf` and `log4j2.properties` into `directory` and return their paths.

    `settings` has the last word over everything written here, the ports included.
    """
    values = {**_SETTINGS, "brokerServicePort": str(port), "webServicePort": str(web_port)}
    if transactions:
        values |= _TRANSACTION_SETTINGS
    values |= settings
    configuration = directory / "standalone.conf"
    configuration.write_text("".join(f"{name}={value}\n" for name, value in values.items()))
    log4j = directory / "log4j2.properties"
    log4j.write_text(LOG4J)
    return configuration, log4j
