"""What is not Key_Shared: other subscriptions, readers, producers, who may connect."""

from __future__ import annotations

from concurrent.futures import Future
from threading import Thread
from typing import TYPE_CHECKING, Final

import pulsar

from integration.compatibility.python_probe.scene import (
    RECEIVE_MS,
    WORKERS,
    MissingError,
    Scene,
    content,
    deal,
    expect,
    receive,
    receive_numbers,
    send_numbers,
)

if TYPE_CHECKING:
    from collections.abc import Callable

COUNT: Final = 10
WRONG_TOKEN: Final = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhZG1pbiJ9.AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"  # noqa: S105 - signed by nobody
STRANGER_S: Final = 5
"""This client asks again until its time is over."""
EXCLUSIVE: Final = pulsar.ConsumerType.Exclusive


def shared(scene: Scene) -> str:
    """Everything comes to one of two."""
    return deal(scene, kind=pulsar.ConsumerType.Shared, ordered=False)


def exclusive(scene: Scene) -> str:
    """One consumer gets everything in order, another is refused."""
    consumer = scene.subscribe(EXCLUSIVE)
    try:
        scene.subscribe(EXCLUSIVE)
    except pulsar.ConsumerBusy:
        send_numbers(scene.producer(), 0, COUNT)
        _in_order(receive_numbers(consumer, COUNT))
        return "in order"
    expect(condition=False, text="a second consumer was let in")
    return ""


def failover(scene: Scene) -> str:
    """One consumer gets everything; the other takes over."""
    consumers = {name: scene.subscribe(pulsar.ConsumerType.Failover, consumer_name=name) for name in WORKERS}
    producer = scene.producer()
    send_numbers(producer, 0, 1)
    active = _who_receives(consumers)
    consumers.pop(active).close()
    send_numbers(producer, 1, 1)
    (other,) = consumers.values()
    expect(content(receive_numbers(other, 1)[0]) == "1", "the other got something else")
    return "taken over"


def _who_receives(consumers: dict[str, pulsar.Consumer]) -> str:
    for _ in range(RECEIVE_MS // 100):
        for name, consumer in consumers.items():
            try:
                consumer.acknowledge(consumer.receive(timeout_millis=50))
            except pulsar.Timeout:
                continue
            return name
    raise pulsar.Timeout("no consumer got the message")


def cumulative_exclusive(scene: Scene) -> str:
    """One acknowledgement for all before."""
    consumer = scene.subscribe(EXCLUSIVE)
    send_numbers(scene.producer(), 0, COUNT)
    consumer.acknowledge_cumulative(receive_numbers(consumer, COUNT, acknowledge=False)[-2])
    consumer.close()
    expect(content(receive(scene.subscribe(EXCLUSIVE))) == str(COUNT - 1), "more than the last came again")
    return "acknowledged"


def reader(scene: Scene) -> str:
    """From the beginning until there is no more. Without a seek, unlike the others: see the page's note."""
    send_numbers(scene.producer(), 0, COUNT)
    reading = scene.client.create_reader(scene.topic, pulsar.MessageId.earliest)
    messages = []
    while reading.has_message_available():
        messages.append(reading.read_next(timeout_millis=RECEIVE_MS))
    _in_order(messages)
    return "read"


def table_view(scene: Scene) -> str:
    """The latest of each key."""
    send_numbers(scene.producer(), 0, COUNT)
    view = scene.client.create_table_view(scene.topic)
    latest = {key: bytes(view.get(key)) for key in ("k0", "k1", "k2")}
    expect(latest == {"k0": b"9", "k1": b"7", "k2": b"8"}, f"{latest}")
    return "is right"


def exclusive_producer(scene: Scene) -> str:
    """One owns the topic; who waits owns it afterwards."""
    waiting = pulsar.ProducerAccessMode.WaitForExclusive
    owner = scene.producer(access_mode=waiting)
    made: Future[pulsar.Producer] = Future()

    def wait() -> None:
        try:
            made.set_result(scene.producer(access_mode=waiting))
        except pulsar.PulsarException as error:
            made.set_exception(error)

    Thread(target=wait, daemon=True).start()
    send_numbers(owner, 0, COUNT)
    expect(not made.done(), "two own the topic")
    owner.close()
    send_numbers(made.result(RECEIVE_MS / 1e3), COUNT, COUNT)
    _in_order(receive_numbers(scene.subscribe(EXCLUSIVE), 2 * COUNT))
    return "one after the other"


def transactions(scene: Scene) -> str:
    """Not in this client."""
    _ = scene
    raise MissingError("no transactions")


def token(scene: Scene) -> str:
    """Who has a right token may come, who has a wrong one may not."""
    send_numbers(scene.producer(), 0, 1)
    stranger = scene.place.connect(WRONG_TOKEN, STRANGER_S)
    try:
        stranger.create_producer(scene.topic)
    except pulsar.PulsarException:
        return "a stranger was refused"
    finally:
        stranger.close()
    expect(condition=False, text="a stranger was let in")
    return ""


def _in_order(messages: list[pulsar.Message]) -> None:
    found = [content(message) for message in messages]
    expect(found == [str(number) for number in range(len(found))], f"{found} came")


OTHERS: Final[dict[str, Callable[[Scene], str]]] = {
    "shared": shared,
    "exclusive": exclusive,
    "failover": failover,
    "cumulative_exclusive": cumulative_exclusive,
    "reader": reader,
    "table_view": table_view,
    "exclusive_producer": exclusive_producer,
    "transactions": transactions,
    "token": token,
}
