"""Records the MESSAGE frames of a real broker: `python -m tests.wire.capture_broker 6650 8080` (its ports on loopback).

Three messages of a topic without partitions and three of a partition, each delivered twice. Recorded with Pulsar 4.2.4.
"""

import socket
import sys
import urllib.request

import pulsar

from proxy.wire import commands
from proxy.wire.frames import FrameSplitter, encode_command, frame_type
from proxy.wire.messages import parse_message
from proxy.wire.pulsar_pb2 import BaseCommand, CommandSubscribe
from tests.wire.capture import write
from tests.wire.tiny_broker import MAX_FRAME_BYTES, PROTOCOL_VERSION, READ_BYTES, WAIT_S

NAMESPACE = "public/default"
MESSAGES = 3
CONSUMER = 3


class Session:
    """One connection to a broker."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), WAIT_S)
        self._splitter = FrameSplitter(MAX_FRAME_BYTES)
        connect = BaseCommand(type=BaseCommand.CONNECT)
        connect.connect.client_version = "capture"
        connect.connect.protocol_version = PROTOCOL_VERSION
        self.ask(encode_command(connect), BaseCommand.CONNECTED)

    def ask(self, frame: bytes, kind: BaseCommand.Type, count: int = 1) -> list[bytes]:
        """Send a frame and return the next `count` frames of a type."""
        self._socket.sendall(frame)
        found: list[bytes] = []
        while len(found) < count:
            frames = self._splitter.feed(self._socket.recv(READ_BYTES))
            found += [answer for answer in frames if frame_type(answer) == kind]
        return found

    def deliveries(self, topic: str, port: int) -> list[bytes]:
        """Subscribe, have messages sent, take them, give them back, take them again."""
        lookup = BaseCommand(type=BaseCommand.LOOKUP)
        lookup.lookupTopic.topic = topic
        lookup.lookupTopic.request_id = 1
        self.ask(encode_command(lookup), BaseCommand.LOOKUP_RESPONSE)
        subscribe = BaseCommand(type=BaseCommand.SUBSCRIBE)
        body = subscribe.subscribe
        body.topic, body.subscription, body.subType = topic, "capture", CommandSubscribe.Key_Shared
        body.consumer_id, body.request_id = CONSUMER, 2
        self.ask(encode_command(subscribe), BaseCommand.SUCCESS)
        client = pulsar.Client(f"pulsar://127.0.0.1:{port}", logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Warn))
        producer = client.create_producer(topic, "shop")
        for number in range(MESSAGES):
            producer.send(b"%d" % number, partition_key="alice")
        client.close()
        first = self.ask(commands.flow(CONSUMER, 2 * MESSAGES), BaseCommand.MESSAGE, MESSAGES)
        heads = [parse_message(frame) for frame in first]
        again = commands.redeliver(CONSUMER, [(head.ledger, head.entry) for head in heads])
        return first + self.ask(again, BaseCommand.MESSAGE, MESSAGES)


def create_partitions(web_port: int, name: str) -> None:
    """Make a topic of two partitions."""
    url = f"http://127.0.0.1:{web_port}/admin/v2/persistent/{NAMESPACE}/{name}/partitions"
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(url, b"2", headers, method="PUT")
    with urllib.request.urlopen(request, timeout=WAIT_S):  # noqa: S310  the address is written above
        pass


if __name__ == "__main__":
    broker_port, admin_port = map(int, sys.argv[1:])
    create_partitions(admin_port, "captured-parts")
    topics = ("captured", "captured-parts-partition-1")
    frames = [Session(broker_port).deliveries(f"persistent://{NAMESPACE}/{topic}", broker_port) for topic in topics]
    write("broker-messages", [frame for found in frames for frame in found])
