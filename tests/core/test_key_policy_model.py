"""The dispatcher under key policies against the reference in `model`: windows and pauses, changed at any moment."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from proxy.core.dispatcher import OrderingMode
from proxy.core.key_policy import NO_POLICY, KeyPolicy
from proxy.core.worker import Worker
from tests.core.model import World
from tests.core.test_model import SELECTORS, STICKY, Subscription
from tests.lives import lives

POLICIES = (
    NO_POLICY,
    KeyPolicy(window=1),
    KeyPolicy(window=2),
    KeyPolicy(retry_delay_s=4.0),
    KeyPolicy(window=1, retry_delay_s=4.0),
    KeyPolicy(window=3, retry_delay_s=1.5),
)
"""A step takes a second."""


class KeyPolicies(Subscription):
    """As its base, with a policy from the beginning, and operators who change it."""

    @initialize(
        mode=st.sampled_from(OrderingMode),
        selector=st.sampled_from(sorted(SELECTORS)),
        permits=st.integers(0, 20),
        interval_s=st.sampled_from([0.0, 0.0, 2.5]),
        policy=st.sampled_from(POLICIES),
    )
    def begin(self, mode: OrderingMode, selector: str, permits: int, interval_s: float, policy: KeyPolicy) -> None:
        """A subscription with one worker."""
        self.world = World(SELECTORS[selector](), mode, interval_s, policy)
        self.world.flow(self.world.join(Worker("a", sticky_ranges=STICKY[:2])), permits)

    @rule(policy=st.sampled_from(POLICIES))
    def an_operator_changes_the_policy(self, policy: KeyPolicy) -> None:
        """From the admin API."""
        self.world.change_policy(policy)


TestModel = KeyPolicies.TestCase
"""Nothing overtakes at any window, no retry comes early or late, and the guarantees of every subscription hold."""

TestModel.settings = lives(300, 50)
