"""uvicorn inside our process: real sockets, none of its habits."""

from __future__ import annotations

import asyncio
import signal

import httpx
import pytest

from admin_api.server import AdminServer
from tests.admin_api.rig import AdminRig


def test_it_serves_on_the_address_it_reports_until_it_is_stopped() -> None:
    """Port 0 asks for a free one; after stop nobody listens."""

    async def scenario() -> None:
        server = AdminServer(AdminRig().app)
        host, port = await server.start("127.0.0.1", 0)
        async with httpx.AsyncClient(base_url=f"http://{host}:{port}") as client:
            answer = await client.get("/readyz")
            assert answer.status_code == 200
            assert "server" not in answer.headers
        await server.stop()
        await server.stop()
        async with httpx.AsyncClient() as client:
            with pytest.raises(httpx.ConnectError):
                await client.get(f"http://{host}:{port}/readyz")

    asyncio.run(scenario())


def test_it_leaves_signals_to_the_gateway() -> None:
    """Uvicorn would stop at SIGTERM, before the gateway has drained."""

    async def scenario() -> None:
        before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]
        server = AdminServer(AdminRig().app)
        host, port = await server.start("127.0.0.1", 0)
        async with httpx.AsyncClient() as client:
            await client.get(f"http://{host}:{port}/livez")
        assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)] == before
        await server.stop()

    asyncio.run(scenario())


def test_an_address_in_use_is_an_error_and_not_the_end_of_the_process() -> None:
    """Uvicorn would call sys.exit."""

    async def scenario() -> None:
        first, second = (AdminServer(AdminRig().app) for _ in range(2))
        host, port = await first.start("127.0.0.1", 0)
        with pytest.raises(OSError, match="in use"):
            await second.start(host, port)
        await first.stop()

    asyncio.run(scenario())
