"""The brokers' admin API, asked for callers and for the gateway: who shows the gateway's certificate."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path

from integration.certificates import Authority
from proxy.app.parts import broker_admins_of
from proxy.app.security import Certificates
from proxy.config.load import load

ANSWER = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"


def test_a_caller_does_not_come_with_the_gateways_certificate(tmp_path: Path) -> None:
    """A broker that knows roles by certificates would take one without credentials for the gateway."""
    authority = Authority(tmp_path)
    shown, own = authority.sign("shown", "localhost"), authority.sign("own", "gateway", role="keyline")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(authority.file))
    context.load_cert_chain(shown.certificate, shown.key)
    context.verify_mode = ssl.CERT_OPTIONAL
    certified: list[bool] = []

    async def broker(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        certified.append(bool(writer.get_extra_info("ssl_object").getpeercert()))
        await reader.readuntil(b"\r\n\r\n")
        writer.write(ANSWER)
        await writer.drain()
        writer.close()

    async def ask() -> None:
        server = await asyncio.start_server(broker, "127.0.0.1", 0, ssl=context)
        values = {
            "broker_admin_url": f"https://localhost:{server.sockets[0].getsockname()[1]}",
            "broker_tls_ca_file": str(authority.file),
            "broker_tls_certificate_file": str(own.certificate),
            "broker_tls_key_file": str(own.key),
        }
        config = load(None, {}, values).config
        async with server:
            for admin in broker_admins_of(config, Certificates(config)):
                answer = await admin.ask("GET", "/admin/v2/clusters", "", {})
                await answer.aclose()
                await admin.close()

    asyncio.run(ask())
    assert certified == [False, True]
