"""Parked keys, asked for and ordered out by the API and shown by the command line."""

from __future__ import annotations

from io import StringIO
from typing import Any

import pytest
from rich.console import Console

from proxy.cli import subscription_tables
from proxy.net.subscription.topic_reading import QUIET_S
from proxy.wire import pulsar_pb2 as pb
from tests.admin_api.rig import SUBSCRIPTION, AdminRig
from tests.net.subscription_rig import Worker
from tests.net.subscription_rig_broker import single
from tests.net.test_subscription_parking import PARKING, Lot, arrive, redriven
from tests.test_cli_operate import TARGET, printed


def parking_rig() -> tuple[AdminRig, Lot, Worker]:
    """A gateway whose key k is parked, with two messages."""
    rig, lot = AdminRig(park_after=1, key_window=1), Lot()
    worker = rig.subscribe("a")
    lot.pump(rig)
    worker.commands()
    worker.flow(50)
    arrive(rig, (0, single("k", b"0")), (1, single("k", b"1")))
    worker.redeliver(*worker.messages())
    lot.pump(rig)
    return rig, lot, worker


def shown(table: Any) -> str:
    """What the command line prints."""
    file = StringIO()
    Console(width=200, file=file).print(table)
    return file.getvalue()


def test_parked_keys_and_their_messages_are_listed() -> None:
    """With their keys, where they were and where they are, and since how many attempts."""
    rig, _, _ = parking_rig()
    answer = rig.get("/parked")
    assert (answer["parking_topic"], answer["parked_slots"], answer["parked_messages"]) == (PARKING, 1, 2)
    (slot,) = answer["slots"]
    assert (slot["state"], slot["messages"], slot["keys"], slot["attempts"]) == ("parked", 2, ["k"], 1)
    messages = rig.get("/parked/messages", key="k")
    assert [(each["position"], each["parked_position"][:3]) for each in messages] == [("7:0", "50:"), ("7:1", "50:")]
    assert messages == rig.get("/parked/messages", slot=slot["slot"])
    assert "1 hash slot is parked, with 2 messages" in shown(subscription_tables.parked(answer))
    assert "7:1" in shown(subscription_tables.parked_messages(messages))
    assert rig.get("")["dispatcher"]["parked_slots"] == 1
    assert rig.get("/explain", key="k")["state"] == "parked"


@pytest.mark.parametrize(("order", "seen"), [("redrive", [b"0", b"1", b"2"]), ("drop", [b"2"])])
def test_an_order_takes_a_key_out_and_is_told(order: str, seen: list[bytes]) -> None:
    """By whom it was given; then nothing is parked, and a second order is refused."""
    rig, lot, worker = parking_rig()
    ear = rig.subscriptions.events.listen(lambda: None)
    answer = rig.ask("POST", f"{SUBSCRIPTION}/parked/{order}?key=k")
    assert answer.json()["messages"] == 2
    arrive(rig, (2, single("k", b"2")))
    assert redriven(rig, lot, worker) == seen
    kinds = [event.kind for event in ear.take()[1]]
    assert kinds == ["operator_order", "redriven" if order == "redrive" else "parked_dropped"]
    assert rig.get("/parked")["slots"] == []
    assert shown(subscription_tables.parked(rig.get("/parked"))).strip() == "No key is parked."
    again = rig.ask("POST", f"{SUBSCRIPTION}/parked/{order}?key=k")
    assert again.status_code == 404
    assert "is not parked" in again.json()["detail"]


def test_what_is_parked_in_part_is_dropped_alone() -> None:
    """The key is parked still, and its other messages with it."""
    rig, lot, worker = parking_rig()
    arrive(rig, (2, single("k", b"2", uuid="u", num_chunks_from_msg=2, chunk_id=1)))
    lot.pump(rig)
    rig.clock.advance(QUIET_S)
    assert "keyline drop --incomplete" in rig.ask("POST", f"{SUBSCRIPTION}/parked/redrive?key=k").json()["detail"]
    ear = rig.subscriptions.events.listen(lambda: None)
    printed(rig, "drop", *TARGET, "--key", "k", "--incomplete")
    (event,) = ear.take()[1]
    assert event.facts["order"] == "drop incomplete"
    lot.pump(rig)
    assert rig.get("/parked")["parked_messages"] == 2
    assert rig.ask("POST", f"{SUBSCRIPTION}/parked/drop-incomplete?key=k").json()["messages"] == 0
    assert rig.ask("POST", f"{SUBSCRIPTION}/parked/redrive?key=k").json()["messages"] == 2
    assert redriven(rig, lot, worker) == [b"0", b"1"]


def test_where_nothing_is_parked_ever_the_answer_says_so() -> None:
    """No topic."""
    rig = AdminRig()
    rig.worker("a")
    assert rig.get("/parked")["parking_topic"] is None
    assert rig.get("/parked/messages", key="k") == []
    assert rig.ask("POST", f"{SUBSCRIPTION}/parked/redrive?key=k").status_code == 404


def test_a_group_cannot_park() -> None:
    """Its replicas share the subscription, and a key's lot is in one place."""
    rig = AdminRig(park_after=1)
    rig.streamed = True  # type: ignore[misc]
    code, text = rig.subscribe("a").error()
    assert code == pb.NotAllowedError
    assert "group" in text


@pytest.mark.parametrize("order", ["redrive", "drop"])
def test_neither_a_read_only_gateway_nor_another_sites_page_takes_a_key_out(order: str) -> None:
    """As for every order."""
    path = f"{SUBSCRIPTION}/parked/{order}?key=k"
    rig, _, _ = parking_rig()
    assert rig.ask("POST", path, headers={"Sec-Fetch-Site": "cross-site"}).status_code == 403
    rig = AdminRig(read_only=True)
    rig.worker("a")
    answer = rig.ask("POST", path)
    assert answer.status_code == 403
    assert "admin_read_only" in answer.json()["detail"]


def test_a_name_that_a_client_chose_is_shown_as_text() -> None:
    """It is no markup, and nothing that a terminal carries out."""
    rig, _, _ = parking_rig()
    answer = {**rig.get("/parked"), "parking_topic": "t[/x]\x1b]0;title\x07", "trouble": "[/y]"}
    assert r"in t[/x]\x1b]0;title\x07; [/y]" in shown(subscription_tables.parked(answer))
