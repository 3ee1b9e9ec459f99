"""Several gateways, one line: producers that wait at different replicas are promoted in one order, on real brokers.

Replicas tell each other who waits (`proxy.net.election.rivals`); the broker knows nothing of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import httpx
import pytest

from integration.gateway import KeylineGateway
from integration.standalone import PulsarStandalone
from proxy.producers.rivals import EXPIRY_S
from tests.integration.conditions import eventually
from tests.integration.conftest import StartGateway
from tests.integration.exclusive_rig import BROKER_CLOSES, QUEUED, READY, Patient, TopicClient, administer
from tests.integration.faults.line import bug_reports

REPLICAS = 3
PRIORITIES = (1, 9, 4, 7, 3, 8, -2, 6, 5)


class Line:
    """A topic of the test's own, and the gateways in front of it."""

    def __init__(
        self, broker: PulsarStandalone, gateways: list[KeylineGateway], topic: str, clients: ExitStack
    ) -> None:
        self.broker = broker
        self.gateways = gateways
        self.topic = topic
        self._clients = clients
        self._names: dict[int, str] = {}

    def client(self, replica: int) -> TopicClient:
        """One more connection through a gateway."""
        return self._clients.enter_context(TopicClient(self.gateways[replica].service_url, self.topic))

    def patient(self, replica: int, priority: int | None = None) -> Patient:
        """One more official client through a gateway, that begins to wait."""
        patient = Patient(self.gateways[replica].service_url, self.topic, priority)
        self._clients.callback(patient.close)
        return patient

    def tells(self, replica: int) -> dict[str, Any]:
        """What a gateway says of the topic; nothing if nobody there wants it."""
        gateway = self.gateways[replica]
        path = self.topic.removeprefix("persistent://")
        answer = httpx.get(f"{gateway.admin_url}/api/v1/exclusive-producers/{path}", trust_env=False, timeout=30)
        values: dict[str, Any] = answer.raise_for_status().json() if answer.status_code != httpx.codes.NOT_FOUND else {}
        return values

    def waiting(self, replica: int) -> list[int]:
        """Priorities of those that wait at a gateway, in order."""
        return [row["priority"] for row in self.tells(replica).get("waiting", [])]

    def stages(self, replica: int) -> list[str]:
        """Where those stand that wait at a gateway, in order."""
        return [row["stage"] for row in self.tells(replica).get("waiting", [])]

    def rival(self, replica: int) -> int | None:
        """The priority of the best that a gateway knows elsewhere."""
        rival = self.tells(replica).get("summary", {}).get("rival")
        return None if rival is None else int(rival["priority"])

    def best(self, replicas: set[int]) -> int | None:
        """The best that waits at any of these gateways."""
        return max((priority for replica in replicas for priority in self.waiting(replica)), default=None)

    def settled(self, *replicas: int) -> bool:
        """Whether each of these at which somebody waits knows the best of the others."""
        return all(
            not self.waiting(replica) or self.rival(replica) == self.best(set(replicas) - {replica})
            for replica in replicas
        )

    def settles(self, *replicas: int) -> None:
        """Wait until they do."""
        eventually(lambda: self.settled(*replicas), "replicas to know of each other")

    def heard_by(self, *replicas: int) -> None:
        """Wait until these know of a topic that somebody waits for elsewhere: there is only this one."""
        for replica in replicas:
            url = f"{self.gateways[replica].admin_url}/api/v1/exclusive-producers"
            eventually(
                lambda: httpx.get(url, trust_env=False, timeout=30).json()["summary"]["rivals_count"],  # noqa: B023 - called before the next
                "replicas to hear of it",
            )

    def yields(self) -> int:
        """Turns that were given away, at all gateways together."""
        told = (self.tells(replica).get("summary") for replica in range(len(self.gateways)))
        return sum(summary["counters"]["yields_total"] for summary in told if summary)


@pytest.fixture
def line(broker: PulsarStandalone, start_gateway: StartGateway, new_topic: Callable[[str], str]) -> Iterator[Line]:
    """Three replicas; nobody has asked for the topic yet."""
    names = [f"replica-{number}" for number in range(REPLICAS)]
    gateways = [
        start_gateway(broker, groups_enabled="true", groups_mode="streams", replica_name=name) for name in names
    ]
    with ExitStack() as clients:
        yield Line(broker, gateways, new_topic("line"), clients)
    for gateway in gateways:
        assert not bug_reports(gateway.log)


def test_producers_are_promoted_by_priority_over_all_replicas(line: Line) -> None:
    """Owner after owner leaves; each time the best of all that wait follows, wherever it waits."""
    owner = line.patient(0)
    producer = owner.producer()
    waiting: dict[int, Patient] = {}
    for number, priority in enumerate(PRIORITIES):
        replica = number % REPLICAS
        waiting[priority] = line.patient(replica, priority)
        eventually(lambda: priority in line.waiting(replica), "it to wait")  # noqa: B023 - called before the next
    for priority in sorted(PRIORITIES, reverse=True):
        line.settles(*range(REPLICAS))
        producer.close()
        producer = waiting.pop(priority).producer()
        assert all(patient.waiting for patient in waiting.values()), f"{priority} is not alone"
        producer.send(str(priority).encode())


def test_no_epoch_is_spent_when_replicas_know_each_other(line: Line) -> None:
    """One replica's best is at the broker; the others hold theirs, and say for whom."""
    owner = line.client(0)
    assert owner.owns() == 0
    best = line.client(1).waits(9)
    eventually(lambda: line.stages(1) == ["parked"], "it to wait at the broker")
    line.heard_by(0, 2)
    low, middle = line.client(2), line.client(0)
    low.waits(1)
    middle.waits(5)
    eventually(lambda: line.rival(2) == 9 and line.rival(0) == 9, "all to know of the best")
    assert line.stages(2) == ["waiting"]
    eventually(lambda: line.tells(2)["summary"]["outranked"], "the start to be over")
    summary = line.tells(2)["summary"]
    assert summary["rival"]["replica"].startswith("replica-1-")
    assert administer(line.broker, "GET", line.topic, "stats")["waitingPublishers"] == 1
    owner.leaves()
    assert best.promoted() == 1
    line.settles(0, 1, 2)
    best.leaves()
    assert middle.promoted() == 2
    middle.close()
    assert low.promoted() == 3


def test_one_that_came_to_the_broker_first_gives_its_turn_to_a_better_one(line: Line) -> None:
    """For an epoch; it is promoted in its own turn."""
    owner = line.client(0)
    assert owner.owns() == 0
    low = line.client(1).waits(1)
    eventually(lambda: line.stages(1) == ["parked"], "it to wait at the broker")
    high = line.client(2).waits(9)
    eventually(lambda: line.stages(2) == ["parked"], "the better one as well")
    line.settles(0, 1, 2)
    owner.leaves()
    assert high.promoted() == 2
    assert line.yields() == 1
    assert low.heard() == []
    high.close()
    assert low.promoted() == 3


def test_a_replica_is_killed_while_its_waiter_is_the_best(line: Line) -> None:
    """The next is promoted when the dead one is forgotten, and not long after."""
    owner = line.client(0)
    assert owner.owns() == 0
    line.client(1).waits(9)
    line.settles(0, 1)
    low, middle = line.client(2), line.client(2)
    low.waits(1)
    middle.waits(5)
    eventually(lambda: line.rival(2) == 9, "the best to be known")
    line.gateways[1].kill()
    owner.leaves()
    middle.promoted()
    assert line.tells(2)["summary"]["counters"]["vacancy_seconds_total"] < 10 * EXPIRY_S
    middle.leaves()
    low.promoted()


def test_an_owner_dies_with_the_replica_that_the_best_waited_at(line: Line) -> None:
    """Of those that live the best is promoted; a replica that begins again takes part again."""
    owner = line.client(1)
    assert owner.owns() == 0
    line.client(1).waits(9)
    low, middle = line.client(0).waits(1), line.client(2).waits(5)
    eventually(lambda: line.rival(0) == 9 and line.rival(2) == 9, "the best to be known")
    line.gateways[1].kill()
    middle.promoted()
    line.gateways[1].start()
    again = line.client(1).waits(7)
    line.settles(0, 1, 2)
    middle.leaves()
    again.promoted()
    again.leaves()
    low.promoted()


def test_a_replica_that_stops_says_so(line: Line) -> None:
    """The others do not wait for it until it is forgotten: they know nothing of it when it has gone."""
    owner = line.client(0)
    assert owner.owns() == 0
    line.client(1).waits(9)
    line.settles(0, 1)
    low = line.client(2).waits(1)
    eventually(lambda: line.rival(2) == 9, "the best to be known")
    line.gateways[1].stop()
    eventually(lambda: line.rival(2) is None, "them to hear it", EXPIRY_S / 2)
    owner.leaves()
    low.promoted()


def test_an_owner_resumes_after_an_unload_while_replicas_wait_with_its_own(line: Line) -> None:
    """Its gateway holds newcomers for it, and says who is the best of them: nobody elsewhere takes its turn."""
    owner = line.client(0)
    assert owner.owns(name="former") == 0
    best = line.client(0).waits(9)
    line.heard_by(1, 2)
    others = [line.client(1).waits(5), line.client(2).waits(1)]
    for replica in (1, 2):
        eventually(lambda: line.rival(replica) == 9, "the best to be known")  # noqa: B023 - called before the next
        eventually(lambda: line.tells(replica)["summary"]["outranked"], "the start to be over")  # noqa: B023 - same
    administer(line.broker, "PUT", line.topic, "unload")
    assert owner.hears().word == BROKER_CLOSES
    assert owner.owns(name="former", epoch=0) == 0
    assert [client.heard() for client in (best, *others)] == [[], [], []]
    owner.leaves()
    assert best.promoted() == 1


def test_one_alone_has_the_topic_after_an_unload_with_one_that_waits_at_the_broker(line: Line) -> None:
    """The broker promotes that one in the middle of the unload, as docs/producers.md says: with a new epoch."""
    owner = line.client(0)
    assert owner.owns(name="former") == 0
    other = line.client(1).waits(9)
    eventually(lambda: line.stages(1) == ["parked"], "it to wait at the broker")
    administer(line.broker, "PUT", line.topic, "unload")
    assert owner.hears().word == BROKER_CLOSES
    owner.want(name="former", epoch=0)
    resumed = owner.hears()
    if resumed.word == QUEUED:  # it is tried again
        resumed = owner.hears()
    if resumed.word == READY:
        assert READY not in [answer.word for answer in other.heard()]
        return
    assert resumed.word == "ProducerFenced", resumed
    answer = other.hears()
    if answer.word == "ServiceNotReady":
        assert other.owns(9) > 0
    else:
        assert answer.word == READY, answer


def test_nobody_is_forgotten_when_a_topic_is_unloaded(line: Line) -> None:
    """A broker tells the first that waits and forgets the others: replicas tell each other, and ask anew."""
    owner = line.client(0)
    assert owner.owns() == 0
    low = line.client(1).waits(1)
    eventually(lambda: line.stages(1) == ["parked"], "it to wait at the broker")
    high = line.client(2).waits(9)
    eventually(lambda: line.stages(2) == ["parked"], "the better one as well")
    line.settles(1, 2)
    administer(line.broker, "PUT", line.topic, "unload")
    assert owner.hears().word == BROKER_CLOSES
    assert low.hears().word == "ServiceNotReady"
    first = high.hears()
    if first.word == "ServiceNotReady":  # asked anew while the broker still unloads
        high.owns(9)
    else:
        assert first.word == READY, first
    low.waits(1)
    high.leaves()
    low.promoted()
