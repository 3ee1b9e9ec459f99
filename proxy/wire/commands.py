"""The small commands a gateway sends of its own accord, as whole frames.

Each is one plain function, so that no caller has to know which type number goes with which body. Commands that are
passed on, or that carry a client's own fields (SUBSCRIBE, PRODUCER, LOOKUP answers), are changed where they are read
and encoded with `frames.encode_command`. Source: Pulsar's "Binary protocol specification".
"""

from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from proxy.wire import pulsar_pb2 as pb
from proxy.wire.frames import encode_command, encode_message
from proxy.wire.pulsar_pb2 import BaseCommand, CommandAck, CommandPing, CommandPong, FeatureFlags, ServerError
from proxy.wire.varints import VARINT_BYTES_MAX, varint


def _constant(kind: BaseCommand.Type) -> bytes:
    command = BaseCommand(type=kind)
    (command.ping if kind == BaseCommand.PING else command.pong).SetInParent()
    return encode_command(command)


_PING: Final = _constant(BaseCommand.PING)
_PONG: Final = _constant(BaseCommand.PONG)
_ASK_CLIENT: Final = encode_command(BaseCommand(type=BaseCommand.PING, ping=CommandPing(), pong=CommandPong()))
_GONE: Final = pb.CommandCloseConsumer(consumer_id=0, request_id=2**64 - 1)
_CLIENT_GONE: Final = encode_command(BaseCommand(type=BaseCommand.CLOSE_CONSUMER, close_consumer=_GONE))
_CLIENT_LIVES: Final = encode_command(BaseCommand(type=BaseCommand.PONG, ping=CommandPing(), pong=CommandPong()))


def ping() -> bytes:
    """Asks the peer for a PONG."""
    return _PING


def pong() -> bytes:
    """Answers a PING."""
    return _PONG


def ask_client() -> bytes:
    """Asks the replica at the client's side for a sign of life of the client; one that is older takes it for a PING."""
    return _ASK_CLIENT


def client_lives() -> bytes:
    """Answers `ask_client`."""
    return _CLIENT_LIVES


def client_gone() -> bytes:
    """Tells the owner of a client's consumers, behind what it acknowledged, that it has gone: the owner ends the leg.

    An owner that is older does so because of the request id.
    """
    return _CLIENT_GONE


def connected(
    server_version: str, protocol_version: int, max_message_size: int | None, feature_flags: FeatureFlags | None
) -> bytes:
    """Answers CONNECT. `max_message_size` in bytes; what is None is left out, and clients take their defaults."""
    command = BaseCommand(type=BaseCommand.CONNECTED)
    body = command.connected
    body.server_version = server_version
    body.protocol_version = protocol_version
    if max_message_size is not None:
        body.max_message_size = max_message_size
    if feature_flags is not None:
        body.feature_flags.CopyFrom(feature_flags)
    return encode_command(command)


def success(request_id: int) -> bytes:
    """Says that a request was done."""
    command = BaseCommand(type=BaseCommand.SUCCESS)
    command.success.request_id = request_id
    return encode_command(command)


def error(request_id: int, code: ServerError, message: str) -> bytes:
    """Says that a request was refused. The client shows `message` and decides by `code` whether to try again."""
    body = pb.CommandError(request_id=request_id, error=code, message=message)
    return encode_command(BaseCommand(type=BaseCommand.ERROR, error=body))


def flow(consumer_id: int, permits: int) -> bytes:
    """Grants the broker `permits` more messages."""
    command = BaseCommand(type=BaseCommand.FLOW)
    body = command.flow
    body.consumer_id = consumer_id
    body.messagePermits = permits
    return encode_command(command)


def ack(consumer_id: int, ids: Iterable[tuple[int, int]], request_id: int | None = None) -> bytes:
    """Acknowledges entries, each as (ledger, entry), one by one. With a request id the broker answers ACK_RESPONSE.

    Written by hand: every message is in one of these, and protobuf's objects for its ids cost twice as much.
    """
    pieces = [b"\x08", varint(consumer_id), b"\x10\x00"]  # type Individual
    last, starts = -1, list[bytes]()
    for ledger, entry in ids:
        if ledger != last:
            last, starts = ledger, _id_starts(ledger)
        number = varint(entry)
        pieces.append(starts[len(number)])
        pieces.append(number)
    if request_id is not None:
        pieces.append(b"\x40")
        pieces.append(varint(request_id))
    body = b"".join(pieces)
    return encode_message(b"\x08\x0a\x52%b%b" % (varint(len(body)), body), b"")


@lru_cache(maxsize=1_000)
def _id_starts(ledger: int) -> list[bytes]:
    """What stands before an entry id of 0, 1, 2 bytes and so on in a message id of an ACK."""
    start = b"\x08%b\x10" % varint(ledger)
    return [b"\x1a%c%b" % (len(start) + entry_bytes, start) for entry_bytes in range(VARINT_BYTES_MAX + 1)]


def ack_in_transaction(
    consumer_id: int, transaction: tuple[int, int], places: Iterable[tuple[int, int, int, list[int]]], request_id: int
) -> bytes:
    """Acknowledges messages inside a transaction, by the most and least significant bits of its id.

    Each place is ledger, entry, how many messages the entry has, and its ack set; an empty one for the whole entry.
    The broker compares ack sets bit by bit, for which it must know the number of messages.
    """
    most, least = transaction
    body = CommandAck(
        consumer_id=consumer_id,
        ack_type=CommandAck.Individual,
        txnid_most_bits=most,
        txnid_least_bits=least,
        request_id=request_id,
    )
    for ledger, entry, messages, ack_set in places:
        place = body.message_id.add(ledgerId=ledger, entryId=entry, ack_set=ack_set)
        if messages > 1:
            place.batch_size = messages
    return encode_command(BaseCommand(type=BaseCommand.ACK, ack=body))


def add_no_subscription_to_transaction(transaction: tuple[int, int], request_id: int) -> bytes:
    """Tells a transaction's coordinator that no more subscriptions have a part in it, which changes nothing."""
    most, least = transaction
    body = pb.CommandAddSubscriptionToTxn(request_id=request_id, txnid_most_bits=most, txnid_least_bits=least)
    return encode_command(BaseCommand(type=BaseCommand.ADD_SUBSCRIPTION_TO_TXN, addSubscriptionToTxn=body))


def ack_up_to(consumer_id: int, ledger: int, entry: int) -> bytes:
    """Acknowledges every entry up to this one."""
    command = BaseCommand(type=BaseCommand.ACK)
    body = command.ack
    body.consumer_id = consumer_id
    body.ack_type = CommandAck.Cumulative
    body.message_id.add(ledgerId=ledger, entryId=entry)
    return encode_command(command)


def ack_response(consumer_id: int, asked: CommandAck, code: ServerError | None = None, message: str = "") -> bytes:
    """Answers an ACK that has a request id: done, or not done for the reason of `code`."""
    command = BaseCommand(type=BaseCommand.ACK_RESPONSE)
    body = command.ackResponse
    body.consumer_id = consumer_id
    body.request_id = asked.request_id
    if asked.HasField("txnid_least_bits"):
        body.txnid_least_bits = asked.txnid_least_bits
    if asked.HasField("txnid_most_bits"):
        body.txnid_most_bits = asked.txnid_most_bits
    if code is not None:
        body.error = code
        body.message = message
    return encode_command(command)


def reached_end_of_topic(consumer_id: int) -> bytes:
    """Nothing more will come, ever."""
    command = BaseCommand(type=BaseCommand.REACHED_END_OF_TOPIC)
    command.reachedEndOfTopic.consumer_id = consumer_id
    return encode_command(command)


def redeliver(consumer_id: int, ids: Iterable[tuple[int, int]]) -> bytes:
    """Asks for entries again, each as (ledger, entry). None at all would ask for everything pending."""
    return encode_command(_redeliver(consumer_id, ids))


def redeliver_unseen(
    consumer_id: int, wanted: Iterable[tuple[int, int]], kept: Iterable[tuple[int, int]], epoch: int
) -> bytes:
    """Asks for `wanted` again, each as (ledger, entry), and for everything pending that is not `kept`.

    Only the wanted were refused. What is delivered from then on bears the epoch, which grows with each such command:
    what comes without it was on its way, and is to be dropped. An id with an ack set, of which nothing is
    acknowledged, is wanted, one without is kept. Source: the consumer epoch of PIP-84, which keeps nothing.
    """
    command = _redeliver(consumer_id, kept)
    body = command.redeliverUnacknowledgedMessages
    body.consumer_epoch = epoch
    for ledger, entry in wanted:
        body.message_ids.add(ledgerId=ledger, entryId=entry, ack_set=(-1,))
    return encode_command(command)


def _redeliver(consumer_id: int, ids: Iterable[tuple[int, int]]) -> BaseCommand:
    command = BaseCommand(type=BaseCommand.REDELIVER_UNACKNOWLEDGED_MESSAGES)
    body = command.redeliverUnacknowledgedMessages
    body.consumer_id = consumer_id
    add = body.message_ids.add
    for ledger, entry in ids:
        message_id = add()
        message_id.ledgerId = ledger
        message_id.entryId = entry
    return command


def unsubscribe(consumer_id: int, request_id: int) -> bytes:
    """Asks for the subscription to be deleted."""
    body = pb.CommandUnsubscribe(consumer_id=consumer_id, request_id=request_id)
    return encode_command(BaseCommand(type=BaseCommand.UNSUBSCRIBE, unsubscribe=body))


def list_topics(namespace: str, prefix: str, request_id: int, *, stored: bool) -> bytes:
    """Asks for the topics of a namespace whose local names begin so; brokers may answer with all of them.

    `stored` topics are persistent, others not.
    """
    kind = pb.CommandGetTopicsOfNamespace
    body = kind(
        request_id=request_id,
        namespace=namespace,
        mode=kind.PERSISTENT if stored else kind.NON_PERSISTENT,
        topics_pattern=f"{'persistent' if stored else 'non-persistent'}://{namespace}/{prefix}.*",
    )
    return encode_command(BaseCommand(type=BaseCommand.GET_TOPICS_OF_NAMESPACE, getTopicsOfNamespace=body))


def get_last_message_id(consumer_id: int, request_id: int) -> bytes:
    """Asks for the topic's last message, and how far the subscription is."""
    body = pb.CommandGetLastMessageId(consumer_id=consumer_id, request_id=request_id)
    return encode_command(BaseCommand(type=BaseCommand.GET_LAST_MESSAGE_ID, getLastMessageId=body))


def close_consumer(consumer_id: int, request_id: int) -> bytes:
    """Closes a consumer: as a request, or, from a broker's side, so that the client looks its topic up and returns."""
    body = pb.CommandCloseConsumer(consumer_id=consumer_id, request_id=request_id)
    return encode_command(BaseCommand(type=BaseCommand.CLOSE_CONSUMER, close_consumer=body))


def close_producer(producer_id: int, request_id: int) -> bytes:
    """Closes a producer, in the two ways of `close_consumer`."""
    body = pb.CommandCloseProducer(producer_id=producer_id, request_id=request_id)
    return encode_command(BaseCommand(type=BaseCommand.CLOSE_PRODUCER, close_producer=body))


def send(producer_id: int, sequence_id: int, tail: bytes, messages: int = 1, *, chunk: bool = False) -> bytes:
    """Publishes one entry; `tail` as `metadata.build_tail` makes it. Answered by SEND_RECEIPT or SEND_ERROR.

    `messages` that are in it, as its metadata counts them; `chunk` if it is a piece of one.
    """
    command = BaseCommand(type=BaseCommand.SEND)
    body = command.send
    body.producer_id = producer_id
    body.sequence_id = sequence_id
    if messages > 1:
        body.num_messages = messages
    if chunk:
        body.is_chunk = True
    return encode_message(command.SerializeToString(), tail)
