"""What the API's document promises, and what the gateway's own values are."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import BaseModel

from admin_api.schemas import groups, orders, pending, slots, subscriptions
from proxy.core import blocking, explain, preview, statistics
from proxy.core import pending as core_pending
from proxy.views import deployment
from proxy.views import subscriptions as subscription_statistics
from proxy.views import values as admin_values
from tests.admin_api.rig import AdminRig

PAIRS: list[tuple[type[BaseModel], type]] = [
    (subscriptions.DrainingHash, statistics.DrainingHash),
    (subscriptions.Worker, statistics.WorkerStatistics),
    (subscriptions.Dispatcher, statistics.DispatcherStatistics),
    (subscriptions.HandOver, subscription_statistics.HandOverStatistics),
    (subscriptions.Subscription, subscription_statistics.SubscriptionStatistics),
    (subscriptions.Subscriptions, subscription_statistics.SubscriptionsStatistics),
    (slots.Ring, admin_values.Ring),
    (slots.DrainingPage, admin_values.DrainingPage),
    (slots.WaitingHead, explain.WaitingHead),
    (slots.BlockingDelivery, blocking.BlockingDelivery),
    (slots.Explanation, explain.SlotExplanation),
    (slots.PreviewedMove, preview.PreviewedMove),
    (slots.PreviewedWorker, preview.PreviewedWorker),
    (slots.Preview, preview.MembershipPreview),
    (pending.PendingAck, core_pending.PendingAck),
    (pending.PendingPage, core_pending.PendingPage),
    (groups.Deployment, deployment.DeploymentStatistics),
    (groups.ReplicaShare, deployment.ReplicaShare),
    (orders.StandingOrders, admin_values.StandingOrders),
]

OPERATIONS_MIN = 40


@pytest.mark.parametrize(("schema", "value"), PAIRS, ids=lambda kind: str(getattr(kind, "__name__", kind)))
def test_the_document_names_the_fields_that_answers_have(schema: type[BaseModel], value: type) -> None:
    """Answers are written from the gateway's values, not through the schemas, so that they cost little."""
    assert list(schema.model_fields) == [field.name for field in dataclasses.fields(value)]


def test_every_state_of_a_slot_is_in_the_document() -> None:
    """Or a client made from it would fail on one."""
    document = AdminRig().app.openapi()["components"]["schemas"]["Explanation"]["properties"]["state"]["enum"]
    assert set(document) == {state.value for state in explain.SlotState}


def operations() -> list[tuple[str, str, dict[str, Any]]]:
    """(path, method, operation) of everything under /api."""
    paths = AdminRig().app.openapi()["paths"]
    return [(path, verb, told) for path, verbs in paths.items() if "/api/" in path for verb, told in verbs.items()]


def test_every_operation_is_told_whole() -> None:
    """A summary, a description, a success with a schema, and its errors as problems.

    Not as parameters: each process that collects tests would make the document.
    """
    told = list(operations())
    assert len(told) > OPERATIONS_MIN
    assert {f"{method} {path}": lacks for path, method, it in told if (lacks := list(lacking(path, method, it)))} == {}


def lacking(path: str, method: str, told: dict[str, Any]) -> Iterator[str]:
    """What an operation's part of the document lacks."""
    answers: dict[str, Any] = told["responses"]
    yield from (name for name in ("summary", "description") if not told[name])
    success = next(answer for code, answer in answers.items() if code.startswith("2"))
    content = success["content"] if method == "get" else {}
    if method == "get" and "text/event-stream" not in content and not content["application/json"]["schema"]:
        yield "a success with a schema"
    if "{" in path:
        for code in ("400", "404"):
            schema = answers[code]["content"]["application/problem+json"]["schema"]
            if not schema["$ref"].endswith("/Problem"):
                yield f"a problem for {code}"
    if "422" in answers:
        yield "its own 422, which is FastAPI's"


def test_the_document_is_published_and_no_page_loads_scripts_from_elsewhere() -> None:
    """FastAPI's documentation pages would; ours is made of the gateway's files."""
    rig = AdminRig()
    document = rig.ask("GET", "/openapi.json").json()
    assert (document["info"]["title"], document["info"]["version"]) == ("Keyline", "1.2.3")
    assert {"/livez", "/readyz", "/api/v1/subscriptions"} <= set(document["paths"])
    assert "//" not in rig.ask("GET", "/docs").text.replace("http://www.w3.org", "")
    assert rig.ask("GET", "/redoc").status_code == 404


def test_answers_hold_what_the_document_says() -> None:
    """Read back by the schemas, strictly."""
    rig = AdminRig()
    rig.worker("a", permits=9)
    path = "/subscriptions"
    answer = rig.ask("GET", "/api/v1" + path).content
    subscriptions.Subscriptions.model_validate_json(answer, strict=True)
    for below, schema in (
        ("", subscriptions.Subscription),
        ("/ring", slots.Ring),
        ("/explain?slot=5", slots.Explanation),
    ):
        from_gateway = rig.ask("GET", "/api/v1/subscriptions/public/default/orders/s" + below).content
        schema.model_validate_json(from_gateway, strict=True)
