"""What an operator does when a dead letter or parking topic takes no messages: by the error that its broker gave.

The broker's own words are told beside it. They say what is wrong, not who can change it, nor what is lost by it: a
parking topic that is deleted takes along what is parked in it.
"""

from __future__ import annotations

from shlex import quote
from typing import TYPE_CHECKING, Final, NamedTuple

from proxy.wire import pulsar_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Mapping


class Advice(NamedTuple):
    """Who should do what, and the command that helps: with `{topic}`, its `{namespace}`, and the `{target}`."""

    text: str
    command: str | None = None

    def of(self, topic: str, target: str) -> tuple[str, str | None]:
        """With these; `target` names the subscription on a command line. Clients choose the topic's name, too."""
        if self.command is None:
            return self.text, None
        namespace = topic.partition("://")[2].rpartition("/")[0]
        return self.text, self.command.format(topic=quote(topic), namespace=quote(namespace), target=target)


UNKNOWN: Final = Advice("Look whether it can be reached, and the gateway may use it.")
FULL: Final = Advice("Redrive or drop some of it. This lists what is parked:", "keyline parked {target}")

_QUOTA_SHOWN: Final = "pulsar-admin namespaces get-backlog-quotas {namespace}"
_MISSING: Final = Advice(
    "It does not exist, and the broker makes none: create it, or let the broker create topics:",
    "pulsar-admin topics create {topic}",
)
_NOT_ALLOWED: Final = Advice(
    "The broker allows no such topic. It must not be partitioned: if it is, delete it, or have the configuration name "
    "another. This shows it:",
    "pulsar-admin topics get-partitioned-topic-metadata {topic}",
)
_BUSY: Final = Advice(
    "Another producer has it for itself alone, or its broker still has a connection that the gateway lost, and lets it "
    "go by itself. This shows its producers:",
    "pulsar-admin topics stats {topic}",
)

DEAD_LETTERS: Final[dict[int, Advice]] = {
    pb.TopicTerminatedError: Advice(
        "It is terminated and takes nothing more. When its messages have been read, delete it, with all its "
        "subscriptions; the gateway has a new one made:",
        "pulsar-admin topics delete --force {topic}",
    ),
    pb.AuthorizationError: Advice(
        "Permit the gateway's role to produce to it:",
        "pulsar-admin topics grant-permission {topic} --role ROLE --actions produce",
    ),
    pb.ProducerBlockedQuotaExceededError: Advice(
        "Its backlog quota is used up: have its messages read, or raise the quota. This shows it:", _QUOTA_SHOWN
    ),
    pb.TopicNotFound: _MISSING,
    pb.NotAllowedError: _NOT_ALLOWED,
    pb.ProducerBusy: _BUSY,
}
"""By the broker's `ServerError`."""
PARKING: Final[dict[int, Advice]] = {
    pb.TopicTerminatedError: Advice(
        "It is terminated and takes nothing more. What is parked in it can be redriven or dropped: do that first, "
        "since it goes with the topic. Then delete it, and the gateway has a new one made:",
        "pulsar-admin topics delete --force {topic}",
    ),
    pb.AuthorizationError: Advice(
        "Permit the gateway's role to produce to it and to consume from it:",
        "pulsar-admin topics grant-permission {topic} --role ROLE --actions produce,consume",
    ),
    pb.ProducerBlockedQuotaExceededError: Advice(
        "Its backlog quota is used up, by what is parked: redrive or drop that, or raise the quota. This lists it:",
        "keyline parked {target}",
    ),
    pb.TopicNotFound: _MISSING,
    pb.NotAllowedError: _NOT_ALLOWED,
    pb.ProducerBusy: _BUSY,
    pb.ConsumerBusy: Advice(
        "Another consumer has its subscription keyline-parked, which is for one gateway alone: another gateway that "
        "is not in owner mode with this one, or a client. This shows whose:",
        "pulsar-admin topics stats {topic}",
    ),
}
"""Likewise."""
OPENING: Final[dict[int, Advice]] = PARKING | {
    pb.TopicTerminatedError: Advice(
        "It is terminated and takes nothing more. Save what is parked in it, since it goes with the topic. Then delete "
        "it, and the gateway has a new one made:",
        "pulsar-admin topics delete --force {topic}",
    ),
    pb.ProducerBlockedQuotaExceededError: Advice(
        "Its backlog quota is used up, by what is parked: raise the quota, then redrive or drop that. This shows it:",
        _QUOTA_SHOWN,
    ),
}
"""Of a parking topic that is not open yet, so nothing can be redriven or dropped."""


def advice_on(error_code: int | None, advices: Mapping[int, Advice]) -> Advice:
    """What helps against this error; None if the broker gave none."""
    return UNKNOWN if error_code is None else advices.get(error_code, UNKNOWN)


for _each in (DEAD_LETTERS, PARKING, OPENING):
    _each[pb.ProducerBlockedQuotaExceededException] = _each[pb.ProducerBlockedQuotaExceededError]
