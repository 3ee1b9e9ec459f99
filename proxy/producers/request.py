"""What the gateway reads in a PRODUCER command that it takes part in: names that it keeps, and the priority.

The priority comes in the field that PIP-440 adds, or, from clients that do not know it, in a property of the producer.
"""

from __future__ import annotations

from typing import Final

from proxy.errors import ClientError
from proxy.limits import NAME_CHARACTERS_MAX, TOPIC_CHARACTERS_MAX
from proxy.producers.waiting import PRIORITY_MAX, PRIORITY_MIN
from proxy.wire import frames
from proxy.wire import pulsar_pb2 as pb
from proxy.wire.topic_names import persistent_topic

PRIORITY_PROPERTY: Final = "keyline.queue-priority"
PROPERTY_PREFIX: Final = "keyline."
"""Properties that begin so are meant for the gateway: one it does not know is a mistake, never ignored."""


def full_name(topic: str) -> str:
    """The name by which all producers of a topic meet."""
    return persistent_topic(topic) or topic


def refuse_oversized(command: pb.CommandProducer) -> None:
    """Let no producer take or wait for a topic with names that are too long.

    A frame has room for names of millions of characters, which events and log lines would keep, and announcements tell
    every other replica again and again.

    Raises:
        ClientError: its name is, or its topic's. NotAllowedError, after which clients give up at once.
    """
    for what, name, most in (
        ("producer", command.producer_name, NAME_CHARACTERS_MAX),
        ("topic", full_name(command.topic), TOPIC_CHARACTERS_MAX),
    ):
        if len(name) > most:
            mode = pb.ProducerAccessMode.Name(command.producer_access_mode)
            message = f"a {what} name of {len(name)} characters: at most {most} are allowed with access mode {mode}"
            raise ClientError(message, pb.NotAllowedError)


def queue_priority(command: pb.CommandProducer) -> int:
    """Its priority: signed, default 0; the field counts if both are given.

    Raises:
        ClientError: a property for the gateway that it does not know, or a priority that is none. NotAllowedError,
            after which clients give up at once and show the text.
    """
    given = [pair for pair in command.metadata if pair.key.startswith(PROPERTY_PREFIX)]
    unknown = next((pair.key for pair in given if pair.key != PRIORITY_PROPERTY), None)
    if unknown is not None:
        message = f"no such producer property: {unknown}; those for the gateway are: {PRIORITY_PROPERTY}"
        raise ClientError(message, pb.NotAllowedError)
    if command.HasField("queue_priority"):
        return command.queue_priority
    return _parsed(given[-1].value) if given else 0


def _parsed(text: str) -> int:
    digits = text.removeprefix("-") if text.startswith("-") else text.removeprefix("+")
    fits = digits.isascii() and digits.isdigit() and len(digits.lstrip("0")) <= len(str(PRIORITY_MAX))
    priority = int(text) if fits else None
    if priority is None or not PRIORITY_MIN <= priority <= PRIORITY_MAX:
        message = (
            f"producer property {PRIORITY_PROPERTY}={text[:40]!r} is no priority; "
            f"use a whole number from {PRIORITY_MIN} to {PRIORITY_MAX}, the highest is the first"
        )
        raise ClientError(message, pb.NotAllowedError)
    return priority


def without_waiting(command: pb.CommandProducer) -> bytes:
    """Frame the request of a former owner so that the broker gives it the topic at once or refuses it.

    A broker checks the epoch that a producer brings along when it admits it, and not when it promotes it after a wait:
    then it sets the topic's epoch back, and lets a fenced producer write. So a former owner never waits there.

    Source: `AbstractTopic.handleProducerRemoved`; seen with 4.0.7 and 4.2.4.
    """
    rewritten = pb.CommandProducer()
    rewritten.CopyFrom(command)
    rewritten.producer_access_mode = pb.Exclusive
    return frames.encode_command(pb.BaseCommand(type=pb.BaseCommand.PRODUCER, producer=rewritten))
