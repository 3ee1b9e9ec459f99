"""Workers at other replicas than the owner acknowledge and drop their connections while messages are on their way."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from integration.standalone import PulsarStandalone
from proxy.wire import pulsar_pb2 as pb
from tests.integration.busy_replicas import standstills
from tests.integration.owner_rig import deployment_of, tls_settings
from tests.integration.raw_client import RawClient

MESSAGES: Final = 4_000
KEYS: Final = 50
ROUNDS: Final = 15
TAKEN: Final = 40
"""Messages that a worker acknowledges before it goes."""
MORE: Final = 400
"""Permits behind that: so many are on their way when it goes."""

pytestmark = [pytest.mark.slow, pytest.mark.broker]

Place = tuple[int, int]


def place_of(message_id: pb.MessageIdData) -> Place:
    """Where a message is in the topic."""
    return message_id.ledgerId, message_id.entryId


@pytest.mark.parametrize("between_replicas", ["plain", "tls"])
def test_what_a_worker_acknowledged_before_it_went_does_not_come_again(
    broker: PulsarStandalone, between_replicas: str, tmp_path: Path
) -> None:
    """Also over TLS, where a connection that is closed while its peer writes takes with it what was not read."""
    topic = f"persistent://public/default/last-acks-{between_replicas}"
    settings = tls_settings(tmp_path) if between_replicas == "tls" else {}
    with deployment_of(broker, f"last-acks-{between_replicas}", tmp_path, settings) as replicas:
        with RawClient(broker.service_url) as direct:
            direct.locate(topic).subscribe(topic, initialPosition=pb.CommandSubscribe.Earliest)
        with RawClient(broker.service_url) as direct:
            direct.locate(topic).produce(topic, [(f"key-{number % KEYS}", bytes(1_000)) for number in range(MESSAGES)])
        acknowledged: set[Place] = set()
        again: list[Place] = []
        led = 0
        for number in range(ROUNDS * len(replicas.gateways)):
            gateway = replicas.gateways[number % len(replicas.gateways)]
            with RawClient(gateway.service_url) as worker:
                worker.locate(topic).joined(topic).flow(TAKEN)
                led += not gateway.workers(topic, "s")
                taken = [message.place for message in worker.messages(TAKEN)]
                again += [place for place in map(place_of, taken) if place in acknowledged]
                worker.flow(MORE)
                worker.messages(1)
                worker.ack(taken)
            acknowledged |= set(map(place_of, taken))
        assert led >= ROUNDS, "most workers are not at the owner"
        assert again == [] or standstills(*(gateway.log for gateway in replicas.gateways))
