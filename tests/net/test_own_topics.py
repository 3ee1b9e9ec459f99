"""Names of dead letter and parking topics: none for two lots, none that a client leads elsewhere."""

from __future__ import annotations

from itertools import product

import pytest

from proxy.key_policies import DEAD_LETTER_TOPIC, PARKING_TOPIC, own_topic_template, topic_template
from proxy.net.subscription.own_topics import dead_letter_topic, parking_topic

ORDERS = "persistent://public/default/orders"
TEMPLATES = (
    PARKING_TOPIC,
    "{subscription}-{topic}",
    "{topic}{subscription}",
    "persistent://ops/dead/{topic}-{subscription}",
)
MEETING = [
    ((ORDERS, "a-b"), (ORDERS + "-a", "b")),
    ((ORDERS, "a%2Fb-c"), (ORDERS + "-a%252Fb", "c")),
    ((ORDERS, "a/b-c"), (ORDERS + "-a%2Fb", "c")),
    ((ORDERS + "-partition-0", "s"), (ORDERS, "partition-0-s")),
    ((ORDERS, "s"), ("persistent://public/other/orders", "s")),
    ((ORDERS, "s"), ("persistent://another/default/orders", "s")),
]
"""Two subscriptions each; a part of a name of the first is one of the second, or namespace or tenant differ."""


@pytest.mark.parametrize("template", TEMPLATES)
@pytest.mark.parametrize(("one", "other"), MEETING)
def test_no_two_subscriptions_have_one_parking_topic(
    one: tuple[str, str], other: tuple[str, str], template: str
) -> None:
    """Not with any template, even if it is one that lets them meet but for the digest."""
    assert parking_topic(template, *one) != parking_topic(template, *other)


def test_the_examples_would_meet_without_the_digest() -> None:
    """Each of them in some template, as dead letter topics do: else the test above would prove nothing."""
    for one, other in MEETING:
        assert any(dead_letter_topic(each, *one) == dead_letter_topic(each, *other) for each in TEMPLATES)


def test_all_that_names_are_made_of_gives_another_parking_topic_for_each_subscription() -> None:
    """Topics and subscriptions of up to three of these pieces, separators, quoted parts and partitions among them."""
    pieces = ["a", "-", "%2D", "%", "/", "1:", "{subscription}"]
    names = ["".join(each) for count in (1, 2, 3) for each in product(pieces, repeat=count)]
    topics = [f"persistent://public/default/{name}" for name in names if "/" not in name][:20]
    wanted = list(product(topics, names))
    assert len({parking_topic(PARKING_TOPIC, *each) for each in wanted}) == len(wanted)


def test_a_name_begins_with_what_it_is_and_never_changes() -> None:
    """Operators find it by that; a gateway of a later version finds what this one parked."""
    assert parking_topic(PARKING_TOPIC, ORDERS, "billing") == ORDERS + "-billing-PARKED-618b0fe6defdc41f45d4"
    assert dead_letter_topic(DEAD_LETTER_TOPIC, ORDERS, "billing") == ORDERS + "-billing-DLQ"
    assert dead_letter_topic("persistent://ops/dead/all", ORDERS, "billing") == "persistent://ops/dead/all"


def test_no_client_leads_its_dead_letters_to_a_parking_topic() -> None:
    """They are published as their producer wrote them, and could pass for another subscription's parked messages."""
    lot = parking_topic(PARKING_TOPIC, ORDERS, "billing")
    wanted = lot.removeprefix(ORDERS + "-")
    assert dead_letter_topic("{topic}-{subscription}", ORDERS, wanted) == lot + "-DLQ"


def test_a_subscription_leads_to_no_other_namespace_by_its_name() -> None:
    """Its name is any text; the topic's is not. What looks like a placeholder in either is none."""
    made = dead_letter_topic(DEAD_LETTER_TOPIC, ORDERS + "{subscription}", "../x/y {topic}")
    assert made == ORDERS + "{subscription}-..%2Fx%2Fy%20%7Btopic%7D-DLQ"
    for template, place in ((PARKING_TOPIC, "persistent://public/default/"), (TEMPLATES[-1], "persistent://ops/dead/")):
        made = parking_topic(template, ORDERS, "persistent://secret/default/x")
        assert made.startswith(place)
        assert "/" not in made.removeprefix(place)


@pytest.mark.parametrize(
    "text",
    [
        "persistent://{topic}/dead/{subscription}",
        "persistent://ops/{topic}/{subscription}",
        "persistent://ops/dead/{topic}/{subscription}",
        "non-persistent://ops/dead/{topic}-{subscription}",
        "dead/{topic}-{subscription}",
        "{topic}-{subscription}-{digest}",
        "{topic} {subscription}",
        "",
    ],
)
def test_a_template_that_is_none_is_refused_with_what_is_right(text: str) -> None:
    """A tenant or namespace that clients would choose, no persistent topic, an unknown placeholder."""
    with pytest.raises(ValueError, match=r"\{topic\} and \{subscription\}.* as in: \{topic\}-\{subscription\}-DLQ"):
        topic_template(text)


@pytest.mark.parametrize("text", ["persistent://ops/dead/all", "{topic}-PARKED", "{subscription}-PARKED"])
def test_a_parking_topic_has_both_names(text: str) -> None:
    """An operator finds a subscription's by them."""
    assert topic_template(text) == text
    with pytest.raises(ValueError, match=r"must have \{topic\} and \{subscription\}"):
        own_topic_template(text)


@pytest.mark.parametrize("text", TEMPLATES)
def test_one_that_is_right_is_taken(text: str) -> None:
    """Alone, and behind tenant and namespace."""
    assert own_topic_template(text) == text
