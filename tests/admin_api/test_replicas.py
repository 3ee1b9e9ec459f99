"""Two replicas in owner mode, each of which answers for both."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from admin_api.app import replica_app
from admin_api.ports import Hearer, OtherReplicas
from admin_api.replica_answers import ReplicaAnswers
from admin_api.replicas import legs_drained
from proxy.groups.memory import GroupMemory
from proxy.groups.messages import SessionId
from proxy.net.group.settings import GroupSettings
from proxy.net.owner.deployment import Deployment
from proxy.views.deployment import DeploymentView
from tests.admin_api.rig import SUBSCRIPTION, AdminRig
from tests.net.assignment_rig import NoBrokers
from tests.net.subscription_rig_broker import TOPIC

BUNDLES = 8


class Others:
    """The way from one rig to another, with nothing between them. Implements `admin_api.ports.OtherReplicas`."""

    def __init__(self) -> None:
        self.near: Rig | None = None
        self.there: Rig | None = None
        self.broken = ""
        """Why nothing is answered."""
        self.moved = False
        """Whether a third replica owns everything now."""
        self.asked: list[bytes] = []
        self.cut_after: int | None = None
        """Bytes of the answer that arrive, if not all do."""

    @property
    def here(self) -> str:
        """As the port says."""
        return "here"

    def serving(self, key: tuple[str, str]) -> str | None:
        """As the port says."""
        assert self.there is not None
        if self.moved:
            return "another"
        if self.near is not None and self.near.named:
            return self.near.new_view().owner_of(*key)
        return "there" if self.there.subscriptions.find(key) is not None else None

    def find(self, replica: str) -> str:
        """As the port says."""
        assert self.near is not None
        return self.near.new_view().find(replica)

    def names(self) -> Sequence[str]:
        """As the port says."""
        return ("there",)

    def ask(self, replica: str, question: bytes, hearer: Hearer) -> Callable[[], None]:
        """As the port says."""
        assert replica == "there"
        self.asked.append(question)
        if self.broken:
            hearer.ended(self.broken)
            return lambda: None
        assert self.there is not None
        return self.there.answers.answer(question, Carried(hearer, self.cut_after))


class Carried:
    """What one end says, the other hears. Implements `admin_api.ports.Saying`."""

    def __init__(self, hearer: Hearer, cut_after: int | None) -> None:
        self._hearer = hearer
        self._left = cut_after

    def say(self, data: bytes) -> None:
        """As the port says."""
        if self._left is not None:
            data, self._left = data[: self._left], max(self._left - len(data), 0)
        self._hearer.heard(data)

    def end(self) -> None:
        """As the port says."""
        self._hearer.ended("the connection was closed")


class Rig(AdminRig):
    """A replica."""

    def __init__(
        self,
        name: str,
        others: OtherReplicas | None = None,
        *,
        streamed_subscriptions: tuple[str, ...] = (),
        **options: Any,
    ) -> None:
        self.name = name
        self.named = streamed_subscriptions
        super().__init__(app_options={} if others is None else {"others": others}, **options)
        self.streamed_names = {text.split()[1] for text in streamed_subscriptions}
        self.answers = ReplicaAnswers(replica_app(self.admin, self.admin, "1.2.3", read_only=False))

    def new_deployment(self) -> DeploymentView:
        """Of which it knows the last record."""
        settings = GroupSettings(
            groups_enabled=True, groups_mode="owner", group_bundles=BUNDLES, streamed_subscriptions=self.named
        )
        deployment = self.deployment = Deployment(
            self.name, f"pulsar://{self.name}:6670", NoBrokers(), self.clock, settings
        )
        owners = tuple((bundle, SessionId("there", 1)) for bundle in range(BUNDLES))
        addresses = (("there", "pulsar://there:6670"),)
        deployment.owners.learn(GroupMemory(3, "there", 1, BUNDLES, owners, addresses=addresses))
        return self.new_view()

    def new_view(self) -> DeploymentView:
        """Of what it knows now."""
        return DeploymentView(self.deployment, self.clock)


class Pair:
    """A replica without subscriptions, and one with a subscription and worker `a`."""

    def __init__(self, *, streamed_subscriptions: tuple[str, ...] = (), **options: Any) -> None:
        self.way = Others()
        self.here = self.way.near = Rig("here", self.way, streamed_subscriptions=streamed_subscriptions, **options)
        self.there = self.way.there = Rig("there", streamed_subscriptions=streamed_subscriptions)
        self.there.worker("a")


def test_what_another_serves_is_answered_by_it() -> None:
    """Who asks need not know where it is."""
    pair = Pair()
    told = pair.here.get("")
    assert told["served_by"] == "there"
    assert [worker["name"] for worker in told["dispatcher"]["workers"]] == ["a"]
    assert told == pair.there.get("") | {"now": told["now"]}
    assert pair.here.get("/explain", key="k") == pair.there.get("/explain", key="k")


def test_this_replica_alone_can_be_asked() -> None:
    """Which says who would know."""
    answer = Pair().here.ask("GET", SUBSCRIPTION, params={"here": "true"})
    assert answer.status_code == 404
    assert "is owned by replica there" in answer.json()["detail"]


def test_an_order_reaches_who_serves_it() -> None:
    """With its body, and the answer comes back."""
    pair = Pair()
    pair.here.order("POST", "/pause")
    assert pair.there.get("")["dispatcher"]["paused"]
    assert (
        pair.here.order("PUT", "/limits", {"max_unacked_messages_per_worker": 7})["max_unacked_messages_per_worker"]
        == 7
    )
    refused = pair.here.ask("PUT", SUBSCRIPTION + "/limits", json={"max_unacked_messages_per_worker": -1})
    assert refused.status_code == 400
    assert pair.here.order("POST", "/workers/a/evict") == {"workers": 1}


def test_what_is_refused_here_is_not_passed_on() -> None:
    """The other replica checks neither the caller nor the page that a request comes from."""
    pair = Pair(read_only=True)
    assert pair.here.ask("POST", SUBSCRIPTION + "/pause").status_code == 403
    pair = Pair()
    foreign = {"origin": "https://elsewhere.example"}
    assert pair.here.ask("POST", SUBSCRIPTION + "/pause", headers=foreign).status_code == 403
    assert not pair.there.get("")["dispatcher"]["paused"]
    assert pair.way.asked == []


def test_the_caller_is_told_with_the_order() -> None:
    """For the other's log; tokens stay here."""
    pair = Pair()
    pair.here.ask("POST", SUBSCRIPTION + "/pause", headers={"authorization": "Bearer secret-token"})
    (question,) = pair.way.asked
    assert json.loads(question)["caller"] == "127.0.0.1, not authenticated"
    assert b"secret-token" not in question


def test_a_list_is_of_all_replicas() -> None:
    """In one order, with the sums; what is asked of others they answer for themselves."""
    pair = Pair()
    told = pair.here.ask("GET", "/api/v1/subscriptions").json()
    assert [(item["topic"], item["served_by"]) for item in told["subscriptions"]] == [(TOPIC, "there")]
    assert (told["subscriptions_count"], told["workers"], told["unanswered"], told["next"]) == (1, 1, [], None)
    assert told["reading_stopped"] is False
    alone = pair.here.ask("GET", "/api/v1/subscriptions", params={"here": "true"}).json()
    assert (alone["subscriptions"], alone["subscriptions_count"]) == ([], 0)


def test_pages_of_all_replicas_are_one_list() -> None:
    """Nothing is told twice or left out, wherever a page ends."""
    pair = Pair()
    for name in ("b", "d", "f"):
        pair.there.worker("w", subscription=name)
    for name in ("a", "c", "e", "g"):
        pair.here.worker("w", subscription=name)
    found, after = [], None
    for _ in range(8):
        query = {"limit": "3"} | ({"after": after} if after is not None else {})
        page = pair.here.ask("GET", "/api/v1/subscriptions", params=query).json()
        found += [item["subscription"] for item in page["subscriptions"]]
        after = page["next"]
        if after is None:
            break
    assert found == ["a", "b", "c", "d", "e", "f", "g", "s"]


class SharedByStreams(Pair):
    """Each replica has workers of `s`, and serves its own."""

    def __init__(self) -> None:
        super().__init__(streamed_subscriptions=("* s",))
        self.here.worker("b")


def test_each_replica_with_streams_tells_its_part() -> None:
    """A list has all parts, by replica; who asks for one subscription is answered by whom he asks."""
    pair = SharedByStreams()
    told = pair.here.ask("GET", "/api/v1/subscriptions").json()
    parts = [(item["subscription"], item["groups_mode"], item["served_by"]) for item in told["subscriptions"]]
    assert parts == [("s", "streams", "here"), ("s", "streams", "there")]
    assert [worker["name"] for worker in pair.here.get("")["dispatcher"]["workers"]] == ["b"]
    assert [worker["name"] for worker in pair.there.get("")["dispatcher"]["workers"]] == ["a"]


def test_a_page_has_all_parts_of_its_last_subscription() -> None:
    """The next one begins behind it, and would leave the rest out."""
    pair = SharedByStreams()
    pair.here.worker("w", subscription="t")
    first = pair.here.ask("GET", "/api/v1/subscriptions", params={"limit": "1"}).json()
    assert [(item["subscription"], item["served_by"]) for item in first["subscriptions"]] == [
        ("s", "here"),
        ("s", "there"),
    ]
    rest = pair.here.ask("GET", "/api/v1/subscriptions", params={"limit": "1", "after": first["next"]}).json()
    assert [(item["subscription"], item["groups_mode"]) for item in rest["subscriptions"]] == [("t", "owner")]
    assert rest["next"] is None


def test_what_has_no_owner_is_not_moved() -> None:
    """Its streams go by workers; and a replica without any says that, and where to look."""
    pair = SharedByStreams()
    answer = pair.here.ask("PUT", SUBSCRIPTION + "/owner", json={"replica": "there"})
    assert answer.status_code == 409
    assert "it has no owner to move it to" in answer.json()["detail"]
    absent = SUBSCRIPTION.replace("/public/", "/other/")
    for method, path in (("GET", absent), ("POST", absent + "/pause")):
        answer = pair.here.ask(method, path)
        assert answer.status_code == 404
        assert "is shared by streams; this replica has no worker of it" in answer.json()["detail"]


@pytest.mark.parametrize("bytes_count", [0, 3, 40, 400])
def test_a_replica_that_does_not_answer_is_named(bytes_count: int) -> None:
    """What the others say is told; what it alone knows is refused with the reason. Half an answer is none."""
    pair = Pair()
    pair.way.cut_after = bytes_count
    told = pair.here.ask("GET", "/api/v1/subscriptions").json()
    assert told["subscriptions"] == []
    assert [item["replica"] for item in told["unanswered"]] == ["there"]
    answer = pair.here.ask("GET", SUBSCRIPTION)
    assert answer.status_code == 503
    assert answer.json()["detail"].startswith("replica there serves this and does not answer: ")


def test_a_replica_that_cannot_be_reached_is_named() -> None:
    """With what the connection said."""
    pair = Pair()
    pair.way.broken = "connection refused"
    told = pair.here.ask("GET", "/api/v1/subscriptions").json()
    assert "connection refused" in told["unanswered"][0]["problem"]


def test_events_of_a_subscription_come_from_who_serves_it() -> None:
    """Until it moves: then the stream ends, and who reads it asks again."""
    pair = Pair()
    events = f"/api/v1/events?topic={TOPIC}&subscription=s"

    async def scenario() -> bytes:
        said = bytearray()
        done = asyncio.Event()

        async def send(message: Any) -> None:
            said.extend(message.get("body", b""))
            if b"worker_joined" in said:
                done.set()

        asked = asyncio.Event()

        async def receive() -> Any:
            if asked.is_set():
                await asyncio.Event().wait()
            asked.set()
            return {"type": "http.request", "body": b"", "more_body": False}

        path, _, query = events.partition("?")
        scope = {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "GET", "scheme": "http",
            "path": path, "raw_path": path.encode(), "query_string": query.encode(), "root_path": "",
            "headers": [(b"host", b"gateway"), (b"last-event-id", b"0")], "client": None, "server": None,
        }  # fmt: skip
        task = asyncio.create_task(pair.here.app(scope, receive, send))
        async with asyncio.timeout(20):
            await done.wait()
        pair.way.moved = True
        pair.there.worker("b")
        async with asyncio.timeout(20):
            await task
        return bytes(said)

    assert b"event: worker_joined" in asyncio.run(scenario())


def test_a_replica_is_drained_by_another() -> None:
    """And owns its share again; the last one that owns anything is not drained, and an unknown one is named."""
    pair = Pair()
    path = "/api/v1/deployment/replicas/"
    refused = pair.here.ask("POST", f"{path}there/drain")
    assert (refused.status_code, refused.json()["detail"]) == (
        409,
        "no other replica owns anything: who would serve the subscriptions?",
    )
    assert pair.here.ask("POST", f"{path}here/drain").status_code == 204
    assert pair.here.ask("GET", "/api/v1/deployment").json()["drained"]
    assert pair.here.ask("DELETE", f"{path}here/drain").status_code == 204
    assert not pair.here.ask("GET", "/api/v1/deployment").json()["drained"]
    unknown = pair.here.ask("POST", f"{path}nowhere/drain")
    assert unknown.status_code == 404
    assert unknown.json()["detail"] == "the deployment has no replica nowhere; it has: here, there"


def test_only_a_deployment_has_replicas_to_drain() -> None:
    """And the answer says by which settings it would be one."""
    answer = AdminRig().ask("POST", "/api/v1/deployment/replicas/here/drain")
    assert answer.status_code == 404
    assert "groups_mode=owner" in answer.json()["detail"]


def test_a_subscription_is_ordered_to_a_certain_replica() -> None:
    """At whichever replica; the order stands until it is taken back, and names a replica that is there."""
    pair = Pair()
    pair.here.order("PUT", "/owner", {"replica": "there"})
    (standing,) = pair.there.ask("GET", "/api/v1/orders").json()
    assert standing["replica"] == "there"
    refused = pair.here.ask("PUT", SUBSCRIPTION + "/owner", json={"replica": "nowhere"})
    assert refused.status_code == 404
    assert "has no replica nowhere" in refused.json()["detail"]
    pair.here.order("PUT", "/owner", {"replica": None})
    assert pair.there.ask("GET", "/api/v1/orders").json() == []
    assert AdminRig().ask("PUT", SUBSCRIPTION + "/owner", json={"replica": "x"}).status_code == 404


def test_a_replica_that_stops_waits_for_what_its_clients_have() -> None:
    """It asks until they have nothing; one that does not answer is not waited for."""
    pair = Pair()
    told = [3, 1, 0]
    pair.there.admin.stand_down = lambda replica: told.pop(0) if replica == "here" else 99  # type: ignore[method-assign]
    asyncio.run(legs_drained(pair.way))
    assert told == []
    assert pair.here.ask("POST", "/api/v1/legs/here/stand-down").status_code == 404, "it is for replicas alone"
    pair.way.broken = "connection refused"
    asyncio.run(legs_drained(pair.way))
