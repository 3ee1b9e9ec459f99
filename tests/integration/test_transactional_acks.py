"""Acknowledgements in transactions on Key_Shared, with a real broker and the clients that have them: Java's and Go's.

Directly, a broker goes on with a key while its first message is in a transaction, and brings it behind later ones after
an abort. Through the gateway nothing of the key overtakes it, whichever worker has the key by then. The monitor of the
contract, which watches every key here, is silent all the time.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from integration.artifacts import PULSAR_VERSIONS
from integration.compatibility.place import Place
from tests.integration.contract_rig import EVERY_KEY, NONE_AT_ALL, checked, violations
from tests.integration.probes import tried

THROUGH: Final = {
    "transaction_window": "0 1 0 1 2 3 4",
    "transaction_whole": "0 1 2 3 4 0 1 2 3 4",
    "transaction_abort": "| 0 1 2",
    "transaction_commit": "| 1 2",
    "transaction_timeout": "| 0 1 2",
}
OVERTAKEN: Final = "1 2 | 0"
OF_ONE: Final = {
    "java": {"transaction_batch": "0 1 2 3 4 2", "transaction_twice": "TransactionConflictException"},
    "go": {"transaction_twice": "refused"},
}
"""Go's client acknowledges a batch with its last message, and has one error for all."""


@pytest.fixture(
    scope="module",
    params=[(PULSAR_VERSIONS[0], 1), (PULSAR_VERSIONS[1], 1), (PULSAR_VERSIONS[0], 3)],
    ids=["gateway", "gateway-4.0", "replicas"],
)
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """A broker with transactions, and gateways before it."""
    version, replicas = request.param
    directory: Path = tmp_path_factory.mktemp("transactions")
    with Place(version, directory, replicas, EVERY_KEY) as made:
        yield made


@pytest.mark.slow
@pytest.mark.broker
@pytest.mark.parametrize("client", OF_ONE)
def test_nothing_of_a_key_overtakes_what_a_transaction_has(client: str, place: Place) -> None:
    """However it ends: by an abort or a commit, after its worker has left, or because its time is over."""
    wanted = THROUGH | OF_ONE[client]
    assert tried(client, place.service_url, place, list(wanted)) == wanted
    assert tried(client, place.broker.service_url, place, ["transaction_abort"]) == {"transaction_abort": OVERTAKEN}
    assert checked(*place.gateways) >= len(wanted)
    assert violations(*place.gateways) == NONE_AT_ALL
