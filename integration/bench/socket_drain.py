"""The client of a drain over a WebSocket: `python -m integration.bench.socket_drain URL COUNT`.

Prints how many seconds passed from the first message to the last acknowledgement sent.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import Final
from urllib.parse import urlencode

from websockets.asyncio.client import connect

ACKS_AT_ONCE: Final = 50


def command(admin_url: str, topic: str, subscription: str, count: int, *, ours: bool) -> list[str]:
    """What to run."""
    query = {"subscriptionType": "Key_Shared", "subscriptionInitialPosition": "Earliest"}
    if ours:
        query["frames"] = "binary"
    path = f"/ws/{'v1' if ours else 'v2'}/consumer/{topic.replace('://', '/')}/{subscription}?{urlencode(query)}"
    return [sys.executable, "-m", __name__, admin_url.replace("http://", "ws://") + path, str(count)]


async def drain(url: str, count: int) -> float:
    """Receive and acknowledge so many; the seconds it took."""
    async with connect(url, proxy=None, compression=None, max_size=None) as socket:
        if "/ws/v1/" in url:
            await socket.recv()  # who joined
            first = await socket.recv()
            began = time.monotonic()
            ids = [_id_in(first)]
            for _ in range(count - 1):
                ids.append(_id_in(await socket.recv()))
                if len(ids) == ACKS_AT_ONCE:
                    await socket.send(json.dumps({"type": "ack", "messageIds": ids}))
                    ids = []
            if ids:
                await socket.send(json.dumps({"type": "ack", "messageIds": ids}))
            return time.monotonic() - began
        frame = await socket.recv()
        began = time.monotonic()
        await socket.send(json.dumps({"messageId": json.loads(frame)["messageId"]}))
        for _ in range(count - 1):
            await socket.send(json.dumps({"messageId": json.loads(await socket.recv())["messageId"]}))
        return time.monotonic() - began


def _id_in(frame: str | bytes) -> str:
    """The id in a binary frame's header."""
    assert isinstance(frame, bytes)
    said: dict[str, str] = json.loads(frame[4 : 4 + int.from_bytes(frame[:4], "big")])
    return said["messageId"]


if __name__ == "__main__":
    print(asyncio.run(drain(sys.argv[1], int(sys.argv[2]))))
