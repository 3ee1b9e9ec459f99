"""All replicas in owner mode, as the admin API tells of them."""

from __future__ import annotations

from typing import Any

import pytest

from proxy.core.dispatcher import OrderingMode
from proxy.groups.memory import GroupMemory
from proxy.groups.messages import SessionId
from proxy.net.group.settings import GroupSettings
from proxy.net.owner.deployment import Deployment
from proxy.net.subscription.order_book import LimitsWanted
from proxy.views.deployment import DeploymentView
from tests.admin_api.rig import AdminRig
from tests.net.assignment_rig import NoBrokers

BUNDLES = 8
TOPIC = "persistent://public/default/orders"


class OwnerRig(AdminRig):
    """Replica ``here`` of two, in a deployment whose last record the test writes."""

    def new_deployment(self) -> DeploymentView:
        """As the gateway makes it."""
        settings = GroupSettings(groups_enabled=True, groups_mode="owner", group_bundles=BUNDLES)
        self.deployment = Deployment("here", "pulsar://here:6670", NoBrokers(), self.clock, settings)
        return DeploymentView(self.deployment, self.clock)

    def deployed(self) -> Any:
        """What the API tells of it."""
        answer = self.ask("GET", "/api/v1/deployment")
        assert answer.status_code == 200, answer.text
        return answer.json()

    def learn(self, **bundles: int) -> None:
        """So many bundles are each replica's, from the first on."""
        owners: list[tuple[int, SessionId]] = []
        for replica, count in bundles.items():
            owners += [(bundle, SessionId(replica, 1)) for bundle in range(len(owners), len(owners) + count)]
        addresses = tuple((replica, f"pulsar://{replica}:6670") for replica in sorted(bundles))
        self.deployment.owners.learn(GroupMemory(3, "there", 1, BUNDLES, tuple(owners), addresses=addresses))


def test_it_tells_who_has_how_much_and_who_leads() -> None:
    """By the last record; what nobody has is counted."""
    rig = OwnerRig()
    rig.learn(here=3, there=4)
    told = rig.deployed()
    assert (told["replica"], told["leader"], told["epoch"]) == ("here", "there", 3)
    assert (told["bundles_count"], told["bundles_without_owner"]) == (BUNDLES, 1)
    assert told["replicas"] == [
        {"replica": "here", "address": "pulsar://here:6670", "bundles": 3},
        {"replica": "there", "address": "pulsar://there:6670", "bundles": 4},
    ]
    assert (told["state"], told["lease_left_s"], told["bundles_here"]) == ("connecting", 0.0, 0)


def test_before_the_first_record_nothing_is_known() -> None:
    """Which is no error."""
    told = OwnerRig().deployed()
    assert (told["leader"], told["bundles_count"], told["bundles_without_owner"], told["replicas"]) == (None, 0, 0, [])


def test_any_other_gateway_has_no_part_in_one() -> None:
    """And says by which settings it would."""
    answer = AdminRig().ask("GET", "/api/v1/deployment")
    assert answer.status_code == 404
    assert "groups_mode=owner" in answer.json()["detail"]


@pytest.mark.parametrize("path", ["", "/explain?key=k", "/ring"])
def test_a_subscription_of_another_replica_is_said_to_be_there(path: str) -> None:
    """Instead of that nobody consumes it."""
    rig = OwnerRig()
    rig.learn(there=BUNDLES)
    answer = rig.ask("GET", f"/api/v1/subscriptions/public/default/orders/billing{path}")
    assert answer.status_code == 404
    assert answer.json()["detail"] == f"subscription billing on topic {TOPIC} is owned by replica there: ask that one"


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/resume", None),
        ("DELETE", "/workers/a/drain", None),
        ("DELETE", "/workers/a/exclude", None),
        ("PUT", "/ordering-mode", {"ordering_mode": None}),
        ("PUT", "/limits", {}),
    ],
)
def test_an_order_of_before_a_subscription_moved_is_not_taken_back_here(
    method: str, path: str, body: dict[str, Any] | None
) -> None:
    """The owner would not hear of it, and the answer would say that it is done."""
    rig = OwnerRig()
    key = (TOPIC, "billing")
    with rig.subscriptions.orders.changing(key) as orders:
        orders.paused, orders.mode = True, OrderingMode.DRAINING_HASHES
        orders.drained.add("a")
        orders.excluded.add("a")
        orders.limits = LimitsWanted(max_unacked_messages_per_worker=7)
    rig.learn(there=BUNDLES)
    answer = rig.ask(method, f"/api/v1/subscriptions/public/default/orders/billing{path}", json=body)
    assert answer.status_code == 404, answer.text
    assert "is owned by replica there" in answer.json()["detail"]
    assert rig.subscriptions.orders.of(key).paused


def test_a_subscription_of_ones_own_that_nobody_consumes_is_said_to_be_so() -> None:
    """As without owner mode."""
    rig = OwnerRig()
    rig.learn(here=BUNDLES)
    answer = rig.ask("GET", "/api/v1/subscriptions/public/default/orders/billing")
    assert "no worker of this gateway consumes" in answer.json()["detail"]


def test_it_is_no_group() -> None:
    """Whoever asks for one is told where to look, and in the list that there is none."""
    rig = OwnerRig()
    answer = rig.ask("GET", "/api/v1/groups/public/default/orders/billing")
    assert answer.status_code == 404
    assert "`keyline replicas`" in answer.json()["detail"]
    assert rig.ask("GET", "/api/v1/groups").json() == {"mode": "owner", "replica": "here", "groups": [], "next": None}


def test_a_replay_is_refused_with_what_does_it_here() -> None:
    """A seek, or Pulsar's own tool."""
    answer = OwnerRig().ask("POST", "/api/v1/groups/public/default/orders/billing/replay", json={"end": "earliest"})
    assert answer.status_code == 404
    assert "let a worker seek, or use `pulsar-admin topics reset-cursor`" in answer.json()["detail"]
