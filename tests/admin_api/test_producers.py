"""What the admin API tells of producers that own a topic or wait to."""

from __future__ import annotations

from typing import Any

from admin_api.schemas.producers import ElectionPage, Elections
from proxy.net.election.elections import ElectionSettings, ProducerElections
from proxy.net.election.rivals import ProducerRivals
from proxy.producers.announcement import Announcement, BestWaiting, TopicNews, encode
from proxy.views.admin import Admin
from proxy.wire import pulsar_pb2 as pb
from tests.admin_api.rig import AdminRig
from tests.net.producer_rig import TOPIC, Exchange, not_ready, ready, want
from tests.net.session_rig import SessionRig

ALL = "/api/v1/exclusive-producers"
ONE = f"{ALL}/public/default/primary"


class ProducersRig(AdminRig):
    """With clients of the same gateway."""

    def client(self) -> SessionRig:
        """One more."""
        return SessionRig(clock=self.clock, elections=self.elections).connect()

    def owned(self) -> SessionRig:
        """A client that owns the topic, with priority 5."""
        owner = self.client()
        owner.client.deliver(want(1, 5, name="first"))
        owner.broker.deliver(ready(1, name="first", epoch=2))
        return owner

    def json(self, path: str, **query: Any) -> Any:
        """The body of a good answer."""
        answer = self.ask("GET", path, params=query)
        assert answer.status_code == 200, answer.text
        return answer.json()


def test_an_owner_and_those_who_wait_are_told() -> None:
    """In the order of their promotion, with what a person looks for."""
    rig = ProducersRig()
    rig.owned()
    for number, priority in enumerate((-1, 7, 0)):
        rig.clock.advance(1)
        rig.client().client.deliver(want(10 + number, priority))
    answer = rig.json(ONE)
    ElectionPage.model_validate(answer, strict=True)
    summary = answer["summary"]
    assert summary["topic"] == TOPIC
    assert (summary["waiting_count"], summary["vacant_s"], summary["held"]) == (3, 0, "none")
    assert (summary["rival"], summary["outranked"]) == (None, False)
    assert summary["owner"] | {"since": 0} == {
        "producer_name": "first",
        "access_mode": "wait_for_exclusive",
        "priority": 5,
        "topic_epoch": 2,
        "since": 0,
        "address": "192.0.2.7:40000",
        "client_version": "Pulsar-CPP-v3.7.0",
    }
    assert summary["now"] - summary["owner"]["since"] == 3
    assert [(row["position"], row["priority"], row["stage"]) for row in answer["waiting"]] == [
        (0, 7, "waiting"),
        (1, 0, "waiting"),
        (2, -1, "waiting"),
    ]
    assert [summary["now"] - row["since"] for row in answer["waiting"]] == [1, 0, 2]


def test_the_queue_is_told_a_page_at_a_time() -> None:
    """From a position on."""
    rig = ProducersRig()
    rig.owned()
    client = rig.client()
    for number in range(5):
        client.client.deliver(want(10 + number, -number, producer_id=number))
    first = rig.json(ONE, limit=3)
    assert [row["priority"] for row in first["waiting"]] == [0, -1, -2]
    second = rig.json(ONE, limit=3, first=first["next"])
    assert [(row["position"], row["priority"]) for row in second["waiting"]] == [(3, -3), (4, -4)]
    assert second["next"] is None


def test_all_topics_are_told_a_page_at_a_time() -> None:
    """By name, with the sums of all on each page."""
    rig = ProducersRig()
    client = rig.client()
    for number in range(3):
        client.client.deliver(want(10 + number, producer_id=number, topic=f"{TOPIC}-partition-{number}"))
    client.broker.deliver(ready(10) + not_ready(11))
    first = rig.json(ALL, limit=2)
    Elections.model_validate(first, strict=True)
    assert [item["topic"][-1] for item in first["elections"]] == ["0", "1"]
    second = rig.json(ALL, limit=2, after=first["next"])
    assert [item["topic"][-1] for item in second["elections"]] == ["2"]
    assert second["next"] is None
    sums = second["summary"]
    assert (sums["topics_count"], sums["owners_count"], sums["waiting_count"]) == (3, 1, 2)
    assert sums["counters"]["arrivals_total"] == 3


def test_a_topic_without_an_owner_is_told_apart_from_one_that_is_owned_elsewhere() -> None:
    """Nobody has it for two seconds: that is a page. The broker lets one wait: somebody has it."""
    rig = ProducersRig()
    client = rig.client()
    client.client.deliver(want(10))
    rig.clock.advance(2)
    assert rig.json(ONE)["summary"]["vacant_s"] == 2
    client.broker.deliver(not_ready(10, name="named"))
    answer = rig.json(ONE)
    assert (answer["summary"]["owner"], answer["summary"]["vacant_s"]) == (None, 0)
    assert [(row["stage"], row["producer_name"]) for row in answer["waiting"]] == [("parked", "named")]


def test_one_that_took_the_topic_is_told_as_its_owner() -> None:
    """Without a priority, for it did not wait."""
    rig = ProducersRig()
    client = rig.client()
    client.client.deliver(want(10, mode=pb.Exclusive))
    client.broker.deliver(ready(10, name="taker", epoch=None))
    owner = rig.json(ONE)["summary"]["owner"]
    assert (owner["access_mode"], owner["priority"], owner["topic_epoch"]) == ("exclusive", None, None)


def test_topics_that_are_not_persistent_have_owners_too() -> None:
    """They are asked for by their domain."""
    rig = ProducersRig()
    topic = "non-persistent://public/default/primary"
    rig.client().client.deliver(want(10, topic=topic))
    assert rig.ask("GET", ONE).status_code == 404
    assert rig.json(ONE, domain="non-persistent")["summary"]["topic"] == topic


def test_a_topic_that_nobody_wants_is_not_found() -> None:
    """The answer says where those are that somebody wants."""
    rig = ProducersRig()
    answer = rig.ask("GET", ONE)
    assert answer.status_code == 404
    assert answer.json()["detail"] == (
        f"no producer of this gateway owns topic {TOPIC} or waits for it; "
        "`keyline producers` lists the topics that have any"
    )
    assert rig.ask("GET", ONE, params={"first": -1}).status_code == 400


def test_what_happens_to_producers_is_told_as_events() -> None:
    """By topic; with no subscription."""
    rig = ProducersRig()
    events = rig.subscriptions.events.listen(lambda: None)
    owner = rig.owned()
    second = rig.client()
    second.client.deliver(want(10, 3))
    owner.client.lose()
    _, told = events.take()
    assert [(event.kind, event.topic, event.subscription) for event in told] == [
        ("producer_promoted", TOPIC, ""),
        ("producer_queued", TOPIC, ""),
        ("producer_left", TOPIC, ""),
    ]
    assert told[0].facts == {
        "producer_name": "first",
        "access_mode": "wait_for_exclusive",
        "priority": 5,
        "topic_epoch": 2,
        "address": "192.0.2.7:40000",
        "vacant_s": 0,
        "waiting_count": 0,
    }


class ReplicaRig(ProducersRig):
    """One of several; the test is the others."""

    def __init__(self) -> None:
        super().__init__()
        self.exchange = Exchange()
        rivals = ProducerRivals("replica-1", self.exchange.mail("replica-1"), self.clock)
        self.elections = ProducerElections(self.clock, self.subscriptions.events, ElectionSettings(), rivals)
        self.elections.start()
        admin = Admin(self.subscriptions, self.elections, lambda: self.reasons, {})
        self.serve(view=admin, control=admin, version="1.2.3")


def test_the_best_of_another_replica_is_told() -> None:
    """And that nobody is asked for here because of it."""
    rig = ReplicaRig()
    rig.clock.advance(ElectionSettings().producer_return_grace_s)
    best = BestWaiting(7, returning=False, waited_s=2.0)
    rig.exchange.say(encode(Announcement("replica-2", 1, (TopicNews(TOPIC, owned=False, best=best),))))
    rig.client().client.deliver(want(10, 3))
    answer = rig.json(ONE)
    ElectionPage.model_validate(answer, strict=True)
    summary = answer["summary"]
    assert summary["outranked"]
    assert summary["now"] - summary["rival"].pop("since") == 2
    assert summary["rival"] == {"replica": "replica-2", "priority": 7, "returning": False}
    sums = rig.json(ALL)
    Elections.model_validate(sums, strict=True)
    assert (sums["summary"]["outranked_count"], sums["summary"]["rivals_count"]) == (1, 1)
