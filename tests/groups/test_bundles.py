"""Which bundle a subscription is in: the same answer everywhere and for ever."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.groups.bundles import BUNDLES_DEFAULT, DEPLOYMENT, bundle_of
from proxy.groups.streams import STREAMS_MAX

ORDERS = "persistent://public/default/orders"


@pytest.mark.parametrize(
    ("topic", "subscription", "bundle"),
    [
        (ORDERS, "billing", 382),
        (f"{ORDERS}-partition-0", "billing", 538),
        (f"{ORDERS}-partition-1", "billing", 551),
        ("persistent://t/n/ä", "ü", 737),
    ],
)
def test_a_bundle_is_the_same_in_every_release(topic: str, subscription: str, bundle: int) -> None:
    """Replicas of two releases look for one subscription in one place."""
    assert bundle_of(topic, subscription, 1_024) == bundle


@given(st.text(), st.text(), st.integers(1, STREAMS_MAX))
def test_every_subscription_is_in_a_bundle(topic: str, subscription: str, count: int) -> None:
    """Whatever it is called."""
    assert 0 <= bundle_of(topic, subscription, count) < count


def test_a_part_of_one_name_does_not_pass_for_a_part_of_the_other() -> None:
    """Topic ``a`` with subscription ``bc`` is not topic ``ab`` with subscription ``c``."""
    pairs = [("a", "bc"), ("ab", "c"), ("1:a", "b"), ("", "abc")]
    assert len({bundle_of(*pair, STREAMS_MAX) for pair in pairs}) == len(pairs)


def test_partitions_of_a_topic_are_spread() -> None:
    """No bundle has much more than its share: owners of equally many bundles own about equally many subscriptions."""
    found = Counter(
        bundle_of(f"{ORDERS}-partition-{number}", f"s{name}", 16) for number in range(100) for name in range(100)
    )
    assert len(found) == 16
    assert max(found.values()) < 10_000 / 16 * 1.2


def test_no_topic_is_called_like_the_deployments_group() -> None:
    """Or a group of that topic would meet it."""
    assert "://" not in DEPLOYMENT.topic
    assert BUNDLES_DEFAULT <= STREAMS_MAX
