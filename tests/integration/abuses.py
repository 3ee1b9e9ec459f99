"""What clients may do wrong to a server, on purpose or not: each kind as one function that checks what it gets for it.

`url` is the server's, `topic` one that nobody else uses.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from proxy.wire import pulsar_pb2 as pb
from tests.integration.raw_client import RawClient, T, frame

Abuse = Callable[[str, str], None]


def told_and_cut_off(client: RawClient) -> None:
    """The server says one ERROR and closes the connection."""
    assert [answer.type for answer in client.ended()] == [T.ERROR]
    client.close()


def cut_off(client: RawClient) -> None:
    """The server closes the connection, with an ERROR or without a word."""
    assert [answer.type for answer in client.ended()] in ([], [T.ERROR])
    client.close()


def subscribe_frame(topic: str) -> bytes:
    """A worker's SUBSCRIBE."""
    body = pb.CommandSubscribe(
        topic=topic, subscription="s", subType=pb.CommandSubscribe.Key_Shared, consumer_id=1, request_id=1
    )
    return frame(T.SUBSCRIBE, body)


def truncated_frames(url: str, topic: str) -> None:
    """A frame that ends with the connection, cut at every place, before and after CONNECT."""
    whole = subscribe_frame(topic)
    for connect in (False, True):
        for end in range(1, len(whole), 7):
            client = RawClient(url, connect=connect)
            client.send(whole[:end])
            client.close()


def wrong_sizes(url: str, topic: str) -> None:
    """Sizes that cannot be right: told and cut off, without waiting for bytes that would never come."""
    _ = topic
    for head in ("ffffffff", "7fffffff", "00000000", "00000005", "00500000ffffffff", "0000000600000000"):
        for connect in (False, True):
            client = RawClient(url, connect=connect)
            client.send(bytes.fromhex(head))
            told_and_cut_off(client)


def oversized_message(url: str, topic: str) -> None:
    """A message larger than any the broker takes, announced in its first four bytes."""
    client = RawClient(url).locate(topic)
    client.send((6 << 20).to_bytes(4, "big") + bytes(60_000))
    cut_off(client)


def random_bytes(url: str, topic: str) -> None:
    """Noise, from a seed, that claims a frame larger than allowed; other noise is a truncated frame."""
    _ = topic
    noise = random.Random(5)  # noqa: S311 - noise, no secret
    for connect in (False, True):
        for _ in range(5):
            client = RawClient(url, connect=connect)
            client.send(b"\x80" + noise.randbytes(500))
            told_and_cut_off(client)


def random_commands(url: str, topic: str) -> None:
    """Frames whose sizes are right and whose command is noise; what is only passed on, the broker cuts off."""
    _ = topic
    noise = random.Random(6)  # noqa: S311 - noise, no secret
    for kind in (T.SUBSCRIBE, T.ACK, T.FLOW, T.SEEK, T.SEND, T.PRODUCER, T.CONNECT, T.LOOKUP, T.CLOSE_CONSUMER, 99):
        command = bytes((8, kind)) + b"\xff" + noise.randbytes(60)
        client = RawClient(url)
        client.send((len(command) + 4).to_bytes(4, "big") + len(command).to_bytes(4, "big") + command)
        cut_off(client)


def before_connect(url: str, topic: str) -> None:
    """Commands of a client that did not say who it is."""
    for data in (
        subscribe_frame(topic),
        frame(T.FLOW, pb.CommandFlow(consumer_id=1, messagePermits=5)),
        frame(T.PRODUCER, pb.CommandProducer(topic=topic, producer_id=1, request_id=1)),
        frame(T.PING, pb.CommandPing()),
    ):
        client = RawClient(url, connect=False)
        client.send(data)
        told_and_cut_off(client)


def out_of_sequence(url: str, topic: str) -> None:
    """A second CONNECT, and what only a server may say."""
    message = pb.CommandMessage(consumer_id=1, message_id=pb.MessageIdData(ledgerId=1, entryId=1))
    for data in (
        frame(T.CONNECT, pb.CommandConnect(client_version="raw")),
        frame(T.CONNECTED, pb.CommandConnected(server_version="me")),
        frame(T.SUCCESS, pb.CommandSuccess(request_id=1)),
        frame(T.MESSAGE, message),
        frame(T.REACHED_END_OF_TOPIC, pb.CommandReachedEndOfTopic(consumer_id=1)),
    ):
        client = RawClient(url).locate(topic)
        client.send(data)
        told_and_cut_off(client)


def unknown_consumers(url: str, topic: str) -> None:
    """Commands for consumers that are none: ignored or refused one by one; the connection goes on."""
    place = pb.MessageIdData(ledgerId=1, entryId=1)
    with RawClient(url).locate(topic) as client:
        for consumer_id in (0, 1, 2**63, 2**64 - 1):
            client.flow(100, consumer_id)
            client.ack([place], consumer_id)
            again = pb.CommandRedeliverUnacknowledgedMessages(consumer_id=consumer_id)
            client.send(frame(T.REDELIVER_UNACKNOWLEDGED_MESSAGES, again))
            refused = client.ask(T.SEEK, pb.CommandSeek(consumer_id=consumer_id, request_id=0, message_id=place))
            assert refused.type == T.ERROR
        assert client.ping() == []
        client.joined(topic, "others", 2**64 - 1)


def foreign_acks(url: str, topic: str) -> None:
    """Acks of what another worker holds, of what nobody holds, and of ids that cannot be."""
    topic += "-foreign"
    with RawClient(url).locate(topic) as holder, RawClient(url).locate(topic) as other:
        holder.produce(topic, [("k", b"1"), ("k", b"2")])
        holder.joined(topic)
        holder.flow(10)
        held = [message.place for message in holder.messages(2)]
        other.joined(topic)
        other.flow(10)
        odd = [
            pb.MessageIdData(ledgerId=ledger, entryId=entry)
            for ledger in (0, held[0].ledgerId, 2**63, 2**64 - 1)
            for entry in (77, 2**40 - 1, 2**40, 2**62 + 5, 2**63 - 1, 2**64 - 1)
        ]
        masked = pb.MessageIdData(ledgerId=held[0].ledgerId, entryId=held[0].entryId, ack_set=[0, -1, 2**63 - 1])
        assert not other.ack_confirmed([*held, *odd, masked]).HasField("error")
        holder.close()
        again = [message.place.entryId for message in other.messages(2)]
        assert again == [place.entryId for place in held]
        other.ask(T.UNSUBSCRIBE, pb.CommandUnsubscribe(consumer_id=1, request_id=0))


def no_permits_and_too_many(url: str, topic: str) -> None:
    """None and more than there can be cost the connection; as many as there can be, again and again, do not."""
    for permits in (0, 2**31, 2**32 - 1):
        client = RawClient(url).locate(topic).joined(topic, "others")
        client.flow(permits)
        told_and_cut_off(client)
    with RawClient(url).locate(topic).joined(topic, "others") as client:
        for _ in range(20):
            client.flow(2**31 - 1)
        client.ping()


def unwieldy_subscribes(url: str, topic: str) -> None:
    """Names, properties and ranges far beyond what anybody means; each is answered one way or the other."""
    many = pb.KeySharedMeta(keySharedMode=pb.STICKY)
    for start in range(0, 60_000, 2):
        many.hashRanges.add(start=start, end=start)
    wishes: tuple[dict[str, Any], ...] = (
        {"keySharedMeta": many},
        {"consumer_name": "n" * 1_000_000},
        {"metadata": [pb.KeyValue(key="k" * 1_000, value="v" * 1_000)] * 500},
        {"consumer_name": "\0\n\x1b[31m"},
        {"schema": pb.Schema(name="s", schema_data=b"{" * 100_000, type=pb.Schema.Json)},
        {"priority_level": -(2**31)},
    )
    with RawClient(url).locate(topic) as client:
        for consumer_id, wish in enumerate(wishes):
            answer = client.subscribe(f"{topic}-unwieldy-{consumer_id}", "s", consumer_id, **wish)
            assert answer.type in (T.SUCCESS, T.ERROR), answer


def never_reads(url: str, topic: str) -> None:
    """A worker that grants all it can for ten megabytes, and leaves its socket unread."""
    topic += "-unread"
    with RawClient(url).locate(topic).joined(topic) as worker, RawClient(url) as producer:
        worker.flow(2**31 - 1)
        producer.produce(topic, [("k", bytes(100_000))] * 100)


ABUSES: tuple[Abuse, ...] = (
    truncated_frames,
    wrong_sizes,
    oversized_message,
    random_bytes,
    random_commands,
    before_connect,
    out_of_sequence,
    unknown_consumers,
    foreign_acks,
    no_permits_and_too_many,
    unwieldy_subscribes,
    never_reads,
)
