"""A replica is stopped where looking at its lease is late: see `freezing_gateway`.

`test_replicas.py` stops replicas at any moment, and hits such a one once in many runs.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import psutil
import pytest

from integration.gateway import KeylineGateway
from integration.load.audit import AuditResult
from integration.load.lives import Cause
from integration.load.run import LoadRun
from integration.standalone import PulsarStandalone
from tests.integration.conditions import eventually
from tests.integration.conftest import explain
from tests.integration.exclusive_rig import stream_holders
from tests.integration.faults.conftest import FaultyBroker
from tests.integration.faults.line import GATEWAY_SETTINGS, bug_reports, reach

MESSAGES: Final = 6_000
KEYS: Final = 300
RATE_PER_S: Final = 400.0
RECEIVER_QUEUE_SIZE: Final = 20
SINCE: Final = 500
"""Messages that the other delivers before the frozen one wakes up."""

pytestmark = [pytest.mark.slow, pytest.mark.broker]


def frozen_with_messages_in_hand(
    broker: PulsarStandalone, topic: str, directory: Path, place: str, *, careless: bool
) -> tuple[AuditResult, Path]:
    """What the workers of two replicas saw of it, and the log of the one that was frozen."""
    order = directory / "freeze"
    arguments = [*(["careless"] * careless), place, str(order)]
    program = [sys.executable, "-m", "tests.integration.freezing_gateway", *arguments]
    with ExitStack() as ends:
        frozen, other = (
            ends.enter_context(
                KeylineGateway(
                    broker.service_url,
                    broker.admin_url,
                    directory / name,
                    settings={
                        **GATEWAY_SETTINGS,
                        "groups_enabled": "true",
                        "groups_mode": "streams",
                        "replica_name": name,
                    },
                    program=program if name == "replica-0" else None,
                )
            )
            for name in ("replica-0", "replica-1")
        )
        load = LoadRun(directory / "load", frozen.service_url, topic, producer_url=broker.service_url)
        run = ends.enter_context(load)
        for name, gateway in (("a1", frozen), ("a2", frozen), ("b1", other), ("b2", other)):
            url = gateway.service_url
            run.start_worker(name, service_url=url, receiver_queue_size=RECEIVER_QUEUE_SIZE, ack_delay_ms=5)
        for worker in run.workers.values():
            worker.wait_joined()
        eventually(lambda: len(stream_holders(broker, topic)) == 2, "both replicas to have streams")
        run.produce(count=MESSAGES, keys=KEYS, rate_per_s=RATE_PER_S)
        reach(run, 0.2, MESSAGES)
        with run.paused(Cause.GATEWAY_PAUSED, ["a1", "a2"]):
            order.touch()
            process = psutil.Process(frozen.pid)
            eventually(lambda: process.status() == psutil.STATUS_STOPPED, "it to stop itself")
            eventually(lambda: stream_holders(broker, topic) == {"replica-1"}, "the other to have all streams")
            run.wait_acknowledged(run.progress.acknowledged + SINCE)
        frozen.resume()
        eventually(lambda: len(stream_holders(broker, topic)) == 2, "both replicas to have streams again")
        result = run.finish()
        assert not bug_reports(frozen.log) + bug_reports(other.log)
        return result, frozen.log


def test_a_replica_frozen_with_messages_in_hand_does_not_send_them(
    faulty_broker: FaultyBroker, new_topic: Callable[[str], str], tmp_path: Path
) -> None:
    """The other has delivered them since; the worker they were for comes back by a new connection."""
    log = nothing_comes_late(faulty_broker.broker, new_topic("frozen"), tmp_path, "sending")
    assert 1 <= log.read_text().count("stalled connection closed") <= 2, "the connections of one worker, or of both"


def test_nor_does_one_that_has_dispatched_them(
    faulty_broker: FaultyBroker, new_topic: Callable[[str], str], tmp_path: Path
) -> None:
    """They wait again, until their stream is leased again or is another's; the workers notice nothing."""
    log = nothing_comes_late(faulty_broker.broker, new_topic("dispatched"), tmp_path, "dispatched")
    assert "stalled connection closed" not in log.read_text()


def nothing_comes_late(broker: PulsarStandalone, topic: str, directory: Path, place: str) -> Path:
    """Every message once and in order, but for what the workers of the frozen one had."""
    result, log = frozen_with_messages_in_hand(broker, topic, directory, place, careless=False)
    assert result.ok, explain(result)
    assert result.delivered == result.acknowledged == MESSAGES, explain(result)
    assert set(result.duplicates_by_cause) <= {Cause.GATEWAY_PAUSED, Cause.CLIENT_QUEUE}, explain(result)
    return log


@pytest.mark.parametrize("place", ["sending", "dispatched"])
def test_sending_them_would_be_noticed(
    faulty_broker: FaultyBroker, new_topic: Callable[[str], str], tmp_path: Path, place: str
) -> None:
    """The same without the rule: messages of before come twice, and after later ones of their keys."""
    result, log = frozen_with_messages_in_hand(
        faulty_broker.broker, new_topic("careless"), tmp_path, place, careless=True
    )
    assert "stalled connection closed" not in log.read_text()
    assert result.unexplained, explain(result)
