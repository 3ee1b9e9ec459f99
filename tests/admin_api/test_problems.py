"""Bad input: each is answered with what is wrong, as RFC 9457 has it, and changes nothing."""

from __future__ import annotations

import pytest

from tests.admin_api.rig import SUBSCRIPTION, AdminRig

ELSEWHERE = "/api/v1/subscriptions/public/default"


@pytest.fixture
def rig() -> AdminRig:
    """One subscription s of topic orders, with worker a."""
    made = AdminRig()
    made.worker("a")
    return made


@pytest.mark.parametrize(
    ("path", "words"),
    [
        (ELSEWHERE + "/payments/s", "no worker of this gateway consumes topic persistent://public/default/payments"),
        (ELSEWHERE + "/orders/t", "has no Key_Shared subscription t here; it has: s"),
        (SUBSCRIPTION + "/workers/b", "subscription s has no worker b here; it has: a"),
        (SUBSCRIPTION + "/workers/b/pending-acks", "has no worker b"),
        (SUBSCRIPTION + "/workers/b/draining-hashes", "has no worker b"),
        (SUBSCRIPTION + "/preview/leave?worker=b", "has no worker b"),
        (SUBSCRIPTION + "/nothing", "there is nothing at"),
    ],
)
def test_what_is_not_here_is_404_with_the_part_that_is_wrong(rig: AdminRig, path: str, words: str) -> None:
    """And with what there is instead, where that is short."""
    answer = rig.ask("GET", path)
    assert answer.status_code == 404
    assert answer.headers["content-type"] == "application/problem+json"
    body = answer.json()
    assert (body["status"], body["title"], body["type"]) == (404, "Not Found", "about:blank")
    assert words in body["detail"]


@pytest.mark.parametrize(
    ("path", "words"),
    [
        (SUBSCRIPTION + "/explain", "name a key"),
        (SUBSCRIPTION + "/explain?key=k&slot=1", "not both"),
        (SUBSCRIPTION + "/explain?slot=x", "slot must be"),
        (SUBSCRIPTION + "/explain?slot=65536", "slot must be"),
        (SUBSCRIPTION + "/explain?slot=-1", "slot must be"),
        (SUBSCRIPTION + "/workers/a/pending-acks?limit=1001", "limit must be"),
        (SUBSCRIPTION + "/workers/a/pending-acks?after=x", "not a cursor"),
        (SUBSCRIPTION + "/draining-hashes?limit=0", "limit must be"),
        (SUBSCRIPTION + "/preview/leave", "worker is missing"),
        ("/api/v1/subscriptions?limit=100000", "limit must be"),
        ("/api/v1/subscriptions/pub!lic/default/orders/s", "tenant has characters"),
    ],
)
def test_a_malformed_request_is_400_with_what_would_be_right(rig: AdminRig, path: str, words: str) -> None:
    """Named by the parameter."""
    answer = rig.ask("GET", path)
    assert answer.status_code == 400, answer.text
    assert words in answer.json()["detail"]


@pytest.mark.parametrize(
    ("path", "body", "words"),
    [
        ("/ordering-mode", {"ordering_mode": "unordered"}, "ordering_mode"),
        ("/ordering-mode", {}, "ordering_mode"),
        ("/limits", {"look_ahead": 1}, "look_ahead"),
        ("/limits", {"look_ahead_messages_per_worker": 0}, "look_ahead_messages_per_worker"),
        ("/limits", [], "body"),
    ],
)
def test_a_malformed_order_is_400_and_changes_nothing(rig: AdminRig, path: str, body: object, words: str) -> None:
    """With the field that is wrong."""
    answer = rig.ask("PUT", SUBSCRIPTION + path, json=body)
    assert answer.status_code == 400
    assert words in answer.json()["detail"]
    assert rig.ask("GET", "/api/v1/orders").json() == []


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        ({"subscription_memory_bytes": 1 << 20}, "must be at most subscription_memory_bytes (1048576)"),
        ({"subscription_memory_bytes": 1 << 40}, "must be at most gateway_memory_bytes"),
        ({"look_ahead_messages_per_worker": 1_000_000}, "must be at most look_ahead_messages_per_subscription"),
    ],
)
def test_limits_that_do_not_go_together_are_409(rig: AdminRig, limits: dict[str, int], words: str) -> None:
    """As the configuration would refuse them; a budget below the largest entry would stop the subscription for good."""
    answer = rig.ask("PUT", SUBSCRIPTION + "/limits", json=limits)
    assert answer.status_code == 409
    assert words in answer.json()["detail"]
    assert rig.ask("GET", "/api/v1/orders").json() == []


def test_a_body_that_is_too_large_is_413(rig: AdminRig) -> None:
    """Before it is read whole."""
    answer = rig.ask("PUT", SUBSCRIPTION + "/limits", content=b" " * (1 << 20))
    assert answer.status_code == 413


def test_on_loopback_no_other_name_is_answered() -> None:
    """A page whose name leads here could read and order everything."""
    rig = AdminRig(loopback=True)
    for host in ("127.0.0.1:8750", "localhost", "[::1]:8750", "keyline.localhost:1"):
        assert rig.ask("GET", "/livez", headers={"Host": host}).status_code == 200, host
    for host in ("elsewhere.example:8750", "", "10.0.0.1", "127.0.0.1.elsewhere.example"):
        refused = rig.ask("GET", "/livez", headers={"Host": host})
        assert refused.status_code == 403, host
        assert "loopback" in refused.json()["detail"]


def test_a_method_that_is_not_served_is_405(rig: AdminRig) -> None:
    """With those that are."""
    answer = rig.ask("POST", "/api/v1/subscriptions")
    assert answer.status_code == 405
    assert "GET" in answer.json()["detail"]


def test_a_mode_that_does_not_go_with_what_clients_asked_for_is_409() -> None:
    """Delivery without order is theirs to end."""
    rig = AdminRig(ordering_mode="unordered")
    rig.worker("a")
    answer = rig.ask("PUT", SUBSCRIPTION + "/ordering-mode", json={"ordering_mode": "draining_hashes"})
    assert answer.status_code == 409
    assert "allowOutOfOrderDelivery" in answer.json()["detail"]


def test_a_fault_of_ours_is_500_without_a_word_about_the_inside(rig: AdminRig) -> None:
    """A problem as well; the log has the rest."""
    del rig.subscription.state.dispatcher.slots
    answer = rig.ask("GET", SUBSCRIPTION + "/explain?key=k", faulty=True)
    assert answer.status_code == 500
    assert answer.headers["content-type"] == "application/problem+json"
    assert "slots" not in answer.text
