"""Connections and lookups against a real broker."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import httpx
import pulsar as pulsar_client
import pytest

from integration.standalone import PulsarStandalone
from proxy.aio.clock_and_connector import AioClock, AioConnector
from proxy.errors import UpstreamError, UpstreamUnavailable
from proxy.limits import Limits
from proxy.net.broker.directory import Brokers
from proxy.net.broker.settings import BrokerSettings
from proxy.net.ports import BrokerLink
from proxy.wire import pulsar_pb2 as pb
from proxy.wire.messages import MessageHead
from tests.net.broker_fakes import T, frame

ANSWER_S_MAX = 90.0


class Reader:
    """An upstream consumer whose news can be waited for."""

    def __init__(self) -> None:
        self.news: asyncio.Queue[tuple[Any, ...]] = asyncio.Queue()

    def message(self, head: MessageHead) -> None:
        """As the port says."""
        self.news.put_nowait(("message", head))

    def messages_end(self) -> None:
        """As the port says."""

    def closed_by_broker(self, reason: str) -> None:
        """As the port says."""
        self.news.put_nowait(("closed", reason))

    def connection_lost(self, reason: str) -> None:
        """As the port says."""
        self.news.put_nowait(("lost", reason))

    def reached_end_of_topic(self) -> None:
        """As the port says."""
        self.news.put_nowait(("terminated",))

    async def next(self) -> tuple[Any, ...]:
        """Wait for the next piece of news."""
        return await asyncio.wait_for(self.news.get(), ANSWER_S_MAX)


class Upstream:
    """`Brokers` on the running loop, with answers that can be awaited."""

    def __init__(self, service_url: str) -> None:
        loop = asyncio.get_running_loop()
        settings = BrokerSettings(service_urls=(service_url,), client_version="Keyline-test")
        self.brokers = Brokers(AioConnector(loop, Limits()), AioClock(loop), replace(settings, request_timeout_s=60.0))

    async def locate(self, topic: str) -> BrokerLink | Exception:
        """Look a topic up."""
        future: asyncio.Future[BrokerLink | Exception] = asyncio.get_running_loop().create_future()
        self.brokers.locate(topic, future.set_result)
        return await asyncio.wait_for(future, ANSWER_S_MAX)

    async def link(self, topic: str) -> BrokerLink:
        """Look a topic up that must be found."""
        link = await self.locate(topic)
        assert not isinstance(link, Exception), link
        return link

    async def close(self) -> None:
        """Close every connection."""
        gone = asyncio.Event()
        self.brokers.close(gone.set)
        await asyncio.wait_for(gone.wait(), ANSWER_S_MAX)


async def ask(link: BrokerLink, build: Callable[[int], bytes]) -> pb.BaseCommand | Exception:
    """Make a request and wait for its answer."""
    future: asyncio.Future[pb.BaseCommand | Exception] = asyncio.get_running_loop().create_future()
    link.request(build, future.set_result)
    return await asyncio.wait_for(future, ANSWER_S_MAX)


async def subscribe(link: BrokerLink, topic: str, reader: Reader, permits: int = 100) -> int:
    """Subscribe Key_Shared and grant permits; the consumer's id."""
    consumer_id = link.new_consumer(reader)

    def build(request_id: int) -> bytes:
        command = pb.CommandSubscribe(
            topic=topic,
            subscription="s",
            subType=pb.CommandSubscribe.Key_Shared,
            consumer_id=consumer_id,
            request_id=request_id,
            consumer_name="keyline-test",
        )
        return frame(type=T.SUBSCRIBE, subscribe=command)

    answer = await ask(link, build)
    assert isinstance(answer, pb.BaseCommand), answer
    link.send(frame(type=T.FLOW, flow=pb.CommandFlow(consumer_id=consumer_id, messagePermits=permits)))
    return consumer_id


def produce(service_url: str, topic: str, count: int) -> None:
    """Send unbatched messages with the official client."""
    client = pulsar_client.Client(service_url)
    producer = client.create_producer(topic, batching_enabled=False)
    for number in range(count):
        producer.send(f"m{number}".encode(), partition_key=f"k{number}")
    client.close()


def run(scenario: Callable[[Upstream], Awaitable[None]], service_url: str) -> None:
    """Run a scenario on a loop of its own, and close what it opened."""

    async def whole() -> None:
        upstream = Upstream(service_url)
        try:
            await scenario(upstream)
        finally:
            await upstream.close()

    asyncio.run(whole())


@pytest.fixture
def topic(new_topic: Callable[[str], str]) -> str:
    """Give a topic of one's own."""
    return new_topic("broker")


def test_messages_come_in_order_and_acknowledgements_are_confirmed(pulsar: PulsarStandalone, topic: str) -> None:
    """Lookup, subscribe, flow, MESSAGE, ACK with receipt: the whole way upstream."""

    async def scenario(upstream: Upstream) -> None:
        link = await upstream.link(topic)
        reader = Reader()
        consumer_id = await subscribe(link, topic, reader)
        await asyncio.to_thread(produce, pulsar.service_url, topic, 20)
        heads = [(await reader.next())[1] for _ in range(20)]
        assert [head.tail[-len(b"m%d" % n) :] for n, head in enumerate(heads)] == [b"m%d" % n for n in range(20)]
        assert [head.entry for head in heads] == list(range(20))
        assert heads[0].redelivery_count == 0

        def ack(request_id: int) -> bytes:
            command = pb.CommandAck(consumer_id=consumer_id, ack_type=pb.CommandAck.Individual, request_id=request_id)
            for head in heads:
                command.message_id.add(ledgerId=head.ledger, entryId=head.entry)
            return frame(type=T.ACK, ack=command)

        confirmed = await ask(link, ack)
        assert isinstance(confirmed, pb.BaseCommand)
        assert confirmed.type == T.ACK_RESPONSE

    run(scenario, pulsar.service_url)


def test_the_brokers_refusals_carry_its_code(pulsar: PulsarStandalone) -> None:
    """A namespace that is not there is not an unreachable broker."""

    async def scenario(upstream: Upstream) -> None:
        refusal = await upstream.locate("persistent://public/no-such-namespace/topic")
        assert isinstance(refusal, UpstreamError)
        assert (str(refusal), refusal.wire_code) == ("Namespace not found", pb.TopicNotFound)

    run(scenario, pulsar.service_url)


def test_an_unloaded_topic_closes_its_consumer_and_is_found_again(pulsar: PulsarStandalone, topic: str) -> None:
    """CLOSE_CONSUMER comes on a connection that stands; a new consumer gets what was not acknowledged."""

    async def scenario(upstream: Upstream) -> None:
        await asyncio.to_thread(produce, pulsar.service_url, topic, 1)
        link = await upstream.link(topic)
        reader = Reader()
        await subscribe(link, topic, reader)
        path = topic.replace("://", "/")
        async with httpx.AsyncClient(base_url=pulsar.admin_url) as admin:
            (await admin.put(f"/admin/v2/{path}/unload", timeout=ANSWER_S_MAX)).raise_for_status()
        assert (await reader.next())[0] == "closed"
        link = await upstream.link(topic)
        await subscribe(link, topic, again := Reader())
        await asyncio.to_thread(produce, pulsar.service_url, topic, 1)
        assert (await again.next())[0] == "message"

    run(scenario, pulsar.service_url)


def test_the_last_message_id_is_answered(pulsar: PulsarStandalone, topic: str) -> None:
    """One of the replies that are neither SUCCESS nor ERROR."""

    async def scenario(upstream: Upstream) -> None:
        link = await upstream.link(topic)
        consumer_id = await subscribe(link, topic, Reader())
        await asyncio.to_thread(produce, pulsar.service_url, topic, 3)

        def build(request_id: int) -> bytes:
            command = pb.CommandGetLastMessageId(consumer_id=consumer_id, request_id=request_id)
            return frame(type=T.GET_LAST_MESSAGE_ID, getLastMessageId=command)

        answer = await ask(link, build)
        assert isinstance(answer, pb.BaseCommand)
        assert answer.getLastMessageIdResponse.last_message_id.entryId == 2

    run(scenario, pulsar.service_url)


def test_a_corrupting_command_loses_the_connection_and_the_next_lookup_opens_another(
    pulsar: PulsarStandalone, topic: str
) -> None:
    """The broker hangs up on garbage: everyone is told, and nobody is handed the dead link."""

    async def scenario(upstream: Upstream) -> None:
        link = await upstream.link(topic)
        await subscribe(link, topic, reader := Reader())
        lost = asyncio.ensure_future(ask(link, lambda _id: b"\x00\x00\x00\x08\x00\x00\x00\x04\xff\xff\xff\xff"))
        assert isinstance(await lost, UpstreamUnavailable)
        assert (await reader.next())[0] == "lost"
        assert await upstream.link(topic) is not link

    run(scenario, pulsar.service_url)
