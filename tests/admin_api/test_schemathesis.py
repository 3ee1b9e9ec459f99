"""Requests made up from the OpenAPI document: each is answered as the document says, never by a fault."""

from __future__ import annotations

from tests.thorough import drawn


def test_no_request_finds_a_fault() -> None:
    """At any operation, among subscriptions that are there half of the time.

    They are made up here: as parameters of a test, each process that collects tests would make all.
    """
    from tests.admin_api.made_up_requests import check_operations  # noqa: PLC0415 - likewise

    assert len(list(check_operations(drawn(100)))) == 45, "operations with requests"
