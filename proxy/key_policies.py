"""Policies of keys as operators and clients write them: numbers by name, and which subscriptions they are for.

Three may name a number: the configuration, for all subscriptions or for those that a rule matches; the consumer
properties of the first worker, which override it; an operator's order, which overrides both. They share the names and
bounds that are here.

A rule is one text: a topic, a subscription, and numbers, as ``orders* billing key_window=1 retry_delay_ms=500``. Topic
and subscription may have wildcards. The first rule that matches holds, alone: what it does not name is as configured
for all.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from proxy.subscription_patterns import SubscriptionPattern, subscription_pattern

DEAD_LETTER_TOPIC: Final = "{topic}-{subscription}-DLQ"
"""As Pulsar's clients name it."""

PARKING_TOPIC: Final = "{topic}-{subscription}-PARKED"

PROPERTY_PREFIX: Final = "keyline."
"""Consumer properties that begin so are meant for the gateway."""


class Bounds(NamedTuple):
    """What a number may be, both ends included."""

    least: int
    most: int
    whole: bool = True
    """Whether it has no fraction."""


KEY_POLICY: Final[Mapping[str, Bounds]] = {
    "key_window": Bounds(0, 1_000_000),
    "retry_delay_ms": Bounds(0, 86_400_000),
    "retry_multiplier": Bounds(1, 100, whole=False),
    "retry_delay_max_ms": Bounds(1, 86_400_000),
    "dead_letter_after": Bounds(0, 1_000),
    "ack_lease_ms": Bounds(0, 86_400_000),
    "quarantine_after": Bounds(0, 1_000),
    "quarantine_ms": Bounds(1, 86_400_000),
    "park_after": Bounds(0, 1_000),
    "key_share_percent": Bounds(0, 37, whole=False),
}
"""The numbers of a policy; see the configuration for what they mean."""

PROPERTIES: Final[Mapping[str, str]] = {
    PROPERTY_PREFIX + name.replace("_", "-"): name for name in KEY_POLICY if name != "park_after"
}
"""The consumer property of each number; keys are parked where the operator says so."""

_NUMBER: Final = re.compile(r"\d{1,12}(\.\d{1,6})?", re.ASCII)
_TEMPLATE: Final = re.compile(r"(persistent://[\w.=:-]+/[\w.=:-]+/)?[^/\s]+", re.ASCII)
_EXPECTED: Final = "topic, subscription and name=number, as in: orders* billing key_window=1"


@dataclass(frozen=True, slots=True)
class Rule:
    """Numbers for some subscriptions."""

    pattern: SubscriptionPattern
    numbers: Mapping[str, float]


def number(name: str, text: str) -> float:
    """Read one of the numbers. Raises `ValueError`, which names its bounds."""
    bounds = KEY_POLICY[name]
    value = float(text) if _NUMBER.fullmatch(text) else -1.0
    if not bounds.least <= value <= bounds.most or (bounds.whole and "." in text):
        kind = "a whole number" if bounds.whole else "a number"
        raise ValueError(f"must be {kind} from {bounds.least:,} to {bounds.most:,}")
    return int(value) if bounds.whole else value


def topic_template(text: str) -> str:
    """Check a topic's name in which ``{topic}`` and ``{subscription}`` are filled in. Raises `ValueError`.

    Tenant and namespace are the operator's to choose: clients choose the names, which must not be in them.
    """
    rest = text.replace("{topic}", "").replace("{subscription}", "")
    if "{" in rest or "}" in rest or not _TEMPLATE.fullmatch(text):
        raise ValueError(
            "must be a topic's name, alone or behind persistent://tenant/namespace/, with {topic} and {subscription} "
            f"to be filled in in its last part, as in: {DEAD_LETTER_TOPIC}"
        )
    return text


def own_topic_template(text: str) -> str:
    """The same for a topic that no two subscriptions may share. Raises `ValueError`."""
    if "{topic}" not in text or "{subscription}" not in text:
        raise ValueError(f"must have {{topic}} and {{subscription}} in it, as in: {PARKING_TOPIC}")
    return topic_template(text)


def rule(text: str) -> Rule:
    """Read a rule. Raises `ValueError`, which says what is wrong."""
    topic, *rest = text.split()
    if len(rest) < 2:  # noqa: PLR2004 - a subscription and a number
        raise ValueError(f"must be {_EXPECTED}")
    pattern = subscription_pattern(topic, rest[0])
    numbers: dict[str, float] = {}
    for item in rest[1:]:
        name, _, value = item.partition("=")
        if name not in KEY_POLICY:
            raise ValueError(f"{name} is not one of {', '.join(KEY_POLICY)}; must be {_EXPECTED}")
        try:
            numbers[name] = number(name, value)
        except ValueError as error:
            raise ValueError(f"{name} {error}") from None
    if numbers.get("retry_delay_ms", 0) > numbers.get("retry_delay_max_ms", numbers.get("retry_delay_ms", 0)):
        raise ValueError("retry_delay_ms must be at most retry_delay_max_ms: pauses only grow")
    if numbers.get("park_after") and numbers.get("dead_letter_after"):
        raise ValueError("park_after and dead_letter_after exclude each other: a message goes to one topic")
    return Rule(pattern, numbers)


def configured(rules: Sequence[str], topic: str, subscription: str) -> Mapping[str, float]:
    """Numbers that the configuration has for a subscription, beside those for all; `rules` are valid ones."""
    found = (each for each in map(rule, rules) if each.pattern.matches(topic, subscription))
    first = next(found, None)
    return first.numbers if first is not None else {}
