"""The brokers' admin API, asked for open transactions: what each answer means, and who gets the gateway's token."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from admin_api.pulsar.proxying import BrokerAdmin
from proxy.aio.clock_and_connector import AioClock
from proxy.app.open_transactions import ANSWER_BYTES_MAX, BrokerTransactionStats, takeover_asks_of
from proxy.app.security import credentials
from proxy.config.load import load
from proxy.errors import KeylineError, UpstreamUnavailable
from proxy.net.broker.settings import no_credentials, token_credentials
from proxy.net.subscription.takeover_asks import MayNotAsk, NotTold, WithoutTransactions

TOPIC = "persistent://public/default/orders-partition-0"
PATH = "/admin/v3/transactions/pendingAckStats/public/default/orders-partition-0/s"
Handler = Callable[[httpx.Request], httpx.Response]


def answers(status: int, body: Any) -> Handler:
    """A broker that always answers so."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return lambda _request: httpx.Response(status, content=content)


def asked(handler: Handler, *, key: tuple[str, str] | None = (TOPIC, "s"), token: str = "") -> int | Exception:
    """What is told of a subscription, or of the coordinators."""

    async def ask() -> int | Exception:
        loop = asyncio.get_running_loop()
        admin = BrokerAdmin("http://broker:8080", timeout_s=5, transport=httpx.MockTransport(handler))
        provider = token_credentials(token) if token else no_credentials
        transactions = BrokerTransactionStats(admin, provider, loop)
        told: asyncio.Future[int | Exception] = loop.create_future()
        if key is None:
            transactions.of_coordinators(told.set_result)
        else:
            transactions.of_subscription(key, told.set_result)
        assert not told.done()
        return await told

    return asyncio.run(ask())


def test_the_number_of_a_subscription_is_told() -> None:
    """By the path of Pulsar's v3, with the names escaped."""
    seen: list[str] = []

    def broker(request: httpx.Request) -> httpx.Response:
        seen.append(request.url.raw_path.decode())
        return httpx.Response(200, json={"state": "Ready", "ongoingTxnSize": 2})

    assert asked(broker) == 2
    assert asked(broker, key=(TOPIC, "a b/ü")) == 2
    assert seen == [PATH, PATH.removesuffix("/s") + "/a%20b%2F%C3%BC"]
    assert asked(answers(200, {"state": "None", "ongoingTxnSize": 0})) == 0


def test_the_coordinators_are_added_up() -> None:
    """All that are open at any of them."""
    stats = {"0": {"ongoingTxnSize": 2}, "15": {"ongoingTxnSize": 3}}
    assert asked(answers(200, stats), key=None) == 5


@pytest.mark.parametrize(
    ("status", "body", "error"),
    [
        (400, b"Ambiguous", NotTold),
        (401, b"", MayNotAsk),
        (403, b"", MayNotAsk),
        (
            503,
            {"reason": "This Broker is not configured with transactionCoordinatorEnabled=true."},
            WithoutTransactions,
        ),
        (503, {"reason": "starting"}, KeylineError),
        (503, {"reason": f"no owner of {TOPIC}/transactionCoordinatorEnabled"}, KeylineError),
        (503, b"<td>/pendingAckStats/a/b/c/transactionCoordinatorEnabled</td>", KeylineError),
        (503, ["transactionCoordinatorEnabled"], KeylineError),
        (404, {"reason": "Topic not found"}, KeylineError),
        (500, b"<html>", KeylineError),
        (200, b"<html>", KeylineError),
        (200, {"state": "Initializing", "ongoingTxnSize": 0}, KeylineError),
        (200, {"state": "Ready"}, KeylineError),
        (200, {"state": "Ready", "ongoingTxnSize": "2"}, KeylineError),
        (200, {"state": "Ready", "ongoingTxnSize": -1}, KeylineError),
        (200, [1], KeylineError),
        (200, b"[" * 100_000, KeylineError),
        (200, b'{"state": "Ready", "ongoingTxnSize": 2' + b" " * ANSWER_BYTES_MAX + b"}", KeylineError),
    ],
)
def test_what_is_no_number_is_an_error(status: int, body: Any, error: type[KeylineError]) -> None:
    """Of the kind that says for whom it goes."""
    told = asked(answers(status, body))
    assert isinstance(told, error)
    assert isinstance(told, NotTold | WithoutTransactions) == (error is not KeylineError)
    assert isinstance(told, MayNotAsk) == (error is MayNotAsk)


def test_a_broker_that_cannot_be_reached_is_told() -> None:
    """It goes for all subscriptions."""

    def broker(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused", request=request)

    assert isinstance(asked(broker), UpstreamUnavailable)


@pytest.mark.parametrize("name", ["..", ".", "a;b/../..", "\n", "%2e%2e"])
def test_a_name_leads_nowhere_else(name: str) -> None:
    """Clients choose the names, and the gateway's own credentials are on the request."""
    paths: list[str] = []

    def broker(request: httpx.Request) -> httpx.Response:
        paths.append(request.url.raw_path.decode())
        return httpx.Response(200, json={"state": "None", "ongoingTxnSize": 0})

    told = asked(broker, key=(TOPIC, name), token="secret")
    assert isinstance(told, NotTold) or all(path.count("/") == PATH.count("/") for path in paths)
    assert not any(".." in path.split("/") for path in paths)


@pytest.mark.parametrize(
    ("settings", "asks", "sent"),
    [
        ({}, False, None),
        ({"broker_admin_url": "http://broker:8080"}, True, "Bearer secret"),
        ({"broker_admin_url": "http://broker:8080", "broker_url": "pulsar+ssl://broker:6651"}, True, None),
    ],
)
def test_the_token_goes_where_it_may(settings: dict[str, str], *, asks: bool, sent: str | None) -> None:
    """Not to the address that is the default, and not in clear where the brokers' own protocol is encrypted."""
    seen: list[str | None] = []

    def broker(request: httpx.Request) -> httpx.Response:
        seen.append(request.headers.get("authorization"))
        return httpx.Response(200, json={"state": "None", "ongoingTxnSize": 0})

    async def ask() -> None:
        loop = asyncio.get_running_loop()
        loaded = load(None, {}, {"broker_token": "secret", **settings})
        admin = BrokerAdmin("http://broker:8080", timeout_s=5, transport=httpx.MockTransport(broker))
        made, close = takeover_asks_of(loaded, admin, credentials(loaded.config), AioClock(loop), loop)
        assert (made is not None) == asks
        if made is not None:
            told: asyncio.Future[int | Exception] = loop.create_future()
            made.ask((TOPIC, "s"), told.set_result)
            assert await told == 0
        close()

    asyncio.run(ask())
    assert seen == ([sent] if asks else [])
