"""Names with slashes and percent signs in them: each names one thing, in a path and in a page's cursor."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest

from proxy.cli.admin_client import subscription_path, worker_path
from tests.admin_api.rig import AdminRig
from tests.net import subscription_rig_broker

BELOW = "/api/v1/subscriptions/public/default/"
ODD = ["a/b", "a%2Fb", "a b", "/", "a/", "/ring", "é/%", "?", "#", "a/workers/b", "..a"]
TWINS = [("a/b", "c"), ("a", "b/c"), ("a", "b%2Fc"), ("a", "b"), ("a/b", "b"), ("a", "é/%"), ("a-b", "c")]


def odd_rig(monkeypatch: pytest.MonkeyPatch, topic: str, subscription: str, worker: str) -> AdminRig:
    """A gateway with one worker, all of whose names may be odd."""
    rig = AdminRig()
    name = f"persistent://public/default/{topic}"
    monkeypatch.setattr(subscription_rig_broker, "TOPIC", name)
    rig.worker(worker, topic=name, subscription=subscription, permits=9)
    return rig


@pytest.mark.parametrize("name", ODD)
def test_a_topic_a_subscription_and_a_worker_may_have_a_slash_in_their_names(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Percent-encoded, in reads, previews and orders."""
    rig = odd_rig(monkeypatch, name, name, name)
    encoded = quote(name, safe="")
    subscription = f"{BELOW}{encoded}/{encoded}"
    worker = f"{subscription}/workers/{encoded}"
    shown = rig.ask("GET", subscription).json()
    assert (shown["topic"], shown["subscription"]) == (f"persistent://public/default/{name}", name)
    assert rig.ask("GET", subscription + "/ring").json()["workers"] == [name]
    assert rig.ask("GET", subscription + "/explain?key=k").json()["owner"] == name
    assert rig.ask("GET", worker).json()["name"] == name
    assert rig.ask("GET", worker + "/pending-acks").json()["total"] == 0
    assert rig.ask("POST", subscription + "/preview/join", json={"worker": name}).status_code == 200
    assert rig.ask("POST", worker + "/drain").json() == {"workers": 1}
    assert rig.ask("GET", "/api/v1/orders").json()[0]["drained"] == [name]
    assert rig.ask("POST", worker + "/evict").json() == {"workers": 1}


@pytest.mark.parametrize("name", ODD)
def test_the_commands_address_such_names(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """They encode each part by itself."""
    rig = odd_rig(monkeypatch, "orders", name, name)
    assert rig.ask("GET", "/api/v1" + subscription_path("orders", name)).json()["subscription"] == name
    assert rig.ask("GET", "/api/v1" + worker_path("orders", name, name)).json()["name"] == name


def test_an_encoded_slash_is_part_of_a_name_and_no_other_is() -> None:
    """Else one path would name two things."""
    rig = AdminRig()
    rig.worker("a", subscription="s")
    assert rig.ask("GET", BELOW + "orders/s/ring").status_code == 200
    answer = rig.ask("GET", BELOW + "orders/s%2Fring")
    assert answer.status_code == 404
    assert "no Key_Shared subscription s/ring here; it has: s" in answer.json()["detail"]
    assert "there is nothing at" in rig.ask("GET", BELOW + "orders%2Fs").json()["detail"]


def test_what_need_not_be_encoded_may_be() -> None:
    """Both are the same path."""
    rig = AdminRig()
    rig.worker("a")
    assert rig.ask("GET", "/%61pi/v1/subscriptions/public/default/%6frders/s/r%69ng").json()["workers"] == ["a"]


def test_a_topic_of_the_old_form_has_its_namespace_before_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its cluster stands where others have the namespace; so the console asks for it."""
    rig = odd_rig(monkeypatch, "namespace/orders", "s", "a")
    shown = rig.ask("GET", BELOW + "namespace%2Forders/s").json()
    assert shown["topic"] == "persistent://public/default/namespace/orders"


def test_names_are_checked_after_they_were_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bounds are of names, and a namespace still has no slash."""
    rig = odd_rig(monkeypatch, "/" * 1_000, "s", "a")
    assert rig.ask("GET", f"{BELOW}{'%2F' * 1_000}/s").status_code == 200
    assert rig.ask("GET", f"{BELOW}{'%2F' * 1_001}/s").status_code == 400
    assert rig.ask("GET", "/api/v1/subscriptions/public/a%2Fb/orders/s").status_code == 400


def test_a_server_that_gives_no_raw_path_is_served() -> None:
    """ASGI leaves it out where it likes; names with slashes are lost before us then."""
    rig = AdminRig()
    rig.worker("a", subscription="100%")
    app = rig.app

    async def without(scope: Any, receive: Any, send: Any) -> None:
        await app({name: value for name, value in scope.items() if name != "raw_path"}, receive, send)

    rig.app = without  # type: ignore[assignment]
    assert rig.ask("GET", BELOW + "orders/100%25/ring").json()["workers"] == ["a"]


def test_pages_tell_apart_what_looks_the_same_when_it_is_joined(monkeypatch: pytest.MonkeyPatch) -> None:
    """Topic and subscription may share a slash in two ways."""
    rig = AdminRig()
    keys = sorted((f"persistent://public/default/{topic}", name) for topic, name in TWINS)
    for topic, name in keys:
        monkeypatch.setattr(subscription_rig_broker, "TOPIC", topic)
        rig.worker(topic=topic, subscription=name)
    told, cursor = [], None
    for _ in keys:
        asked = {"limit": 1} if cursor is None else {"limit": 1, "after": cursor}
        page = rig.ask("GET", "/api/v1/subscriptions", params=asked).json()
        told += [(item["topic"], item["subscription"]) for item in page["subscriptions"]]
        cursor = page["next"]
    assert told == keys
    assert cursor is None


@pytest.mark.parametrize("cursor", ["x", "/", "%", "%2F/%2F", "~", "é"])
def test_any_text_is_a_place_in_the_list(cursor: str) -> None:
    """A cursor that was not given out is no fault."""
    rig = AdminRig()
    rig.worker("a")
    assert rig.ask("GET", "/api/v1/subscriptions", params={"after": cursor}).status_code == 200
