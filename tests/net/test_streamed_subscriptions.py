"""Which subscriptions are cut into streams: all, those that are named, or none."""

from __future__ import annotations

import pytest

from proxy.net.group.settings import GroupSettings
from proxy.net.group.streamed import StreamedSubscriptions

NAMED = ("orders* billing", "parcels *")
OWNER = GroupSettings(groups_enabled=True, groups_mode="owner", streamed_subscriptions=NAMED)


def streamed(settings: GroupSettings, topic: str, subscription: str = "billing") -> bool:
    """Whether this one is."""
    return (f"persistent://public/default/{topic}", subscription) in StreamedSubscriptions(settings)


@pytest.mark.parametrize(
    ("topic", "subscription", "is_one"),
    [
        ("orders", "billing", True),
        ("orders-eu-partition-3", "billing", True),
        ("parcels-partition-0", "anything", True),
        ("orders", "audit", False),
        ("other", "billing", False),
    ],
)
def test_in_owner_mode_it_is_what_the_configuration_names(topic: str, subscription: str, is_one: bool) -> None:  # noqa: FBT001 - a case
    """By topic, a partition with and without its number, and subscription."""
    assert streamed(OWNER, topic, subscription) == is_one
    assert StreamedSubscriptions(OWNER)


def test_in_the_mode_streams_all_of_persistent_topics_are() -> None:
    """Others have no cursor that could be shared; what is named changes nothing."""
    settings = GroupSettings(groups_enabled=True, groups_mode="streams", streamed_subscriptions=NAMED)
    assert streamed(settings, "other")
    assert ("non-persistent://public/default/orders", "billing") not in StreamedSubscriptions(settings)


def test_a_subscription_without_a_cursor_has_an_owner_whatever_is_named() -> None:
    """A lone wildcard stands for topics of all kinds."""
    settings = GroupSettings(groups_enabled=True, groups_mode="owner", streamed_subscriptions=("* billing",))
    assert streamed(settings, "orders")
    assert ("non-persistent://public/default/orders", "billing") not in StreamedSubscriptions(settings)


@pytest.mark.parametrize(
    "settings",
    [GroupSettings(streamed_subscriptions=NAMED), GroupSettings(groups_enabled=True, groups_mode="owner")],
    ids=["alone", "nothing named"],
)
def test_otherwise_none_is(settings: GroupSettings) -> None:
    """A gateway alone consumes everything whole, and replicas have owners for everything."""
    assert not streamed(settings, "orders")
    assert not StreamedSubscriptions(settings)
