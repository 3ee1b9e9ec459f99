"""What tests of producers that want a topic for themselves alone share: raw clients, official clients, what is told.

A raw client says which epoch it was given and what exactly it was told; an official one shows that what is said to it
is what it understands.
"""

from __future__ import annotations

import itertools
import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, Self

import httpx
import pulsar

from integration.gateway import KeylineGateway
from integration.load.options import SUBSCRIPTION
from integration.standalone import PulsarStandalone
from proxy.wire import frames
from proxy.wire import pulsar_pb2 as pb
from proxy.wire.metadata import build_tail
from tests.integration.raw_client import RawClient, T, frame
from tests.net.producer_rig import want
from tests.net.session_rig import parse

SHARED, EXCLUSIVE, WAIT, FENCE = pb.Shared, pb.Exclusive, pb.WaitForExclusive, pb.ExclusiveWithFencing
PRIORITY = "keyline.queue-priority"
PATIENCE_S = 600
"""Of an official client of Python: creating a producer fails when it has waited so long for the topic."""
SEND_MS_MAX = 120_000
"""It waits longer and longer before it connects again."""
ANSWER_S = 120.0
"""For what takes milliseconds, or some seconds where a gateway holds the topic for its owner, or a program starts."""
STREAMS = 16
"""Of a group, as gateways cut it unless they are told otherwise."""
VIEW_S_MAX = 20.0
"""A broker whose threads wait for each other does not answer."""
VIEW_LINES_MAX = 40
FIRST_REQUEST = 1_000
"""Request ids below are `RawClient.ask`'s."""
BROKER_CLOSES = "closed"
QUEUED = "queued"
READY = "ready"
SUCCESS = "success"


class Told(NamedTuple):
    """One answer: `ready`, `queued`, `success` or an error's name; or `closed`, with a producer's id, unasked."""

    request_id: int
    word: str
    epoch: int | None = None
    text: str = ""


def told(command: pb.BaseCommand) -> Told:
    """Read an answer."""
    if command.type == T.PRODUCER_SUCCESS:
        success = command.producer_success
        epoch = success.topic_epoch if success.HasField("topic_epoch") else None
        return Told(success.request_id, READY if success.producer_ready else QUEUED, epoch, success.producer_name)
    if command.type == T.ERROR:
        refusal = command.error
        return Told(refusal.request_id, pb.ServerError.Name(refusal.error), None, refusal.message)
    if command.type == T.SUCCESS:
        return Told(command.success.request_id, SUCCESS)
    assert command.type == T.CLOSE_PRODUCER, command
    return Told(command.close_producer.producer_id, BROKER_CLOSES)


class TopicClient(RawClient):
    """One connection of somebody that is after one topic."""

    def __init__(self, service_url: str, topic: str) -> None:
        """Connect and look the topic up."""
        super().__init__(service_url)
        self.topic = topic
        self._numbers = itertools.count(FIRST_REQUEST)
        self.locate(topic)

    def want(self, priority: object = None, *, mode: int = WAIT, schema: int | None = None, **fields: Any) -> int:
        """Ask for a producer, see `producer_rig.want`; returns the request's id."""
        request_id = next(self._numbers)
        asked = want(request_id, priority, mode=mode, topic=self.topic, **fields)
        if schema is not None:
            (command,) = parse(asked)
            command.producer.schema.CopyFrom(pb.Schema(name="s", schema_data=b"", type=schema))  # type: ignore[arg-type]
            asked = frames.encode_command(command)
        self.send(asked)
        return request_id

    def hears(self) -> Told:
        """The next answer, which must come."""
        return told(self.pushed.pop(0) if self.pushed else self.read())

    def heard(self) -> list[Told]:
        """All answers until now; an answer of the server to whom we are connected says when that is."""
        self.ping()
        heard, self.pushed = [told(command) for command in self.pushed], []
        return heard

    def owns(self, priority: object = None, **fields: Any) -> int:
        """Ask, be told to be ready sooner or later, and return the epoch."""
        request_id = self.want(priority, **fields)
        answer = self.hears()
        if answer == Told(request_id, QUEUED, None, answer.text):
            answer = self.hears()
        assert (answer.request_id, answer.word) == (request_id, READY), answer
        assert answer.epoch is not None
        return answer.epoch

    def waits(self, priority: object = None, **fields: Any) -> Self:
        """Ask, and be told to wait."""
        request_id = self.want(priority, **fields)
        answer = self.hears()
        assert (answer.request_id, answer.word, answer.epoch) == (request_id, QUEUED, None), answer
        return self

    def promoted(self) -> int:
        """Wait for the epoch with which it is told to be ready."""
        answer = self.hears()
        assert answer.word == READY, answer
        assert answer.epoch is not None
        return answer.epoch

    def refused(self, priority: object = None, **fields: Any) -> str:
        """Ask, and be refused, at once or when its turn comes; returns the error's name."""
        request_id = self.want(priority, **fields)
        answer = self.hears()
        if answer.word == QUEUED:
            answer = self.hears()
        assert answer.request_id == request_id, answer
        assert answer.word != READY, answer
        return answer.word

    def leaves(self, producer_id: int = 1) -> None:
        """Close a producer, and hear that it is."""
        request_id = next(self._numbers)
        self.send(frame(T.CLOSE_PRODUCER, pb.CommandCloseProducer(producer_id=producer_id, request_id=request_id)))
        assert self.hears() == Told(request_id, SUCCESS)

    def sends(self, payload: bytes, producer_id: int = 1, sequence_id: int = 0) -> None:
        """Publish one message, and hear that it is stored."""
        metadata = pb.MessageMetadata(producer_name=b"p", sequence_id=sequence_id, publish_time=1)
        command = T(type=T.SEND)
        command.send.producer_id, command.send.sequence_id = producer_id, sequence_id
        self.send(frames.encode_message(command.SerializeToString(), build_tail(metadata, payload)))
        answer = self.read()
        assert answer.type == T.SEND_RECEIPT, answer


class Patient:
    """An official client that waits for a topic in a thread, since creating the producer takes until its promotion."""

    def __init__(self, service_url: str, topic: str, priority: int | None = None) -> None:
        """Begin to wait."""
        quiet = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
        self.client = pulsar.Client(service_url, operation_timeout_seconds=PATIENCE_S, logger=quiet)
        self._topic = topic
        self._properties = None if priority is None else {PRIORITY: str(priority)}
        self._made: Future[pulsar.Producer] = Future()
        threading.Thread(target=self._create, daemon=True).start()

    @property
    def waiting(self) -> bool:
        """Whether it has not been answered."""
        return not self._made.done()

    def producer(self) -> pulsar.Producer:
        """Wait until it owns the topic."""
        return self._made.result(ANSWER_S)

    def close(self) -> None:
        """End its connection, which nobody waits for any more."""
        self.client.close()

    def _create(self) -> None:
        mode = pulsar.ProducerAccessMode.WaitForExclusive
        try:
            self._made.set_result(
                self.client.create_producer(
                    self._topic, access_mode=mode, properties=self._properties, send_timeout_millis=SEND_MS_MAX
                )
            )
        except Exception as error:  # noqa: BLE001 - whatever it is, the test is to see it
            self._made.set_exception(error)


@dataclass
class Scene:
    """A topic of a test's own, and the ways to it."""

    broker: PulsarStandalone
    gateway: KeylineGateway
    topic: str
    clients: ExitStack
    """Ends all that connect."""

    def ours(self) -> TopicClient:
        """One more connection through the gateway."""
        return self.clients.enter_context(TopicClient(self.gateway.service_url, self.topic))

    def direct(self) -> TopicClient:
        """One more that goes past the gateway."""
        return self.clients.enter_context(TopicClient(self.broker.service_url, self.topic))

    def patient(self, priority: int | None = None) -> Patient:
        """One more official client through the gateway, that begins to wait for the topic."""
        patient = Patient(self.gateway.service_url, self.topic, priority)
        self.clients.callback(patient.close)
        return patient

    def unload(self) -> None:
        """Let the broker unload the topic."""
        administer(self.broker, "PUT", self.topic, "unload")


class Feed:
    """A gateway's events of one topic, read as they happen."""

    def __init__(self, lines: Iterator[str]) -> None:
        """`lines` are a stream of Server-Sent Events."""
        self._lines = lines

    def until(self, kind: str, count: int = 1) -> dict[str, Any]:
        """Read on until this happened so often, and return the last.

        Raises:
            AssertionError: it does not happen.
        """
        deadline = time.monotonic() + ANSWER_S
        for line in self._lines:
            assert time.monotonic() < deadline, f"no event {kind}"
            if not line.startswith("data:"):
                continue
            event: dict[str, Any] = json.loads(line.removeprefix("data:"))
            count -= event["kind"] == kind
            if not count:
                return event
        raise AssertionError("the stream has ended")


@contextmanager
def feed_of(gateway: KeylineGateway, topic: str) -> Iterator[Feed]:
    """Read what happens from now on."""
    url = f"{gateway.admin_url}/api/v1/events"
    with httpx.stream("GET", url, params={"topic": topic}, timeout=ANSWER_S, trust_env=False) as answer:
        yield Feed(answer.raise_for_status().iter_lines())


class Administered(Protocol):
    """A broker, wherever it runs."""

    @property
    def admin_url(self) -> str:
        """Root of its admin API."""


def administer(broker: Administered, method: str, topic: str, what: str, body: object = None) -> Any:
    """Tell a broker to do something with a topic, or ask it: `PUT unload`, `POST terminate`, `GET stats`."""
    url = f"{broker.admin_url}/admin/v2/{topic.replace('://', '/')}/{what}"
    answer = httpx.request(method, url, json=body, timeout=ANSWER_S, trust_env=False).raise_for_status()
    return answer.json() if answer.content else None


def views_of(topic: str, broker: PulsarStandalone, gateway: KeylineGateway) -> str:
    """What the broker and a gateway say of a topic, and the ends of their logs about it, for a failed assertion."""
    name = topic.rpartition("/")[2]
    lines = []
    for who, url in (
        ("the broker", f"{broker.admin_url}/admin/v2/{topic.replace('://', '/')}/stats"),
        ("the gateway", f"{gateway.admin_url}/api/v1/exclusive-producers/{topic.removeprefix('persistent://')}"),
    ):
        try:
            said = httpx.get(url, timeout=VIEW_S_MAX, trust_env=False).text
        except httpx.HTTPError as error:
            said = repr(error)
        lines.append(f"{who} says of {topic}: {said}")
    for log in (broker.log, gateway.log):
        about = [line for line in log.read_text(errors="replace").splitlines() if name in line]
        lines += [f"the last of {len(about)} lines about it in {log}:", *about[-VIEW_LINES_MAX:]]
    return "\n".join(lines)


def stream_holders(broker: Administered, topic: str) -> set[str]:
    """The replicas that have all streams of a load's subscription between them; nobody as long as some are missing.

    By the broker's own account, which it does not give in the middle of an unload.
    """
    try:
        topic_stats = administer(broker, "GET", topic, "stats")
    except httpx.HTTPStatusError:
        return set()
    consumers = topic_stats["subscriptions"].get(SUBSCRIPTION, {}).get("consumers", [])
    names = [str(consumer["consumerName"]).rpartition("-")[0] for consumer in consumers]
    return set(names) if len(names) == STREAMS else set()
