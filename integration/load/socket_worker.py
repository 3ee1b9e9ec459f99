"""One worker on a WebSocket: `python -m integration.load.socket_worker OPTIONS_JSON RECORD_FILE`.

What `worker` is for the official clients, with the same records and the same way to end, in Pulsar's language (v2) or
Keyline's (v1). It connects again when it is told to, or when its connection is lost.
"""

from __future__ import annotations

import base64
import json
import random
import signal
import sys
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import urlencode, urlsplit

from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from integration.load import payload
from integration.load.client import log_to_stderr
from integration.load.options import WorkerOptions
from integration.load.records import Event, RecordWriter
from proxy.wire import pulsar_pb2 as pb

if TYPE_CHECKING:
    from types import FrameType

    from websockets.sync.client import ClientConnection

RECEIVE_S: Final = 0.05
RECEIVE_S_MIN: Final = 0.02
"""Not less, though an acknowledgement may be late by it. A queue's timed wait that first takes a lock which an earlier
message left open looks at what is left of its time, and waits for ever if that is below zero (CPython 3.11)."""
RETRY_S: Final = 0.2
STOP_SEEN_S: Final = 0.1
FRAME_BYTES_MAX: Final = 64 << 20


class Received(NamedTuple):
    """A message, whichever language it came in."""

    message_id: str
    data: bytes
    key: str
    redelivery_count: int

    @property
    def number(self) -> payload.Number:
        """What its payload says."""
        return payload.decode(self.data)

    @property
    def position(self) -> tuple[int, int, int]:
        """Ledger, entry and batch index, as the official client would tell."""
        place = pb.MessageIdData.FromString(base64.b64decode(self.message_id))
        return place.ledgerId, place.entryId, place.batch_index


def read(frame: str | bytes) -> Received | None:
    """Take a frame of either language apart; None if it is no message."""
    if isinstance(frame, bytes):
        size = int.from_bytes(frame[:4], "big")
        said: dict[str, Any] = json.loads(frame[4 : 4 + size])
        return Received(said["messageId"], frame[4 + size :], said["key"], said["attempt"] - 1)
    said = json.loads(frame)
    if said.get("type", "message") != "message" or "messageId" not in said:
        return None
    attempts = said["attempt"] - 1 if "attempt" in said else said["redeliveryCount"]
    return Received(said["messageId"], base64.b64decode(said["payload"]), said["key"], attempts)


class SocketWorker:
    """The connection and what came over it and is not acknowledged."""

    def __init__(self, options: WorkerOptions, record_file: Path) -> None:
        """Join; a subscription that does not exist starts at the topic's beginning."""
        self._options = options
        self._records = RecordWriter(record_file)
        self._random = random.Random(options.seed)  # noqa: S311 - a repeatable choice, no secret
        self._pending: deque[tuple[float, Received]] = deque()
        self._stopping = False
        self._ours = "/ws/v1/" in options.websocket
        signal.signal(signal.SIGTERM, self._stop)
        self._stack = ExitStack()
        self._socket = self._connect()
        self._records.life(Event.JOINED, time.monotonic_ns())

    def run(self) -> None:
        """Work until SIGTERM."""
        while not self._stopping:
            try:
                self._work()
            except ConnectionClosed as error:
                print(f"closed: {error}", file=sys.stderr)
                self._records.life(Event.CONNECTION_LOST, time.monotonic_ns())
                self._pending.clear()
                self._socket = self._connect()
        with suppress(ConnectionClosed), self._stack:
            while self._pending:
                self._acknowledge(self._pending.popleft()[1])
            self._records.life(Event.CLOSING, time.monotonic_ns())
        self._records.life(Event.CLOSED, time.monotonic_ns())

    def _stop(self, number: int, frame: FrameType | None) -> None:
        _ = number, frame
        self._stopping = True

    def _connect(self) -> ClientConnection:
        """Connect until it works."""
        options = self._options
        query = {
            "subscriptionType": "Key_Shared",
            "subscriptionInitialPosition": "Earliest",
            "consumerName": options.name,
            "receiverQueueSize": options.receiver_queue_size,
            "negativeAckRedeliveryDelay": options.nack_delay_ms,
        }
        topic = options.topic.replace("://", "/")
        base, _, frames = options.websocket.partition("?")
        url = f"{base}consumer/{topic}/{options.subscription}?{urlencode(query)}{frames and '&' + frames}"
        assert urlsplit(url).hostname == "127.0.0.1"
        while True:
            try:
                wanted = connect(url, max_size=FRAME_BYTES_MAX, proxy=None, compression=None)
                socket = self._stack.enter_context(wanted)
            except (OSError, InvalidStatus, TimeoutError) as error:
                print(f"not connected: {error}", file=sys.stderr)
                if self._stopping:
                    sys.exit(0)
                time.sleep(RETRY_S)
                continue
            self._records.life(Event.CONNECTED, time.monotonic_ns())
            return socket

    def _work(self) -> None:
        while not self._stopping:
            wait_s = self._acknowledge_due()
            try:
                frame = self._socket.recv(timeout=wait_s)
            except TimeoutError:
                continue
            received = read(frame)
            if received is not None:
                self._take(received)

    def _take(self, message: Received) -> None:
        options = self._options
        self._record(Event.RECEIVED, message)
        if message.key != payload.key_name(message.number.key):
            self._record(Event.GARBLED, message)
        if options.work_ms:
            time.sleep(options.work_ms / 1_000)
        if options.nack_fraction and not message.redelivery_count and self._random.random() < options.nack_fraction:
            self._record(Event.NACKED, message)
            ids = {"messageIds": [message.message_id]} if self._ours else {"messageId": message.message_id}
            self._say({"type": "nack" if self._ours else "negativeAcknowledge", **ids})
        elif options.ack_delay_ms:
            self._pending.append((time.monotonic() + options.ack_delay_ms / 1_000, message))
        else:
            self._acknowledge(message)

    def _acknowledge_due(self) -> float:
        """Acknowledge what is due and return how long to wait for the next, in seconds."""
        while self._pending:
            left = self._pending[0][0] - time.monotonic()
            if left > 0:
                return max(RECEIVE_S_MIN, min(RECEIVE_S, left))
            self._acknowledge(self._pending.popleft()[1])
        return RECEIVE_S

    def _acknowledge(self, message: Received) -> None:
        self._record(Event.ACKED, message)
        if self._ours:
            self._say({"type": "ack", "messageIds": [message.message_id]})
        else:
            self._say({"messageId": message.message_id})

    def _say(self, words: dict[str, Any]) -> None:
        self._socket.send(json.dumps(words))

    def _record(self, event: Event, message: Received) -> None:
        self._records.message(event, time.monotonic_ns(), message.number, message.position, message.redelivery_count)


def main() -> None:
    """Run one worker as the command line says."""
    log_to_stderr()
    worker = SocketWorker(WorkerOptions.from_json(sys.argv[1]), Path(sys.argv[2]))
    # Not in the main thread, which signals interrupt: a timed wait of a queue may then last for ever (CPython 3.11).
    with ThreadPoolExecutor(1) as pool:
        working = pool.submit(worker.run)
        while not working.done():
            wait([working], STOP_SEEN_S)
        working.result()


if __name__ == "__main__":
    main()
