"""Streams that open, are held, lapse and are forgotten: what workers get, and that nothing is left behind."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from proxy.core import join_gates, streams_here
from proxy.core.dispatcher import OrderingMode
from proxy.core.positions import pack
from proxy.core.stream_leases import StreamLeases
from proxy.core.waiting import WaitReason
from tests.core.test_dispatcher_rig import A, B, Rig

if TYPE_CHECKING:
    from collections.abc import Sequence

X, Y = 40_000, 50_000
"""Two slots of stream 1; A and B are in stream 0."""

every_mode = pytest.mark.parametrize("mode", OrderingMode)


class LeasedRig(Rig):
    """Two streams, of which the first is open, until second 100."""

    def __init__(self, mode: OrderingMode = OrderingMode.DRAINING_HASHES, **claims: Sequence[int]) -> None:
        super().__init__(mode, **claims)
        self.leases = self.dispatcher.leases = StreamLeases(2)
        self.leases.open(0)
        self.leases.until = 100.0

    def open(self, stream: int) -> None:
        """A lease came."""
        streams_here.open_stream(self.dispatcher, stream, self.now)

    def hold(self, stream: int) -> None:
        """It is wanted back."""
        streams_here.hold_stream(self.dispatcher, stream, self.now)

    def renew(self, until: float) -> None:
        """The leader was heard."""
        streams_here.renew(self.dispatcher, until, self.now)

    def pending_in(self, stream: int) -> bool:
        """Whether somebody works on it."""
        return streams_here.pending_in(self.dispatcher, stream)

    def forget(self, stream: int) -> int:
        """It is somebody else's."""
        return streams_here.forget_stream(self.dispatcher, stream, self.now)

    def reason(self, slot: int) -> WaitReason | None:
        """Why the head of a slot waits."""
        return self.dispatcher.wait_reason(slot, self.dispatcher.waiting_in(slot)[0], self.now)

    def assert_empty(self) -> None:
        """Nothing is here, of whatever stream."""
        dispatcher = self.dispatcher
        assert not list(dispatcher.waiting_parts())
        assert not dispatcher.outstanding.entries
        assert not dispatcher.outstanding.index_acks
        assert not dispatcher.chunked
        assert not dispatcher.gated
        assert dispatcher.outstanding.bytes_held == dispatcher.waiting_messages == 0
        assert len(dispatcher.slots) == len(dispatcher.draining) == 0
        for worker in dispatcher.workers.values():
            assert worker.unacked == worker.draining_slots == 0
            assert not worker.pending
            assert not worker.ready


# ---- what is delivered ----


@every_mode
def test_a_closed_streams_messages_wait_and_others_flow(mode: OrderingMode) -> None:
    """One of one message, a batch of two keys, an opaque one and a chunk: none goes before the stream opens."""
    rig = LeasedRig(mode, c1=[A, X, Y])
    worker = rig.join("c1", 20)
    rig.entries(X, 1)
    rig.mixed(2, X, Y)
    rig.opaque(3, X, 2)
    rig.chunk(4, Y, "m", 0, 1)
    rig.entries(A, 5)
    assert rig.got("c1") == [5]
    assert list(worker.ready) == []
    assert rig.reason(X) is rig.reason(Y) is WaitReason.NO_LEASE
    rig.open(1)
    assert rig.got("c1") == [1, 2, 3, 4]
    assert not list(rig.dispatcher.waiting_parts())


def test_a_batch_of_several_keys_of_a_closed_stream_goes_together_when_it_opens() -> None:
    """As one delivery, for it is at one worker."""
    rig = LeasedRig(c1=[X, Y])
    rig.join("c1", 10)
    rig.mixed(1, X, Y)
    assert rig.got("c1") == []
    rig.open(1)
    assert rig.got("c1") == [1]


def test_permits_do_not_bring_a_closed_streams_messages() -> None:
    """The grant is kept for others."""
    rig = LeasedRig(c1=[X])
    worker = rig.join("c1")
    rig.entries(X, 1)
    rig.flow("c1", 5)
    assert rig.got("c1") == []
    assert worker.permits == 5
    rig.open(1)
    assert rig.got("c1") == [1]


def test_a_stream_that_is_held_leaves_ready_queues() -> None:
    """What only lacked permits does not go with the next grant; opened again it goes on in order."""
    rig = LeasedRig(c1=[A, B])
    worker = rig.join("c1", 1)
    rig.entries(A, 1, 2)
    rig.entries(B, 3)
    assert [part.slot for part in worker.ready] == [A, B]
    assert rig.got("c1") == [1]
    rig.hold(0)
    assert list(worker.ready) == []
    rig.flow("c1", 10)
    rig.ack("c1", 1)
    rig.entries(A, 4)
    assert rig.got("c1") == []
    rig.open(0)
    assert rig.got("c1") == [2, 3, 4]


@every_mode
def test_what_has_not_left_when_its_stream_is_held_waits_again(mode: OrderingMode) -> None:
    """Whatever the leases do: one message, a batch of two keys, one that was given back, the end of a chunked one."""
    rig = LeasedRig(mode, c1=[A, B, X])
    worker = rig.join("c1", 20)
    rig.entries(A, 1)
    rig.chunk(2, B, "m", 0, 2)
    assert rig.got("c1") == [1, 2]
    rig.nack("c1", 1)
    rig.mixed(3, A, B)
    rig.chunk(4, B, "m", 1, 2)
    rig.entries(A, 5)
    rig.hold(0)
    assert rig.got("c1") == []
    assert list(worker.pending) == [rig.key(2)], "what the worker has"
    assert (worker.permits, worker.sent_messages, worker.redelivered_messages) == (18, 2, 1)
    rig.renew(200.0)
    assert rig.got("c1") == []
    rig.open(0)
    assert sorted(rig.got("c1")) == [1, 3, 4, 5]
    assert worker.redelivered_messages == 1
    assert worker.permits == 20 - 2 - 1 - 2 - 1 - 1


@every_mode
def test_the_permits_of_what_waits_again_are_for_other_streams(mode: OrderingMode) -> None:
    """And not for what else waited of the one that is held."""
    rig = LeasedRig(mode, c1=[A, B, X])
    rig.open(1)
    rig.join("c1", 1)
    rig.entries(A, 1)
    rig.entries(B, 2)
    rig.entries(X, 3)
    rig.hold(0)
    assert rig.got("c1") == [3]


@every_mode
def test_what_was_acknowledged_before_it_left_does_not_leave(mode: OrderingMode) -> None:
    """A late ack of a first delivery, of which the broker does not say that there was one; or a client's guess."""
    rig = LeasedRig(mode, c1=[A, B])
    worker = rig.join("c1", 20)
    rig.entries(A, 1)
    assert rig.got("c1") == [1]
    rig.forget(0)
    rig.entries(A, 1)
    rig.mixed(2, A, B)
    assert rig.ack("c1", 1)
    assert rig.ack_all_but("c1", 2, 0)
    assert rig.ack_all_but("c1", 2, 1)
    rig.hold(0)
    rig.open(0)
    assert rig.got("c1") == []
    assert worker.unacked == 0
    assert worker.permits == 20 - 1
    rig.assert_empty()


def test_what_was_acknowledged_before_it_left_is_forgotten_with_its_stream() -> None:
    """Nobody else looks for it."""
    rig = LeasedRig(c1=[A, B])
    worker = rig.join("c1", 20)
    rig.entries(B, 1)
    rig.entries(A, 2)
    assert rig.ack("c1", 2)
    assert len(worker.outbox) == 2
    rig.forget(0)
    assert rig.got("c1") == []
    assert worker.permits == 20
    rig.assert_empty()


def test_what_has_not_left_of_other_streams_leaves_when_one_is_held() -> None:
    """And the permits of what stays are theirs."""
    rig = LeasedRig(c1=[A, X])
    rig.open(1)
    rig.join("c1", 3)
    rig.entries(A, 1, 2)
    rig.entries(X, 3, 4, 5)
    rig.hold(0)
    assert rig.got("c1") == [3, 4, 5]


def test_what_a_worker_gives_back_of_a_held_stream_stays_here() -> None:
    """It is pending no more, and waits at its place."""
    rig = LeasedRig(c1=[A])
    rig.join("c1", 10)
    rig.entries(A, 1, 2)
    assert rig.got("c1") == [1, 2]
    rig.hold(0)
    rig.nack("c1")
    assert rig.got("c1") == []
    assert not rig.pending_in(0)
    rig.open(0)
    assert rig.got("c1") == [1, 2]


def test_a_held_stream_goes_on_draining() -> None:
    """Leases change no owner: the former holder's ack ends the drain, and the next goes out with the lease."""
    rig = LeasedRig(c1=[A], c2=[A])
    rig.join("c1", 10)
    rig.entries(A, 1, 2)
    assert rig.got("c1") == [1, 2]
    rig.hold(0)
    rig.join("c2", 10)
    rig.entries(A, 3)
    assert rig.draining() == [A]
    rig.ack("c1", 1, 2)
    assert rig.draining() == []
    assert rig.got("c2") == []
    rig.open(0)
    assert rig.got("c2") == [3]


@every_mode
def test_a_chunked_message_that_is_begun_gets_no_rest_while_its_stream_is_held(mode: OrderingMode) -> None:
    """Neither as it comes, nor with permits; when the stream opens it does, although the slot drains."""
    rig = LeasedRig(mode, c1=[A], c2=[A])
    rig.join("c1", 1)
    rig.chunk(1, A, "m", 0, 3)
    rig.join("c2", 10)
    rig.chunk(2, A, "m", 1, 3)
    assert rig.got("c1") == [1]
    rig.hold(0)
    rig.chunk(3, A, "m", 2, 3)
    rig.flow("c1", 10)
    assert rig.got("c1") == []
    assert rig.pending_in(0)
    rig.open(0)
    assert rig.got("c1") == [2, 3]
    assert rig.got("c2") == []


# ---- until when ----


@every_mode
def test_nothing_goes_out_once_the_leases_have_run_out(mode: OrderingMode) -> None:
    """From that very moment: new messages, batches, chunks, what a grant or an ack would bring."""
    rig = LeasedRig(mode, c1=[A, B])
    rig.join("c1", 2)
    rig.now = 99.0
    rig.chunk(1, A, "m", 0, 2)
    rig.entries(B, 2, 3)
    assert rig.got("c1") == [1, 2]
    rig.now = 100.0
    rig.chunk(4, A, "m", 1, 2)
    rig.flow("c1", 20)
    rig.entries(B, 5)
    rig.mixed(6, A, B)
    rig.ack("c1", 2)
    rig.entries(B, 7)
    assert rig.got("c1") == []
    assert rig.reason(B) is WaitReason.NO_LEASE
    rig.renew(200.0)
    assert rig.got("c1") == [3, 4, 5, 6, 7]
    assert not list(rig.dispatcher.waiting_parts())


def test_what_was_read_before_the_leases_ran_out_overtakes_nothing_that_waits_since() -> None:
    """Entries of one read have the time of its beginning, and a grant in between may have a later one."""
    rig = LeasedRig(c1=[A])
    rig.join("c1", 0)
    rig.now = 99.0
    rig.entries(A, 1)
    rig.now = 100.0
    rig.flow("c1", 10)
    rig.now = 99.0
    rig.entries(A, 2)
    assert rig.got("c1") == [1, 2]


def test_a_message_that_could_go_at_once_waits_when_the_leases_have_run_out() -> None:
    """The short way of a plain message asks as well."""
    rig = LeasedRig(c1=[A])
    rig.join("c1", 10)
    rig.now = 100.0
    rig.entries(A, 1)
    assert rig.got("c1") == []
    rig.renew(100.0)
    assert rig.got("c1") == [], "still run out"
    rig.renew(100.5)
    assert rig.got("c1") == [1]


def test_a_batch_of_several_keys_that_could_go_at_once_waits_when_the_leases_have_run_out() -> None:
    """It goes by a way of its own."""
    rig = LeasedRig(c1=[A, B])
    rig.join("c1", 10)
    rig.now = 100.0
    rig.mixed(1, A, B)
    assert rig.got("c1") == []
    rig.renew(200.0)
    assert rig.got("c1") == [1]


def test_a_renewal_in_time_only_moves_the_end() -> None:
    """Nothing waits for it; an end that is earlier than before counts as well."""
    rig = LeasedRig(c1=[A])
    rig.join("c1", 10)
    rig.now = 50.0
    rig.renew(150.0)
    rig.now = 120.0
    rig.entries(A, 1)
    rig.renew(110.0)
    rig.entries(A, 2)
    assert rig.got("c1") == [1]


def test_a_renewal_wakes_who_has_begun_a_chunked_message() -> None:
    """Its rest is in no ready queue, for the slot drains."""
    rig = LeasedRig(c1=[A], c2=[A])
    rig.join("c1", 10)
    rig.chunk(1, A, "m", 0, 2)
    rig.join("c2", 10)
    rig.now = 100.0
    rig.chunk(2, A, "m", 1, 2)
    assert rig.got("c1") == [1]
    rig.renew(200.0)
    assert rig.got("c1") == [2]


# ---- what is pending ----


@every_mode
def test_a_stream_is_pending_until_its_last_message_is_acknowledged(mode: OrderingMode) -> None:
    """What waits, and what other streams have, does not count; a batch counts until it is acknowledged whole."""
    rig = LeasedRig(mode, c1=[A, B, X])
    rig.join("c1", 3)
    rig.open(1)
    assert not rig.pending_in(0)
    rig.entries(X, 1)
    rig.mixed(2, A, B)
    rig.entries(A, 3)
    assert rig.got("c1") == [1, 2]
    assert rig.pending_in(0)
    rig.ack_all_but("c1", 2, 1)
    assert rig.pending_in(0)
    rig.ack("c1", 2)
    assert not rig.pending_in(0)
    assert rig.pending_in(1)


# ---- what is forgotten ----


@every_mode
def test_a_stream_that_is_forgotten_leaves_nothing_behind(mode: OrderingMode) -> None:
    """Pending, partly acknowledged, waiting, cut by permits, chunked: gone, not acknowledged, and no ack counts."""
    rig = LeasedRig(mode, c1=[A, B, X])
    worker = rig.join("c1", 6)
    rig.entries(A, 1)
    rig.batch(2, B, 3)
    rig.chunk(3, A, "m", 0, 2)
    rig.batch(4, B, 4)
    rig.chunk(5, A, "m", 1, 2)
    rig.mixed(6, A, B)
    assert rig.got("c1") == [1, 2, 3, (4, (0,))]
    rig.ack_all_but("c1", 2, 2)
    rig.hold(0)
    assert rig.forget(0) == 10
    rig.assert_empty()
    assert worker.acked_messages == 2
    assert worker.permits == 0, "what was sent used its permits"
    assert not rig.ack("c1", 1, 2, 3, (4, (0,)))
    assert worker.acks_unknown == 4
    assert rig.acked_upstream() == []
    assert not rig.dispatcher.outstanding.unconfirmed


def test_forgetting_a_stream_leaves_others_alone() -> None:
    """What waits and what is pending of them, at the same workers."""
    rig = LeasedRig(c1=[A, X])
    rig.join("c1", 2)
    rig.open(1)
    rig.entries(A, 1)
    rig.entries(X, 2, 3)
    rig.entries(A, 4)
    assert rig.got("c1") == [1, 2]
    rig.hold(0)
    assert rig.forget(0) == 2
    assert rig.pending_in(1)
    rig.flow("c1", 5)
    assert rig.got("c1") == [3]
    rig.ack("c1", 2, 3)
    assert rig.acked_upstream() == [2, 3]
    rig.assert_empty()


def test_what_comes_again_after_it_was_forgotten_is_news() -> None:
    """The lease came back: the broker sends from the first message nobody acknowledged."""
    rig = LeasedRig(c1=[A])
    rig.join("c1", 10)
    rig.entries(A, 1, 2, 3)
    assert rig.got("c1") == [1, 2, 3]
    rig.ack("c1", 2)
    rig.hold(0)
    assert rig.forget(0) == 2
    rig.open(0)
    rig.entries(A, 1, 2, 3)
    assert rig.got("c1") == [1, 3]
    assert rig.acked_upstream() == [2, 2], "acknowledged, and not confirmed when it came again"


def test_what_lies_in_an_outbox_is_forgotten_unsent() -> None:
    """Its permits are the worker's again, and serve another stream in the same turn."""
    rig = LeasedRig(c1=[A, X])
    worker = rig.join("c1", 2)
    rig.open(1)
    rig.entries(A, 1, 2)
    rig.entries(X, 3)
    rig.hold(0)
    assert rig.forget(0) == 2
    assert rig.got("c1") == [3]
    assert (worker.permits, worker.unacked, worker.sent_messages) == (1, 1, 1)


def test_forgetting_lifts_the_unacknowledged_limit() -> None:
    """A worker that held too much of the stream takes of others at once."""
    rig = LeasedRig(c1=[A, X])
    worker = rig.join("c1", 10, max_unacked=2)
    rig.open(1)
    rig.entries(A, 1, 2)
    rig.entries(X, 3)
    assert rig.got("c1") == [1, 2]
    assert worker.over_unacked
    rig.hold(0)
    rig.forget(0)
    assert rig.got("c1") == [3]


def test_a_slot_that_drained_is_forgotten_without_a_hand_over() -> None:
    """It drains no more, which is counted; but it went to nobody here."""
    rig = LeasedRig(c1=[A, B], c2=[A])
    first = rig.join("c1", 10)
    rig.entries(A, 1, 2)
    assert rig.got("c1") == [1, 2]
    rig.join("c2", 10)
    rig.entries(A, 3)
    assert rig.dispatcher.draining_begun_total == 1
    rig.hold(0)
    assert rig.forget(0) == 3
    rig.assert_empty()
    assert rig.dispatcher.hand_overs == []
    assert rig.dispatcher.draining_begun_total == rig.dispatcher.draining_cleared_total == first.draining_cleared == 1


def test_forgotten_entries_open_join_gates() -> None:
    """PIP-282: nobody here can acknowledge them any more."""
    rig = LeasedRig(OrderingMode.LAST_SENT_POSITION, c1=[A, B], c2=[X])
    rig.join("c1", 1)
    rig.open(1)
    rig.entries(A, 1)
    second = rig.join("c2", 10)
    rig.entries(X, 2)
    assert join_gates.workers(rig.dispatcher.gated) == [second]
    assert rig.got("c2") == []
    rig.hold(0)
    assert rig.forget(0) == 1
    assert rig.dispatcher.gated == []
    assert rig.got("c2") == [2]


def test_a_chunked_message_is_forgotten_with_its_stream() -> None:
    """When it comes again it begins with whoever owns it then."""
    rig = LeasedRig(c1=[A], c2=[A])
    rig.join("c1", 10)
    rig.chunk(1, A, "m", 0, 2)
    rig.hold(0)
    rig.forget(0)
    assert not rig.dispatcher.chunked
    rig.join("c2", 10)
    rig.open(0)
    rig.chunk(1, A, "m", 0, 2)
    rig.chunk(2, A, "m", 1, 2)
    assert rig.got("c2") == [1, 2]


def test_a_stream_of_which_nothing_is_here_is_forgotten_for_nothing() -> None:
    """It may never have been consumed."""
    rig = LeasedRig(c1=[A])
    rig.join("c1", 10)
    rig.entries(A, 1)
    assert rig.forget(1) == 0
    assert rig.got("c1") == [1]


def test_an_entry_in_several_streams_is_a_bug() -> None:
    """Half of it would be acknowledged, or lost, with the other stream."""
    rig = LeasedRig(c1=[A, X])
    rig.join("c1")
    rig.mixed(1, A, X)
    with pytest.raises(AssertionError, match="several streams"):
        rig.forget(0)


def test_a_subscription_without_leases_has_no_streams() -> None:
    """To open one of it is a bug."""
    rig = Rig(c1=[A])
    rig.join("c1", 10)
    with pytest.raises(AssertionError, match="no leases"):
        streams_here.open_stream(rig.dispatcher, 0, 0.0)
    rig.dispatcher.receive(pack(1, 1), A, 1, b"", 0, 1e12)
    assert rig.got("c1") == [1]


# ---- why a slot waits ----


def test_a_pause_is_told_before_a_missing_lease_and_that_before_a_missing_owner() -> None:
    """Whoever asks at the wrong replica should be told so."""
    rig = LeasedRig(c1=[A])
    rig.entries(X, 1)
    assert rig.reason(X) is WaitReason.NO_LEASE
    rig.open(1)
    assert rig.reason(X) is WaitReason.NO_OWNER
    rig.now = 100.0
    assert rig.reason(X) is WaitReason.NO_LEASE
    rig.dispatcher.pause()
    assert rig.reason(X) is WaitReason.PAUSED
