"""Key windows, retries and ack leases: a real broker, official clients of three languages, one gateway and three.

The case is the one that users report: of five messages of a key, the first is given back twice. Directly the worker
sees the others first; with a window of 1 it sees them behind it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from integration.artifacts import PULSAR_VERSIONS
from integration.compatibility.place import Place
from tests.integration.probes import tried

IN_ORDER: Final = "0 0 0 1 2 3 4"
LEASES: Final = {"ack_lease": "extended, then lost", "late_ack": "0 1 2 3 4 5", "late_batch": "0 1 2 3 4 5"}
RETRIES: Final = ("retry_growing", "retry_capped")
TRIALS: Final = {
    "python": ("window_nack", "window_batch", "window_timeout", *RETRIES),
    "java": ("window_nack", "window_batch", "window_index", "window_backoff", "window_timeout", *RETRIES),
    "go": ("window_nack", "window_batch", "window_backoff", *RETRIES),
}


@pytest.fixture(scope="module", params=[1, 3], ids=["gateway", "replicas"])
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """A broker with the services that the probe programs ask for, and gateways before it."""
    directory: Path = tmp_path_factory.mktemp("windows")
    with Place(PULSAR_VERSIONS[0], directory, request.param) as made:
        yield made


@pytest.mark.slow
@pytest.mark.broker
@pytest.mark.parametrize("client", TRIALS)
def test_nothing_of_a_key_overtakes_what_is_given_back(client: str, place: Place) -> None:
    """By a negative ack, an ack timeout or a redelivery backoff, batches included; directly the others come first.

    With a retry delay, nothing comes before it is over, the second time as much later as its multiplier and bound say.
    """
    assert tried(client, place.service_url, place, TRIALS[client]) == dict.fromkeys(TRIALS[client], IN_ORDER)
    seen = tried(client, place.broker.service_url, place, ["window_nack"])["window_nack"].split()
    last = len(seen) - 1 - seen[::-1].index("0")
    assert seen.index("1") < last, f"{seen}: the one that is given back is overtaken, if not at once then the last time"


@pytest.mark.slow
@pytest.mark.broker
@pytest.mark.parametrize("client", TRIALS)
def test_a_message_is_its_workers_for_as_long_as_it_asks_for_more_time(client: str, place: Place) -> None:
    """By an ordinary call: the last message id. Without it, it comes again after the lease.

    To another worker, if there is one: acknowledgements of what that one has by then, by the client that lost it, count
    for nothing, and all of it comes again when the other leaves.
    """
    assert tried(client, place.service_url, place, list(LEASES)) == LEASES
