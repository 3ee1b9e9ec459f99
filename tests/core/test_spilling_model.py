"""The dispatcher under policies with a share, against the reference in `model`: bytes are let go and asked back."""

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
    KeyPolicy(share=0.01),
    KeyPolicy(share=0.3),
    KeyPolicy(window=1, share=0.01),
    KeyPolicy(window=2, retry_delay_s=1.5, share=0.2),
    KeyPolicy(window=1),
    NO_POLICY,
)


class Spilling(Subscription):
    """As its base, where the broker has the bytes of much that waits."""

    @initialize(
        mode=st.sampled_from(OrderingMode),
        selector=st.sampled_from(sorted(SELECTORS)),
        permits=st.integers(0, 20),
        policy=st.sampled_from(POLICIES[:4]),
        recorded=st.booleans(),
    )
    def begin(self, mode: OrderingMode, selector: str, permits: int, policy: KeyPolicy, *, recorded: bool) -> None:
        """A subscription with two workers, of which one takes much more than the other."""
        self.world = World(SELECTORS[selector](), mode, 0.0, policy, recorded=recorded)
        self.world.flow(self.world.join(Worker("a", sticky_ranges=STICKY[:1])), permits)
        self.world.flow(self.world.join(Worker("b", sticky_ranges=STICKY[1:2])), 100)

    @rule(policy=st.sampled_from(POLICIES))
    def an_operator_changes_the_policy(self, policy: KeyPolicy) -> None:
        """From the admin API."""
        self.world.change_policy(policy)

    @rule(count=st.integers(1, 5))
    def the_broker_sends_again_what_it_was_asked_for(self, count: int) -> None:
        """Some of it."""
        self.world.answer(count)


TestModel = Spilling.TestCase
"""Nothing is lost, comes twice or overtakes, and nothing leaves without its bytes or waits for none."""

TestModel.settings = lives(300, 50)
