"""What the admin API tells of groups of replicas."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import Any

import httpx
import pytest
from pydantic import BaseModel

from admin_api.schemas import groups
from admin_api.schemas.groups import Group, Groups
from admin_api.schemas.subscriptions import Subscription
from proxy.core.positions import pack
from proxy.groups.encoding import decode_message, encode
from proxy.groups.memory import GroupMemory
from proxy.groups.messages import (
    Disconnect,
    FindLeader,
    Header,
    LeaseStreams,
    ReplayDone,
    ReplayTarget,
    ReplayWanted,
    Report,
    SessionId,
    Stamp,
    UpdateStreams,
    Version,
)
from proxy.groups.streams import GroupId, StreamState
from proxy.net.group import groups as net_groups
from proxy.net.group import views as group_statistics
from proxy.net.group.settings import GroupSettings
from tests.admin_api.rig import AdminRig
from tests.net.assignment_rig import NoBrokers
from tests.net.stream_rig import key_in
from tests.net.subscription_rig_broker import TOPIC, single

ALL = "/api/v1/groups"
ONE = f"{ALL}/{TOPIC.removeprefix('persistent://')}/s"
GROUP = GroupId(TOPIC, "s")


class GroupsRig(AdminRig):
    """A replica that shares its subscriptions; the test speaks as the others."""

    streamed = True
    targets: list[ReplayTarget]
    """Where replays were to go."""

    def __init__(self, *, mode: str = "streams", **options: Any) -> None:
        self.mode = mode
        super().__init__(**options)

    def new_groups(self) -> net_groups.Groups:
        """With no broker for its own messages."""
        settings = GroupSettings(groups_enabled=True, groups_mode=self.mode, group_streams=4)
        groups = net_groups.Groups("here-1", NoBrokers(), self.clock, settings)
        self.subscriptions.new_assignment = groups.new_assignment
        return groups

    def hear(self, message: LeaseStreams | UpdateStreams | FindLeader | Disconnect) -> None:
        """Another replica says something to this one."""
        assert self.groups is not None
        self.groups.members.hear(encode(message))
        self.clock.settle()

    def header(self, number: int) -> Header:
        """Of the leader's message, which has heard the session's first."""
        return Header(GROUP, SessionId("here-1", 1), "there-1", Stamp(3, number), 1)

    def lead(self, *had: tuple[int, SessionId]) -> None:
        """Let this replica lead, after somebody whose epoch was 5; `had` is who had which of four streams."""
        assert self.groups is not None
        member = self.groups.members.find(GROUP)
        assert member is not None
        member.granted()
        member.read(GroupMemory(5, "before", streams_count=4, had=had))
        member.stored()
        self.clock.settle()

    def json(self, path: str, **query: Any) -> Any:
        """The body of a good answer."""
        answer = self.ask("GET", path, params=query)
        assert answer.status_code == 200, answer.text
        return answer.json()


def test_a_gateway_that_shares_nothing_says_so() -> None:
    """And so does one that is in no such group."""
    rig = AdminRig()
    assert rig.ask("GET", ALL).json() == {"mode": None, "replica": None, "groups": [], "next": None}
    answer = rig.ask("GET", ONE)
    assert (answer.status_code, answer.json()["detail"]) == (
        404,
        f"this replica has no group of subscription 's' on topic {TOPIC}; groups are not enabled (groups_enabled)",
    )
    assert "`keyline groups` lists them" in GroupsRig().ask("GET", ONE).json()["detail"]


def test_groups_of_a_replica_in_owner_mode_are_told_as_such() -> None:
    """Those of `streamed_subscriptions`; where nothing is named there are none."""
    rig = GroupsRig(mode="owner")
    rig.worker("a", 1)
    told = rig.json(ALL)
    assert (told["mode"], [item["subscription"] for item in told["groups"]]) == ("owner", ["s"])


def test_a_session_is_told_with_its_streams() -> None:
    """Leader, epoch and lease; and of each stream where it stands."""
    rig = GroupsRig()
    rig.worker("a", 1)
    waiting = rig.json(ALL)["groups"][0]
    assert (waiting["state"], waiting["leader"], waiting["epoch"], waiting["lease_left_s"]) == (
        "connecting",
        None,
        None,
        0,
    )
    rig.hear(LeaseStreams(rig.header(1), Version(3, 7), (1, 2), 4))
    consumer = rig.subscription.consumers.get(1)
    assert consumer is not None
    rig.link.deliver((5, single(key_in(1), b"x")), to=consumer.upstream.consumer_id)
    rig.hear(UpdateStreams(rig.header(2), Version(3, 7), Version(3, 8), (2, 3)))
    told = rig.json(ONE)
    Group.model_validate(told, strict=True)
    assert told["leading"] is None
    summary = told["summary"]
    assert 0 < summary.pop("lease_left_s") <= 5
    assert summary.pop("now") == rig.clock.now()
    assert summary == {
        "topic": TOPIC,
        "subscription": "s",
        "replica": "here-1",
        "state": "updating",
        "leader": "there-1",
        "leads": False,
        "epoch": 3,
        "version": 8,
        "workers_count": 1,
        "streams_count": 4,
        "streams_here": 2,
        "streams_releasing": 1,
        "counters": {"streams_opened": 3, "streams_released": 0, "streams_overdue": 0, "streams_refused": 0},
    }
    assert [(row["stream"], row["first_slot"], row["holding"], row["upstream_state"]) for row in told["streams"]] == [
        (1, 16_384, "releasing", "ready"),
        (2, 32_768, "open", "ready"),
        (3, 49_152, "open", "ready"),
    ]
    subscription = rig.get("")
    Subscription.model_validate(subscription, strict=True)
    assert (subscription["group"]["leader"], subscription["group"]["streams_here"]) == ("there-1", 2)


def test_the_leader_tells_of_all_sessions() -> None:
    """Owners, progress and who was heard of when."""
    rig = GroupsRig()
    rig.worker("a")
    rig.lead()
    rig.hear(FindLeader(Report(GROUP, SessionId("other-9", 4), 1, 3), ()))
    rig.clock.advance(1.0)
    told = rig.json(ONE)
    Group.model_validate(told, strict=True)
    leading = told["leading"]
    assert (told["summary"]["leads"], leading["epoch"]) == (True, 6)
    (session,) = leading["sessions"]
    assert (session["replica"], session["number"], session["workers_count"]) == ("other-9", 4, 3)
    assert session["heard_s"] == 1.0
    streams = [(row["stream"], row["first_slot"], row["last_slot"], row["owner"]) for row in leading["streams"]]
    assert streams == [
        (0, 0, 16_383, None),
        (1, 16_384, 32_767, None),
        (2, 32_768, 49_151, None),
        (3, 49_152, 65_535, None),
    ]


def test_the_leader_tells_of_streams_that_the_broker_refuses_their_owners() -> None:
    """As long as they have them: whoever is to have one next has not been refused."""
    rig = GroupsRig()
    rig.worker("a")
    other = SessionId("other-9", 4)
    rig.lead((1, other), (2, other))
    states = (StreamState(1, refused=True), StreamState(2, acknowledged=pack(7, 8), pending_count=3))
    rig.hear(FindLeader(Report(GROUP, other, 1, 3), states))
    told = rig.json(ONE)["leading"]["streams"]
    assert [row["owner"] for row in told] == [None, "other-9", "other-9", None]
    assert [row["refused"] for row in told] == [False, True, False, False]
    assert (told[2]["acknowledged"], told[2]["unacked_messages"]) == ("7:8", 3)
    rig.hear(Disconnect(Report(GROUP, other, 2, 0), ()))
    told = rig.json(ONE)["leading"]["streams"]
    assert {(row["owner"], row["refused"]) for row in told} == {(None, False)}


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (groups.Group, group_statistics.GroupStatistics),
        (groups.Groups, group_statistics.GroupsPage),
        (groups.GroupSession, group_statistics.GroupSession),
        (groups.GroupSummary, group_statistics.GroupSummary),
        (groups.Leadership, group_statistics.Leadership),
        (groups.StreamHere, group_statistics.StreamHere),
        (groups.StreamProgress, group_statistics.StreamProgress),
    ],
    ids=lambda kind: str(getattr(kind, "__name__", kind)),
)
def test_the_document_names_the_fields_that_answers_have(schema: type[BaseModel], value: type) -> None:
    """They are written from the gateway's values, not through the schemas."""
    assert list(schema.model_fields) == [field.name for field in dataclasses.fields(value)]


def test_groups_are_told_a_page_at_a_time() -> None:
    """By topic and subscription."""
    rig = GroupsRig()
    for name in ("b", "a", "c"):
        rig.worker("w", subscription=name)
    first = rig.json(ALL, limit=2)
    Groups.model_validate(first, strict=True)
    assert (first["replica"], [row["subscription"] for row in first["groups"]]) == ("here-1", ["a", "b"])
    rest = rig.json(ALL, limit=2, after=first["next"])
    assert ([row["subscription"] for row in rest["groups"]], rest["next"]) == (["c"], None)


def replay(rig: GroupsRig, place: dict[str, Any], problem: str | None) -> httpx.Response:
    """Ask for a replay, to which the group's leader answers so."""

    def answered(data: bytes) -> None:
        wanted = decode_message(data)
        assert isinstance(wanted, ReplayWanted)
        wishes.append(wanted)

    wishes: list[ReplayWanted] = []
    assert rig.groups is not None
    rig.groups.mail.send_all = answered  # type: ignore[method-assign]

    async def leader() -> None:
        while not wishes:
            await asyncio.sleep(0)
            rig.clock.settle()
        (wanted,) = wishes
        assert rig.groups is not None
        rig.groups.members.hear(encode(ReplayDone(GROUP, wanted.asker, wanted.number, problem)))

    async def asked() -> httpx.Response:
        transport = httpx.ASGITransport(app=rig.app)
        async with httpx.AsyncClient(transport=transport, base_url="http://gateway") as client:
            answer, _ = await asyncio.gather(client.post(f"{ONE}/replay", json=place), leader())
            return answer

    answer = asyncio.run(asked())
    rig.targets = [wanted.target for wanted in wishes]
    return answer


@pytest.mark.parametrize(
    ("place", "target"),
    [
        ({"end": "earliest"}, ReplayTarget(position=(-1, -1))),
        ({"end": "latest"}, ReplayTarget(position=((1 << 63) - 1, (1 << 63) - 1))),
        ({"position": {"ledger": 7, "entry": 3}}, ReplayTarget(position=(7, 3))),
        ({"published_at": "1970-01-01T00:00:01.5Z"}, ReplayTarget(published_ms=1_500)),
    ],
    ids=["earliest", "latest", "a message", "a time"],
)
def test_a_replay_is_answered_when_it_is_done(place: dict[str, Any], target: ReplayTarget) -> None:
    """The leader is told where to."""
    rig = GroupsRig()
    rig.worker("a")
    answer = replay(rig, place, None)
    assert (answer.status_code, answer.json()) == (200, {"subscription": "s"})
    assert rig.targets == [target]


def test_a_replay_that_could_not_be_is_a_conflict() -> None:
    """With the leader's words."""
    rig = GroupsRig()
    rig.worker("a")
    answer = replay(rig, {"end": "earliest"}, "another is under way")
    assert (answer.status_code, answer.json()["detail"]) == (409, "another is under way")


def test_orders_to_groups_are_guarded_as_all_orders() -> None:
    """Read-only, and by where a browser's request comes from; bad places and groups that are not here are told."""
    place = {"end": "earliest"}
    orders = [
        path for path, verbs in GroupsRig().app.openapi()["paths"].items() if path.startswith(ALL) and "post" in verbs
    ]
    assert orders == [f"{ALL}/{{tenant}}/{{namespace}}/{{topic}}/{{subscription}}/replay"]
    refused = GroupsRig(read_only=True).ask("POST", f"{ONE}/replay", json=place)
    assert refused.status_code == 403
    assert "admin_read_only" in refused.json()["detail"]
    for header in ({"Sec-Fetch-Site": "cross-site"}, {"Origin": "http://elsewhere"}):
        assert GroupsRig().ask("POST", f"{ONE}/replay", json=place, headers=header).status_code == 403
    assert GroupsRig().ask("POST", f"{ONE}/replay", json=place).status_code == 404
    for bad in ({}, {"end": "middle"}, place | {"published_at": "2026-01-01T00:00:00Z"}, {"published_at": "today"}):
        assert GroupsRig().ask("POST", f"{ONE}/replay", json=bad).status_code == 400, bad
