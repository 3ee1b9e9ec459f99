"""Finds Java and says how Pulsar wants it called.

Pulsar 4 needs Java 17 or newer. Its own start scripts, which the published artifacts lack, pass a list of
`--add-opens`: without it Netty falls back to slow buffers and BookKeeper to guesses about the machine.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from integration.errors import ToolMissingError

if TYPE_CHECKING:
    from collections.abc import Iterable

MINIMUM_VERSION = 17
INSTALL_HINT = "install it with `apt-get install openjdk-17-jdk-headless maven` or run `make setup` as root"

# From `bin/pulsar` of the distribution, 4.0 and 4.2 alike.
_OPENED_PACKAGES = (
    "java.base/sun.net",
    "java.management/sun.management",
    "jdk.management/com.sun.management.internal",
    "java.base/jdk.internal.platform",
    "java.base/java.nio",
    "java.base/jdk.internal.misc",
    "java.base/java.util.zip",
)


@cache
def java() -> Path:
    """Return the `java` program: the one of JAVA_HOME, else the first on the path.

    Raises:
        ToolMissingError: there is none, or it is older than Java 17.
    """
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=str(Path(home, "bin"))) if home else None
    found = found or shutil.which("java")
    if not found:
        msg = f"Java {MINIMUM_VERSION} or newer is needed and was not found: {INSTALL_HINT}"
        raise ToolMissingError(msg)
    # `java -version` writes to standard error, by tradition.
    answer = subprocess.run([found, "-version"], capture_output=True, text=True, check=False).stderr
    version = re.search(r'version "(\d+)', answer)
    if not version or int(version[1]) < MINIMUM_VERSION:
        msg = f"Java {MINIMUM_VERSION} or newer is needed; {found} is {answer.strip()!r}: {INSTALL_HINT}"
        raise ToolMissingError(msg)
    return Path(found)


def java_command(
    main_class: str, libraries: Path, *arguments: str, heap_mib: int, direct_mib: int, options: Iterable[str] = ()
) -> list[str]:
    """Return the command line that runs `main_class` from the jars in `libraries`.

    Args:
        main_class: full name.
        libraries: directory of jars.
        arguments: the program's own arguments.
        heap_mib: the largest heap; the smallest is a quarter of it.
        direct_mib: the most memory outside the heap, where Netty and BookKeeper keep messages.
        options: further options of the virtual machine.
    """
    return [
        str(java()),
        f"-Xms{heap_mib // 4}m",
        f"-Xmx{heap_mib}m",
        f"-XX:MaxDirectMemorySize={direct_mib}m",
        "-XX:+ExitOnOutOfMemoryError",
        *(f"--add-opens={package}=ALL-UNNAMED" for package in _OPENED_PACKAGES),
        "-Dio.netty.tryReflectionSetAccessible=true",
        "-Djava.net.preferIPv4Stack=true",
        *options,
        "-cp",
        f"{libraries}/*",
        main_class,
        *arguments,
    ]
