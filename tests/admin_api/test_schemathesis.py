"""Requests made up from the OpenAPI document: each is answered as the document says, never by a fault."""

from __future__ import annotations

from typing import Any

import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.admin_api.rig import AdminRig
from tests.admin_api.test_routes import draining_rig

RIG, _KEY = draining_rig()
CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]

schema = schemathesis.openapi.from_asgi("/openapi.json", RIG.app).exclude(path="/api/v1/events")


def revive(rig: AdminRig) -> None:
    """Orders may have evicted everybody."""
    if rig.count == 0:
        rig.worker("a", permits=9)


@schema.parametrize()
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
def test_no_request_finds_a_fault(case: schemathesis.Case[Any]) -> None:
    """Among subscriptions that are there half of the time."""
    revive(RIG)
    names = {"tenant": "public", "namespace": "default", "topic": "orders", "subscription": "s", "worker": "a"}
    if len(case.id) and hash(case.id) % 2:
        case.path_parameters.update({name: value for name, value in names.items() if name in case.path_parameters})
    case.call_and_validate(checks=CHECKS)
    RIG.clock.settle()
