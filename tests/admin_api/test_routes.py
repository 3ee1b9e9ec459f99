"""The admin API's answers, over a real gateway's subscriptions between fakes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from proxy.core.sticky_key import consistent_slot, murmur31
from proxy.wire import pulsar_pb2 as pb
from tests.admin_api.rig import CONFIGURATION, SUBSCRIPTION, AdminRig
from tests.net.subscription_rig_broker import batch, single
from tests.net.test_subscription_join import out_of_order


def slot_of(key: str) -> int:
    """The slot of a key, on the ring."""
    return consistent_slot(murmur31(key.encode()))


def draining_rig() -> tuple[AdminRig, str]:
    """Worker a holds a message of a key that went to b, with another one waiting for it; and that key."""
    rig = AdminRig()
    rig.worker("a", permits=9)
    rig.worker("probe").close()
    rig.worker("b", permits=9)
    key = rig.key_for("b")
    (b,) = [
        item for item in rig.subscription.subscribers.values() if item.worker is not None and item.worker.name == "b"
    ]
    rig.subscription.membership.leave(b, "for the story")
    rig.link.deliver((0, single(key)))
    rig.worker("b", permits=9)
    rig.link.deliver((1, single(key)))
    return rig, key


# ---- health


def test_livez_is_live_even_when_not_ready() -> None:
    """A broker that is down is no reason to restart the gateway."""
    rig = AdminRig()
    rig.reasons.append("broker: down")
    answer = rig.ask("GET", "/livez")
    assert (answer.status_code, answer.json()) == (200, {"live": True})


def test_readyz_is_200_without_a_reason_against_it() -> None:
    """And says so in its body as well."""
    answer = AdminRig().ask("GET", "/readyz")
    assert (answer.status_code, answer.json()) == (200, {"ready": True, "reasons": []})


def test_readyz_is_503_with_every_reason() -> None:
    """An operator reads why without a log."""
    rig = AdminRig()
    rig.reasons += ["draining", "broker: down"]
    answer = rig.ask("GET", "/readyz")
    assert answer.status_code == 503
    assert answer.json() == {"ready": False, "reasons": ["draining", "broker: down"]}


# ---- reads


def test_subscriptions_are_told_by_page() -> None:
    """In the order of their names, with what all of them share on every page."""
    rig = AdminRig()
    for name in ("c", "a", "b"):
        rig.worker(subscription=name)
    first = rig.ask("GET", "/api/v1/subscriptions", params={"limit": 2}).json()
    assert [item["subscription"] for item in first["subscriptions"]] == ["a", "b"]
    assert (first["subscriptions_count"], first["workers"]) == (3, 3)
    second = rig.ask("GET", "/api/v1/subscriptions", params={"limit": 2, "after": first["next"]}).json()
    assert [item["subscription"] for item in second["subscriptions"]] == ["c"]
    assert second["next"] is None


def test_a_subscription_and_its_workers() -> None:
    """PIP-379's names, at the holder of what drains."""
    rig, key = draining_rig()
    shown = rig.get("")
    workers = {worker["name"]: worker for worker in shown["dispatcher"]["workers"]}
    assert shown["topic"] == "persistent://public/default/orders"
    assert workers["a"]["draining_hashes_count"] == 1
    assert workers["a"]["draining_hashes_unacked_messages"] == 1
    assert [(item["hash"], item["owner"]) for item in workers["a"]["draining_hashes"]] == [(slot_of(key), "b")]
    assert workers["b"]["draining_hashes_count"] == 0
    assert rig.get("/workers/a") == workers["a"]


def test_the_ring_covers_the_whole_hash_space_once() -> None:
    """Each range behind the one before."""
    rig, _ = draining_rig()
    ring = rig.get("/ring")
    assert ring["workers"] == ["a", "b"]
    assert (ring["ranges"][0][0], ring["ranges"][-1][1], ring["hash_space"]) == (1, 65_535, 65_535)
    assert all(before[1] + 1 == after[0] for before, after in zip(ring["ranges"], ring["ranges"][1:], strict=False))
    assert {place for _, _, place in ring["ranges"]} == {0, 1}


def test_draining_hashes_of_subscription_and_worker() -> None:
    """By page; of who holds them, not of who waits for them."""
    rig, key = draining_rig()
    page = rig.get("/draining-hashes")
    assert (page["draining_hashes_count"], page["holders"], page["next"]) == (1, ["a"], None)
    assert [item["hash"] for item in page["draining_hashes"]] == [slot_of(key)]
    assert rig.get("/workers/a/draining-hashes") | {"now": 0} == page | {"now": 0}
    assert rig.get("/workers/b/draining-hashes")["draining_hashes"] == []
    assert rig.get("/draining-hashes", after=slot_of(key))["draining_hashes"] == []


def test_a_key_that_waits_is_explained() -> None:
    """With who must do what; so is its slot by number."""
    rig, key = draining_rig()
    answer = rig.get("/explain", key=key)
    assert (answer["state"], answer["owner"], answer["holder"]) == ("draining", "b", "a")
    assert answer["blocking"][0]["position"] == "7:0"
    assert answer["unblocks"].startswith("a must acknowledge")
    assert rig.get("/explain", slot=slot_of(key)) == answer


def test_pending_acks_of_a_worker() -> None:
    """All of them, or of one key."""
    rig, key = draining_rig()
    page = rig.get("/workers/a/pending-acks")
    assert [item["message_id"] for item in page["deliveries"]] == ["7:0"]
    assert page["deliveries"][0]["draining"]
    assert rig.get("/workers/a/pending-acks", key=key) == page
    assert rig.get("/workers/a/pending-acks", key=key + "x")["total"] == 0


def test_a_join_and_a_leave_are_previewed_without_effect() -> None:
    """What would happen, then, is what happens."""
    rig, _ = draining_rig()
    before = rig.get("/ring")
    preview = rig.ask("POST", SUBSCRIPTION + "/preview/join", json={"worker": "c"}).json()
    assert [worker["name"] for worker in preview["workers"]] == ["a", "b", "c"]
    assert preview["workers"][2]["joins"]
    assert rig.get("/ring") == before
    rig.worker("c")
    share = next(worker for worker in rig.get("")["dispatcher"]["workers"] if worker["name"] == "c")["hash_space_share"]
    assert preview["workers"][2]["share_after"] == pytest.approx(share)
    leave = rig.get("/preview/leave", worker=["a", "c"])
    assert [worker["share_after"] for worker in leave["workers"]] == [0, 1, 0]
    assert leave["messages_redelivered"] == 1


def test_the_configuration_is_told_with_secrets_masked() -> None:
    """As it was given."""
    assert AdminRig().ask("GET", "/api/v1/configuration").json() == CONFIGURATION


# ---- orders


def test_pause_and_resume() -> None:
    """Of what is there, and of what was paused and has left since."""
    rig = AdminRig()
    worker = rig.worker("a", permits=9)
    rig.order("POST", "/pause")
    rig.link.deliver((0, single("k")))
    assert worker.entries() == []
    assert rig.get("")["dispatcher"]["paused"]
    rig.order("POST", "/resume")
    assert worker.entries() == [0]
    rig.order("POST", "/pause")
    worker.close()
    (standing,) = rig.ask("GET", "/api/v1/orders").json()
    assert (standing["present"], standing["paused"], standing["drained"]) == (False, True, [])
    rig.order("POST", "/resume")
    assert rig.ask("GET", "/api/v1/orders").json() == []


def test_drain_and_evict() -> None:
    """A drained worker gets nothing new; an evicted one is told to close."""
    rig = AdminRig()
    worker = rig.worker("a", permits=9)
    assert rig.order("POST", "/workers/a/drain") == {"workers": 1}
    rig.link.deliver((0, single("k")))
    assert worker.entries() == []
    assert rig.get("/explain", key="k")["state"] == "drained_by_operator"
    assert rig.order("DELETE", "/workers/a/drain") == {"workers": 1}
    assert worker.entries() == [0]
    assert rig.order("POST", "/workers/a/evict") == {"workers": 1}
    assert worker.forgotten


def test_a_drain_of_a_worker_that_has_left_can_be_taken_back() -> None:
    """Whether others of its subscription are here or not."""
    rig = AdminRig()
    a = rig.worker("a")
    b = rig.worker("b")
    rig.order("POST", "/workers/a/drain")
    rig.order("POST", "/workers/b/drain")
    a.close()
    assert rig.order("DELETE", "/workers/a/drain") == {"workers": 0}
    b.close()
    assert rig.order("DELETE", "/workers/b/drain") == {"workers": 0}
    assert rig.ask("GET", "/api/v1/orders").json() == []


def test_a_list_is_without_what_may_be_long() -> None:
    """A page may have a thousand subscriptions, each with thousands of slots; counts are there."""
    rig, _ = draining_rig()
    (row,) = rig.ask("GET", "/api/v1/subscriptions").json()["subscriptions"]
    whole = rig.get("")
    assert row["dispatcher"]["draining_hashes_count"] == whole["dispatcher"]["draining_hashes_count"] == 1
    for worker, entire in zip(row["dispatcher"]["workers"], whole["dispatcher"]["workers"], strict=True):
        assert entire["key_hash_ranges"]
        assert worker == entire | {"key_hash_ranges": [], "draining_hashes": []}
    assert row["hand_overs"] == []


def test_mode_and_limits_can_be_taken_back() -> None:
    """While workers are here and when they have left."""
    rig = AdminRig()
    worker = rig.worker("a")
    rig.order("PUT", "/ordering-mode", {"ordering_mode": "last_sent_position"})
    rig.order("PUT", "/ordering-mode", {"ordering_mode": None})
    assert rig.get("")["dispatcher"]["ordering_mode"] == "draining_hashes"
    assert rig.ask("GET", "/api/v1/orders").json() == []
    rig.order("PUT", "/ordering-mode", {"ordering_mode": "last_sent_position"})
    rig.order("PUT", "/limits", {"max_unacked_messages_per_worker": 5})
    worker.close()
    rig.order("PUT", "/limits", {})
    rig.order("PUT", "/ordering-mode", {"ordering_mode": None})
    assert rig.ask("GET", "/api/v1/orders").json() == []
    for path, body in (("/limits", {}), ("/ordering-mode", {"ordering_mode": None})):
        assert rig.ask("PUT", SUBSCRIPTION + path, json=body).status_code == 404


def test_a_mode_can_be_taken_back_from_clients_that_have_none() -> None:
    """It stood for a subscription whose next workers ask for delivery without order."""
    rig = AdminRig()
    worker = rig.worker("a")
    rig.order("PUT", "/ordering-mode", {"ordering_mode": "last_sent_position"})
    worker.close()
    rig.worker("b", keySharedMeta=out_of_order())
    rig.order("PUT", "/ordering-mode", {"ordering_mode": None})
    assert rig.get("")["dispatcher"]["ordering_mode"] == "unordered"
    assert rig.ask("GET", "/api/v1/orders").json() == []


def test_mode_and_limits_are_changed_live() -> None:
    """Those not named are the configuration's."""
    rig = AdminRig()
    rig.worker("a")
    rig.order("PUT", "/ordering-mode", {"ordering_mode": "last_sent_position"})
    assert rig.get("")["dispatcher"]["ordering_mode"] == "last_sent_position"
    before = rig.order("PUT", "/limits", {})
    after = rig.order("PUT", "/limits", {"max_unacked_messages_per_worker": 5})
    assert after == before | {"max_unacked_messages_per_worker": 5}
    (standing,) = rig.ask("GET", "/api/v1/orders").json()
    assert (standing["ordering_mode"], standing["limits"]) == (
        "last_sent_position",
        {"max_unacked_messages_per_worker": 5},
    )


def test_what_contradicts_a_newer_configuration_is_named_where_it_was_ordered() -> None:
    """The one whose limits are changed need not know of it; what a worker asks for is no contradiction at all."""
    rig = AdminRig()
    rig.worker("a", metadata=[pb.KeyValue(key="keyline.retry-delay-ms", value="400")])
    rig.order("PATCH", "/limits", {"retry_delay_ms": 700})
    rig.subscriptions.reconfigure(replace(rig.subscriptions.services.settings, retry_delay_max_ms=10))
    answer = rig.ask("PATCH", SUBSCRIPTION + "/limits", json={"key_window": 1})
    assert answer.status_code == 409
    said = answer.json()["detail"]
    assert said.startswith("retry_delay_ms (700) must be at most retry_delay_max_ms (10): ")
    assert said.endswith("; ordered before: retry_delay_ms; take that back first (keyline limits --reset)")
    answer = rig.ask("PATCH", SUBSCRIPTION + "/limits", json={"retry_delay_ms": 800})
    assert "ordered before" not in answer.json()["detail"]
    told = rig.order("PATCH", "/limits", {"retry_delay_ms": None, "key_window": 1})
    assert told["in_effect"]["key_window"] == 1
    assert told["in_effect"]["retry_delay_ms"] == 400


def test_only_limits_that_are_named_are_changed() -> None:
    """Null gives one back to the configuration; both values are told of each."""
    rig = AdminRig()
    rig.worker("a")
    rig.order("PATCH", "/limits", {"max_unacked_messages_per_worker": 5})
    told = rig.order("PATCH", "/limits", {"look_ahead_messages_per_worker": 7})
    assert rig.get("/limits") == told
    assert told["in_effect"] == told["configured"] | {
        "max_unacked_messages_per_worker": 5,
        "look_ahead_messages_per_worker": 7,
    }
    told = rig.order("PATCH", "/limits", {"max_unacked_messages_per_worker": None})
    assert told["in_effect"] == told["configured"] | {"look_ahead_messages_per_worker": 7}
    (standing,) = rig.ask("GET", "/api/v1/orders").json()
    assert standing["limits"] == {"look_ahead_messages_per_worker": 7}


def test_slots_that_wait_are_listed_oldest_first_with_their_keys() -> None:
    """Why, for whom, and whether that worker is well; the counts are whole."""
    rig = AdminRig()
    rig.worker("a", permits=1)
    for number, key in enumerate(("first", "second", "third", "third")):
        rig.link.deliver((number, single(key)))
        rig.clock.advance(10)
    told = rig.get("/stuck", limit=1)
    assert (told["waiting_slots"], told["waiting_messages"]) == (2, 3)
    (oldest,) = told["slots"]
    assert (oldest["key"], oldest["slot"], oldest["state"]) == ("second", slot_of("second"), "no_permits")
    assert (oldest["worker"], oldest["waiting_s"], oldest["waiting_messages"]) == ("a", 30, 1)
    assert [slot["key"] for slot in rig.get("/stuck")["slots"]] == ["second", "third"]


def test_of_a_long_key_only_the_beginning_is_listed() -> None:
    """A thousand of them may be listed, and a client may make each as long as a message may be."""
    rig = AdminRig()
    rig.worker("a", permits=1)
    for number in range(2):
        rig.link.deliver((number, single("k" * 100_000)))
    assert [slot["key"] for slot in rig.get("/stuck")["slots"]] == ["k" * 128 + "…"]


def test_keys_with_the_most_messages_are_listed_with_what_is_not_acknowledged_of_them() -> None:
    """What waits, what workers have, since when, and for whom."""
    rig = AdminRig()
    rig.worker("a", permits=2)
    for number, key in enumerate(("hot", "cold", "hot", "hot")):
        rig.link.deliver((number, single(key)))
        rig.clock.advance(1)
    told = rig.get("/hot-keys")
    hot, cold = told["keys"]
    assert (hot["key"], hot["slot"], cold["key"]) == ("hot", slot_of("hot"), "cold")
    assert (hot["unacked_messages"], hot["waiting_messages"], hot["state"], hot["worker"]) == (1, 2, "no_permits", "a")
    assert (cold["unacked_messages"], cold["waiting_messages"], cold["state"]) == (1, 0, "flowing")
    assert (hot["oldest_s"], cold["oldest_s"]) == (4, 3)
    assert hot["messages_per_s"] == pytest.approx(3 * cold["messages_per_s"], rel=0.05)
    assert told["messages_per_s"] == pytest.approx(1, rel=0.05)
    assert hot["share_percent"] == pytest.approx(75, rel=0.05)
    assert [row["key"] for row in rig.get("/hot-keys", limit=1)["keys"]] == ["hot"]
    assert rig.ask("GET", f"{SUBSCRIPTION}/hot-keys?limit=101").status_code == 400


def test_an_entry_that_a_broker_sends_again_makes_no_key_hot() -> None:
    """It was counted when it came first."""
    rig = AdminRig()
    rig.worker("a", permits=0)
    for _ in range(50):
        rig.link.deliver((0, single("again")))
        rig.clock.advance(0.1)
    for number in range(1, 3):
        rig.link.deliver((number, single("other")))
    assert [row["key"] for row in rig.get("/hot-keys")["keys"]] == ["other", "again"]


def test_keys_of_batches_are_counted_message_by_message() -> None:
    """Of a batch of many keys, not its first one's alone."""
    rig = AdminRig()
    rig.worker("a", permits=1_000)
    rig.link.deliver((0, batch([(key, b"") for key in "xyyz"])), (1, batch([("y", b"")] * 2)))
    told = {row["key"]: row["share_percent"] for row in rig.get("/hot-keys")["keys"]}
    assert told == pytest.approx({"x": 100 / 6, "y": 400 / 6, "z": 100 / 6})


def test_a_key_is_shown_as_text_and_shortened() -> None:
    """Whatever bytes a client chose; of a message without a key what the broker hashes."""
    rig = AdminRig()
    rig.worker("a", permits=1_000)
    rig.link.deliver((0, single("k" * 1_000)), (1, single(None)))
    shown = {row["key"] for row in rig.get("/hot-keys")["keys"]}
    assert shown == {"k" * 128 + "…", "shop-7"}


def test_a_worker_that_stopped_is_named_by_all_who_tell_of_it() -> None:
    """Of the subscription, in the list, of the key; by the same state, sentence and command."""
    rig = AdminRig()
    rig.worker("a", permits=1)
    for number in range(3):
        rig.link.deliver((number, single("k")))
    rig.clock.advance(100)
    one, listed = rig.get("")["dispatcher"], rig.ask("GET", "/api/v1/subscriptions").json()["subscriptions"][0]
    key = rig.get("/explain", key="k")
    assert one["verdict"] == listed["dispatcher"]["verdict"] == key["verdict"]
    assert (key["verdict"]["state"], key["verdict"]["worker"]) == ("stopped_acknowledging", "a")
    assert key["verdict"]["command"] == "keyline pending orders s a"
    health = rig.get("/workers/a")["health"]
    assert (health["state"], health["waiting_for_it"]) == ("stopped_acknowledging", 2)
    assert health["silent_s"] == pytest.approx(100)
    assert key["blocking"][0]["holder"] == "a"


ORDERS: tuple[tuple[str, str, object], ...] = (
    ("POST", "/pause", None),
    ("POST", "/resume", None),
    ("PUT", "/ordering-mode", {"ordering_mode": "draining_hashes"}),
    ("PUT", "/limits", {}),
    ("PATCH", "/limits", {}),
    ("POST", "/workers/a/drain", None),
    ("DELETE", "/workers/a/drain", None),
    ("POST", "/workers/a/exclude", None),
    ("DELETE", "/workers/a/exclude", None),
    ("POST", "/workers/a/evict", None),
)


@pytest.mark.parametrize(("method", "path", "body"), ORDERS)
def test_a_read_only_gateway_takes_no_order(method: str, path: str, body: object) -> None:
    """And says which setting makes it so."""
    rig = AdminRig(read_only=True)
    rig.worker("a")
    answer = rig.ask(method, SUBSCRIPTION + path, json=body)
    assert answer.status_code == 403
    assert "admin_read_only" in answer.json()["detail"]
    assert not rig.subscription.state.dispatcher.paused
    assert len(rig.subscription.subscribers) == 1


@pytest.mark.parametrize(("method", "path", "body"), ORDERS)
def test_another_sites_page_can_order_nothing(method: str, path: str, body: object) -> None:
    """A browser says where a request comes from; programs say nothing."""
    rig = AdminRig()
    rig.worker("a")
    refused = rig.ask(method, SUBSCRIPTION + path, json=body, headers={"Sec-Fetch-Site": "cross-site"})
    assert refused.status_code == 403
    assert len(rig.subscription.subscribers) == 1
    assert not rig.subscription.state.dispatcher.paused
    own = rig.ask(method, SUBSCRIPTION + path, json=body, headers={"Sec-Fetch-Site": "same-origin"})
    assert own.is_success


@pytest.mark.parametrize(("method", "path", "body"), ORDERS)
def test_another_sites_page_can_order_nothing_over_plain_http(method: str, path: str, body: object) -> None:
    """There a browser does not say where a request comes from, but whose page it is."""
    rig = AdminRig()
    rig.worker("a")
    for origin in ("http://elsewhere", "http://gateway:1", "null"):
        refused = rig.ask(method, SUBSCRIPTION + path, json=body, headers={"Origin": origin})
        assert refused.status_code == 403, origin
    assert len(rig.subscription.subscribers) == 1
    assert rig.ask(method, SUBSCRIPTION + path, json=body, headers={"Origin": "http://gateway"}).status_code != 403


def test_a_reload_is_an_order_too() -> None:
    """Not for pages of other sites, nor where no orders are taken; what it does is in `tests/test_reload.py`."""
    path = "/api/v1/configuration/reload"
    assert AdminRig(read_only=True).ask("POST", path).status_code == 403
    rig = AdminRig()
    assert rig.ask("POST", path, headers={"Sec-Fetch-Site": "cross-site"}).status_code == 403
    assert rig.ask("POST", path).json()["detail"].startswith("this gateway was started without a configuration")


@pytest.mark.parametrize(("method", "path", "body"), ORDERS)
def test_every_order_has_a_test_here(method: str, path: str, body: object) -> None:
    """What is no GET is in the list above, a preview, or has its own list: groups, replicas, settings, parked keys."""
    del body
    paths = AdminRig().app.openapi()["paths"]
    orders = {
        (verb.upper(), path)
        for path, verbs in paths.items()
        for verb in verbs
        if verb != "get"
        and not path.endswith("/preview/join")
        and not path.startswith(("/api/v1/groups/", "/api/v1/deployment/", "/api/v1/group-topics"))
        and not path.endswith(("/owner", "/configuration/reload"))
        and not path.endswith(("/parked/redrive", "/parked/drop", "/parked/drop-incomplete"))
    }
    template = "/api/v1/subscriptions/{tenant}/{namespace}/{topic}/{subscription}"
    assert (method, template + path.replace("/a/", "/{worker}/")) in orders
    assert len(orders) == len(ORDERS)
