"""The tests' own client waits for answers, not for heartbeats."""

from __future__ import annotations

import socket

from proxy.wire import pulsar_pb2 as pb
from tests.integration.raw_client import RawClient, T, frame


def test_what_has_come_is_told_though_it_was_a_heartbeat() -> None:
    """A PING is answered and nothing is told; then what is whole is told, and no more is waited for."""
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        RawClient(f"pulsar://127.0.0.1:{server.getsockname()[1]}", connect=False) as client,
        server.accept()[0] as peer,
    ):
        peer.sendall(frame(T.PING, pb.CommandPing()))
        assert client.received() == []
        assert peer.recv(1 << 10) == frame(T.PONG, pb.CommandPong())
        answer = frame(T.SUCCESS, pb.CommandSuccess(request_id=7))
        peer.sendall(answer + answer + answer[:5])
        assert [command.success.request_id for command in client.received()] == [7, 7]
