"""Requests made up from the OpenAPI document, for each operation: schemathesis, which takes half a second to import."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.pytest.lazy import get_all_tests
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.admin_api.rig import AdminRig
from tests.admin_api.test_routes import draining_rig

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
ENDLESS = "/api/v1/events"


def check_operations(examples: int) -> Iterator[str]:
    """Send each operation what its schema singles out, and so many random requests; its name when it has passed."""
    rig, _ = draining_rig()

    def check(case: schemathesis.Case[Any]) -> None:
        revive(rig)
        names = {"tenant": "public", "namespace": "default", "topic": "orders", "subscription": "s", "worker": "a"}
        if len(case.id) and hash(case.id) % 2:
            case.path_parameters.update({name: value for name, value in names.items() if name in case.path_parameters})
        case.call_and_validate(checks=CHECKS)
        rig.clock.settle()

    schema = schemathesis.openapi.from_asgi("/openapi.json", rig.app).exclude(path=ENDLESS)
    drawn = settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck))
    for made in get_all_tests(schema=schema, test_func=check, settings=drawn, given_kwargs=None):
        assert isinstance(made, Ok), made
        operation, test = made.ok()
        try:
            test()
        except BaseException as error:
            error.add_note(f"at {operation.label}")
            raise
        yield operation.label


def revive(rig: AdminRig) -> None:
    """Orders may have evicted everybody."""
    if rig.count == 0:
        rig.worker("a", permits=9)
