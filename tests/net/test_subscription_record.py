"""What is told to whoever writes everything down: events, hand-overs, and each message if that is wanted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from proxy.core.delivery_log import How
from proxy.core.entry import Part
from proxy.net.subscription.order_book import LimitsWanted
from tests.net.subscription_rig import SubscriptionRig, Worker
from tests.net.subscription_rig_broker import batch, single
from tests.net.test_subscription_opaque import encrypted

if TYPE_CHECKING:
    from proxy.core.delivery_log import Ending
    from proxy.core.dispatcher import HandOver
    from proxy.core.worker import Worker as CoreWorker
    from proxy.net.events import Event

SALT = 1_000


class Recorder:
    """Implements `events.EventRecorder` and `events.DeliveryRecorder`: notes everything in words."""

    def __init__(self, *, messages: bool = True) -> None:
        """Nothing noted."""
        self.said: list[tuple[object, ...]] = []
        self._messages = messages

    def happened(self, event: Event) -> None:
        """As the port says."""
        self.said.append((event.kind,))

    def handed_over(self, key: tuple[str, str], hand_overs: Sequence[HandOver]) -> None:
        """As the port says."""
        self.said += [("hand-over", key[1], item.holder, item.owner) for item in hand_overs]

    def came_back(self, key: tuple[str, str], consumer: str, messages: int) -> None:
        """As the port says."""
        self.said.append(("came back", key[1], consumer, messages))

    def recorder(self, key: tuple[str, str]) -> Recorder | None:
        """As the port says."""
        _ = key
        return self if self._messages else None

    def digest(self, key: bytes) -> int:
        """As the port says."""
        return SALT + len(key)

    def sent(self, worker: CoreWorker, units: Sequence[Part], now: float) -> None:
        """As the port says."""
        _ = now
        for part in units:
            self._note("sent", part, worker, part.message_indexes())

    def ended(self, endings: Sequence[Ending]) -> None:
        """As the port says."""
        for how, part, worker, _, _, _, indexes in endings:
            self._note(how.name.lower(), part, worker, part.message_indexes() if indexes is None else indexes)

    def taken(self) -> list[tuple[object, ...]]:
        """What was said since the last look, but for joins and leaves."""
        said, self.said = self.said, []
        return [words for words in said if len(words) > 1]

    def _note(self, what: str, part: Part, worker: CoreWorker, indexes: Sequence[int]) -> None:
        for index in indexes:
            digest = part.digest if isinstance(part.digest, int) else part.digest[index]
            self.said.append((what, worker.name, part.position & 0xFF, index, digest - SALT))


def rig_with(recorder: Recorder) -> tuple[SubscriptionRig, Worker]:
    """A worker with many permits."""
    rig = SubscriptionRig()
    rig.subscriptions.events.event_recorder = recorder
    worker = rig.worker("a", permits=100)
    recorder.taken()
    return rig, worker


def test_each_message_is_told_with_its_key_when_it_is_sent_and_when_it_ends() -> None:
    """Alone, in a batch of one key, in one of several, in one that cannot be read, and in what is no message."""
    recorder = Recorder()
    rig, worker = rig_with(recorder)
    rig.link.deliver((0, single("abc")), (1, batch([("k", b"0"), ("k", b"1")])))
    sent = [("sent", "a", 0, 0, 3), ("sent", "a", 1, 0, 1), ("sent", "a", 1, 1, 1)]
    assert recorder.taken() == sent
    rig.link.deliver((2, batch([("k", b"0"), ("long", b"1"), ("k", b"2")])))
    assert sorted(map(str, recorder.taken())) == sorted(
        map(str, [("sent", "a", 2, 0, 1), ("sent", "a", 2, 1, 4), ("sent", "a", 2, 2, 1)])
    )
    rig.link.deliver((3, encrypted([("kk", b"0"), ("other", b"1")])))
    assert recorder.taken() == [("sent", "a", 3, 0, 2), ("sent", "a", 3, 1, 2)]
    rig.link.deliver((4, b"\x0e\x01nonsense"))
    assert recorder.taken() == [("sent", "a", 4, 0, len("NONE_KEY"))]
    worker.ack(0, 1)
    assert recorder.taken() == [("acked", *words[1:]) for words in sent]


def test_a_message_without_a_key_has_its_producers_and_number() -> None:
    """As the broker hashes it."""
    recorder = Recorder()
    rig, _ = rig_with(recorder)
    rig.link.deliver((0, single(None)))
    assert recorder.taken() == [("sent", "a", 0, 0, len("shop-7"))]


def test_what_comes_back_is_told_before_it_is_sent_again() -> None:
    """Once by the message and once by the occasion."""
    recorder = Recorder()
    rig, worker = rig_with(recorder)
    rig.link.deliver((0, single("abc")))
    recorder.taken()
    worker.redeliver(0)
    rig.clock.settle()
    said = recorder.taken()
    assert ("asked_for", "a", 0, 0, 3) in said
    assert ("came back", "s", "a", 1) in said
    assert ("sent", "a", 0, 0, 3) in said


def test_a_worker_that_goes_gives_back_what_it_has() -> None:
    """Also the last one, whose subscription ends with it."""
    recorder = Recorder()
    rig, worker = rig_with(recorder)
    rig.link.deliver((0, single("abc")))
    recorder.taken()
    worker.close()
    rig.clock.settle()
    assert recorder.taken() == [("came back", "s", "a", 1), ("returned", "a", 0, 0, 3)]


def test_what_is_asked_of_keys_is_told_before_anything_is_sent_by_it() -> None:
    """At the beginning and with each change, and only what is asked for."""
    told: list[tuple[str, dict[str, object]]] = []

    class Listening(Recorder):
        def happened(self, event: Event) -> None:
            super().happened(event)
            if "key_policy" in event.kind or "began" in event.kind:
                told.append((event.kind, event.facts))

    recorder = Listening()
    rig = SubscriptionRig(key_window=1, retry_delay_ms=100)
    rig.subscriptions.events.event_recorder = recorder
    rig.worker("a", permits=9)
    rig.link.deliver((0, single("k")), (1, single("k")))
    began = {"key_window": 1, "retry_delay_ms": 100, "retry_multiplier": 1.0, "retry_delay_max_ms": 600_000}
    assert told == [("subscription_began", {"ordering_mode": "draining_hashes", **began})]
    recorder.said.clear()
    rig.subscription.orders.change_limits(LimitsWanted(key_window=2, retry_delay_ms=0, ack_lease_ms=5_000))
    rig.clock.settle()
    assert told[1:] == [("key_policy", {"key_window": 2, "ack_lease_ms": 5_000})]
    words = [said for said in recorder.said if said[0] in {"key_policy", "sent"}]
    assert words == [("key_policy",), ("sent", "a", 1, 0, 1)]
    rig.subscription.orders.change_limits(LimitsWanted(key_window=2, retry_delay_ms=0, ack_lease_ms=5_000))
    assert len(told) == 2


def test_without_a_wish_no_message_is_told() -> None:
    """Events, hand-overs and what came back are told all the same, whether or not anybody listens."""
    recorder = Recorder(messages=False)
    rig = SubscriptionRig()
    rig.subscriptions.events.event_recorder = recorder
    first = rig.worker("a", permits=100)
    key = rig.key_for("a")
    entries = [(number, single(f"key-{number}")) for number in range(40)]
    rig.link.deliver(*entries, (40, single(key)))
    rig.worker("b", permits=100)
    first.ack(*range(41))
    rig.clock.settle()
    said = recorder.said
    assert [words[0] for words in said[:4]] == [
        "subscription_began",
        "upstream_ready",
        "worker_joined",
        "worker_joined",
    ]
    assert ("hand-over", "s", "a", "b") in said
    assert rig.subscription.state.dispatcher.endings is None
    assert not any(isinstance(words[0], How) for words in said)
