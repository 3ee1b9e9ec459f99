"""Topics of groups over HTTP: who may see and remove them, and how refusals arrive."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from proxy.errors import Conflict, UpstreamUnavailable
from proxy.net.group.topics import GroupTopic, GroupTopicsPage
from tests.admin_api.rig import AdminRig

TOPIC = "persistent://public/default/keyline-group-orders-billing-8be1f2c0d9a7e654"
PATH = "/api/v1/group-topics"
ENCODED = TOPIC.replace("/", "%2F")


class Topics:
    """Answers as told; implements `admin_api.ports.GroupTopics`."""

    def __init__(self) -> None:
        self.problem: Exception | None = None
        self.orders: list[tuple[str, str]] = []
        self.pages: list[tuple[str | None, int]] = []

    def page(self, after: str | None, limit: int, answered: Callable[[Any], None]) -> None:
        """As the port says."""
        self.pages.append((after, limit))
        found = GroupTopicsPage("public/default", (GroupTopic(TOPIC, "group", None),), None)
        answered(self.problem or found)

    def remove(self, topic: str, by: str, answered: Callable[[Exception | None], None]) -> None:
        """As the port says."""
        self.orders.append((topic, by))
        answered(self.problem)


@pytest.fixture
def topics() -> Topics:
    """One topic."""
    return Topics()


def test_topics_are_listed_by_page(topics: Topics) -> None:
    """With why each is in use."""
    answer = AdminRig(app_options={"group_topics": topics}).ask("GET", f"{PATH}?after=x&limit=7")
    assert answer.json() == {
        "namespace": "public/default",
        "topics": [{"topic": TOPIC, "kind": "group", "in_use_because": None}],
        "next": None,
    }
    assert topics.pages == [("x", 7)]


def test_one_is_removed_by_its_whole_name(topics: Topics) -> None:
    """Its slashes are part of it; who orders it is passed on."""
    answer = AdminRig(app_options={"group_topics": topics}).ask("DELETE", f"{PATH}/{ENCODED}")
    assert (answer.status_code, answer.json()) == (200, {"topic": TOPIC})
    ((topic, by),) = topics.orders
    assert (topic, "not authenticated" in by) == (TOPIC, True)


@pytest.mark.parametrize(("problem", "status"), [(Conflict("a replica uses it"), 409), (UpstreamUnavailable("x"), 503)])
def test_a_refusal_has_its_reason(topics: Topics, problem: Exception, status: int) -> None:
    """For either request."""
    topics.problem = problem
    rig = AdminRig(app_options={"group_topics": topics})
    for method, path in (("GET", PATH), ("DELETE", f"{PATH}/{ENCODED}")):
        answer = rig.ask(method, path)
        assert (answer.status_code, answer.json()["detail"]) == (status, str(problem))


def test_a_gateway_that_takes_no_orders_removes_nothing(topics: Topics) -> None:
    """It lists them."""
    rig = AdminRig(read_only=True, app_options={"group_topics": topics})
    answer = rig.ask("DELETE", f"{PATH}/{ENCODED}")
    assert (answer.status_code, "admin_read_only" in answer.json()["detail"]) == (403, True)
    from_elsewhere = AdminRig(app_options={"group_topics": topics}).ask(
        "DELETE", f"{PATH}/{ENCODED}", headers={"sec-fetch-site": "cross-site"}
    )
    assert from_elsewhere.status_code == 403
    assert not topics.orders
    assert rig.ask("GET", PATH).status_code == 200


def test_a_gateway_that_is_alone_says_so() -> None:
    """By the setting that would change it."""
    for method, path in (("GET", PATH), ("DELETE", f"{PATH}/{ENCODED}")):
        answer = AdminRig().ask(method, path)
        assert (answer.status_code, "groups_enabled" in answer.json()["detail"]) == (404, True)
