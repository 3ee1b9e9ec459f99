"""One target under atheris, in a process of its own: `python -m tests.fuzz.engine TARGET WORKDIR [libFuzzer options]`.

atheris takes over the process: it instruments our bytecode while it is imported, prints as it likes and ends with an
exit code of its own. Inputs that look promising are kept in the target's folder under WORKDIR, and found again there
the next time; so is the input of a failure, as `crash-...`, `timeout-...` or `oom-...`.
"""

from __future__ import annotations

import importlib
import logging
import resource
import sys
from pathlib import Path
from typing import Final

import structlog

ADDRESS_SPACE_BYTES: Final = 2 << 30
"""Beyond what the process has when it begins: an allocation of more, touched or not, is a failure."""
HANG_S: Final = 10
RESIDENT_MB_MAX: Final = 1024
DICTIONARY: Final = Path(__file__).parent / "keyline.dict"


def main(name: str, work: Path, options: list[str]) -> None:
    """Search until the options say to stop; never returns."""
    import atheris  # noqa: PLC0415 - absent where it has no wheel; whoever calls has asked

    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    with atheris.instrument_imports(include=["proxy"], exclude=["proxy.wire.pulsar_pb2"]):
        importlib.import_module("proxy.wire")
        targets = importlib.import_module("tests.fuzz.targets").TARGETS
    target = targets[name]
    folder = work / name
    corpus, seeds = folder / "corpus", folder / "seeds"
    for path in (corpus, seeds):
        path.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate([*target.seeds(), *(path.read_bytes() for path in target.regressions())]):
        (seeds / f"{number:04}").write_bytes(seed)
    fixed = [
        f"-artifact_prefix={folder}/",
        f"-dict={DICTIONARY}",
        f"-max_len={target.input_bytes_max}",
        f"-timeout={HANG_S}",
        f"-rss_limit_mb={max(RESIDENT_MB_MAX, _inherited_peak_mb())}",
        f"-malloc_limit_mb={RESIDENT_MB_MAX}",
        "-print_final_stats=1",
    ]
    _bound_address_space()
    atheris.Setup([sys.argv[0], *fixed, *options, str(corpus), str(seeds)], target.run, enable_python_coverage=True)
    atheris.Fuzz()


def _inherited_peak_mb() -> int:
    """The most memory that who started this process had.

    Linux carries it over `exec` into `ru_maxrss`, which is what libFuzzer compares with its limit: after a large test
    run the limit would be passed before the first input.
    """
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def _bound_address_space() -> None:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + ADDRESS_SPACE_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3:])
