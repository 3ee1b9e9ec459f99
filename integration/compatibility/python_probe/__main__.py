"""Try features: `python -m integration.compatibility.python_probe URL PREFIX KEYS FEATURE...`.

The token is in the environment. Prints one line of JSON for each: `{"feature": ..., "ok": ..., "detail": ...}`; `ok` is
true, false, or null for what the client does not offer. Before them it says which version it is, and it keeps a
producer on the topic `hello`, where the broker shows what the client calls itself.
"""

from __future__ import annotations

import json
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import pulsar

from integration.compatibility.python_probe.key_shared import KEY_SHARED
from integration.compatibility.python_probe.others import OTHERS
from integration.compatibility.python_probe.scene import MissingError, Place, Scene
from integration.compatibility.python_probe.windows import WINDOWS

AT_ONCE: Final = 4
"""Most of a feature's time is waiting."""
FEATURES: Final = KEY_SHARED | OTHERS | WINDOWS


def report(**values: object) -> None:
    """Print a line whole, whatever other threads print."""
    sys.stdout.write(json.dumps(values) + "\n")
    sys.stdout.flush()


def attempt(place: Place, feature: str) -> None:
    """Try one feature and say how it went."""
    if feature not in FEATURES:
        report(feature=feature, ok=None, detail="not tried")
        return
    try:
        with Scene(place, feature) as scene:
            detail = FEATURES[feature](scene)
    except MissingError as missing:
        report(feature=feature, ok=None, detail=str(missing))
    except Exception as error:  # noqa: BLE001 - whatever it is, it is the outcome
        report(feature=feature, ok=False, detail=f"{type(error).__name__}: {error}")
    else:
        report(feature=feature, ok=True, detail=detail)


def main() -> None:
    """Try what the command line names."""
    service_url, prefix, keys, *features = sys.argv[1:]
    place = Place(service_url, prefix, Path(keys), os.environ["KEYLINE_PROBE_TOKEN"])
    report(library=f"pulsar-client {pulsar.__version__}")
    with Scene(place, "hello") as hello:
        hello.producer()
        with ThreadPoolExecutor(AT_ONCE) as pool:
            for feature in features:
                pool.submit(attempt, place, feature)


if __name__ == "__main__":
    main()
