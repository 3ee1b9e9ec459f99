"""Thousands of workers come at once and go at once: in slices, in order, and each is told what holds."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import pytest

from proxy.core import membership
from proxy.limits import Limits
from proxy.net.slices import SLICE_S
from proxy.net.subscription.membership import GROUP_MAX
from proxy.net.subscription.workers import IDS_AT_ONCE, SubscribedWorker
from proxy.wire import pulsar_pb2 as pb
from tests.net.fakes import FakeClock, FakeWorkerPort
from tests.net.session_rig import SessionRig, ack, encode, flow, send, subscribe
from tests.net.subscription_rig import SubscriptionRig, Worker, schema
from tests.net.subscription_rig_broker import T, single

if TYPE_CHECKING:
    from proxy.net.ports import WorkerLink

MANY = 100
PIECE_S = SLICE_S / 2
"""What a join or leave takes in these tests: two fit a slice."""


def turns(clock: FakeClock, over: Callable[[], bool]) -> int:
    """Let the loop turn until something is so; how many turns it took."""
    for turn in range(10 * MANY):
        if over():
            return turn
        due = list(clock._soon)
        clock._soon.clear()
        for timer in due:
            timer.fire()
    raise AssertionError("it never came to an end")


def slow(monkeypatch: pytest.MonkeyPatch, clock: FakeClock) -> None:
    """Let each join and leave take its time."""
    for name in ("join", "leave"):
        original = getattr(membership.Changes, name)

        def taking(self: object, worker: object, original: Callable[..., object] = original, **how: bool) -> object:
            clock.oversleep(PIECE_S)
            return original(self, worker, **how)

        monkeypatch.setattr(membership.Changes, name, taking)


def crowd(rig: SubscriptionRig, count: int = MANY) -> list[Worker]:
    """So many SUBSCRIBEs in one turn."""
    return [rig.subscribe(f"worker-{number}", settle=False) for number in range(count)]


# ---- one connection


def test_many_commands_of_one_read_are_taken_in_slices() -> None:
    """The client is not read from meanwhile, and each command is taken, in order."""
    rig = SessionRig().connect()
    take_time(rig)
    rig.session.received(b"".join(subscribe(number, number + 100) for number in range(MANY)))
    assert len(rig.directory.workers) == 2
    assert not rig.client.reading
    steps: list[int] = []

    def over() -> bool:
        steps.append(len(rig.directory.workers))
        return rig.client.reading

    assert turns(rig.clock, over) > MANY / 4
    assert max(after - before for before, after in itertools.pairwise(steps)) <= 2
    assert [port.command.consumer_id for port in rig.directory.workers] == list(range(MANY))


def test_messages_do_not_overtake_commands_that_wait() -> None:
    """What was read before reading paused keeps its place behind them, though nothing is looked at in it."""
    rig = SessionRig().connect()
    rig.relayed_producer(5, 50)
    take_time(rig)
    rig.session.received(b"".join(subscribe(number, number + 100) for number in range(MANY)) + ack(MANY))
    rig.session.received(send(5, 1))
    assert rig.to_broker() == []
    turns(rig.clock, lambda: rig.client.reading)
    assert [command.type for command in rig.to_broker()] == [pb.BaseCommand.ACK, pb.BaseCommand.SEND]


def test_a_client_that_has_gone_is_not_looked_at_any_more() -> None:
    """What it asked for before is dropped, and its workers are told."""
    rig = SessionRig().connect()
    take_time(rig)
    rig.session.received(b"".join(subscribe(number, number + 100) for number in range(MANY)))
    rig.client.lose()
    assert len(rig.directory.workers) == 2
    assert [port.calls[-1][0] for port in rig.directory.workers] == ["lost", "lost"]
    assert rig.ended == [rig.session]


def test_what_a_client_acknowledged_before_it_went_counts_though_it_waited_its_turn() -> None:
    """A write to it failed, so that the end came before its turn did."""
    rig = SessionRig().connect()
    port = rig.worker(1)
    take_time(rig)
    rig.relayed_producer(5, 50)
    waits = flow(1, 10) + ack(1) + send(5, 1)
    rig.session.received(b"".join(subscribe(number, number + 100) for number in range(2, MANY)) + waits)
    rig.client.lose()
    assert [call[0] for call in port.calls] == ["writability_changed", "ack", "lost"], "it gets nothing more"
    assert T.SEND not in [command.type for command in rig.to_broker()], "what came before it is dropped"
    assert len(rig.directory.workers) == 1 + 2, "who has gone joins nothing"
    assert rig.ended == [rig.session]


def test_a_gateway_that_stops_meanwhile_ends_such_a_session_once() -> None:
    """Whatever waits."""
    rig = SessionRig().connect()
    rig.worker(1)
    take_time(rig)
    rig.session.received(b"".join(subscribe(number, number + 100) for number in range(2, MANY)) + ack(1))
    rig.client.takes_last_bytes = False
    rig.session.closed("gone")
    assert rig.ended == []
    rig.session.close()
    rig.clock.settle()
    assert rig.ended == [rig.session]
    assert rig.cause == "shut_down"


def take_time(rig: SessionRig) -> None:
    """Let each SUBSCRIBE take its time."""
    took = rig.directory.subscribe

    def subscribing(link: WorkerLink, command: pb.CommandSubscribe) -> FakeWorkerPort:
        rig.clock.oversleep(PIECE_S)
        return took(link, command)

    rig.directory.subscribe = subscribing  # type: ignore[method-assign]


def test_a_connection_has_a_bound_of_its_own() -> None:
    """One more is refused in the broker's words and counted, without a question to it; who leaves gives its place."""
    rig = SessionRig(Limits(workers_per_connection_max=2), authorize=True).connect()
    for number in (1, 2, 3):
        rig.client.deliver(subscribe(number, 100 + number, topic=f"orders-{number}"))
    (refusal,) = rig.to_client()
    assert (refusal.error.request_id, refusal.error.error) == (103, pb.ConsumerBusy)
    assert refusal.error.message == "Connection reached max consumers limit: 2"
    asked = rig.to_broker()
    assert len(asked) == 2
    assert rig.session.counters.workers_refused_total == 1
    denied = pb.CommandError(request_id=asked[0].subscribe.request_id, error=pb.AuthorizationError, message="no")
    rig.broker.deliver(encode(T.ERROR, denied))
    rig.take_all()
    rig.client.deliver(subscribe(4, 104))
    assert len(rig.to_broker()) == 1


def test_the_brokers_answers_let_workers_in_by_slices() -> None:
    """They come many in one read."""
    rig = SessionRig(authorize=True).connect()
    for number in range(MANY):
        rig.client.deliver(subscribe(number, number + 100, topic=f"orders-{number}"))
    asked = [command.subscribe.request_id for command in rig.to_broker()]
    take_time(rig)
    allowed = [pb.CommandError(request_id=number, error=pb.NotAllowedError, message="odd") for number in asked]
    broker = rig.broker
    broker._receiver.received(b"".join(encode(T.ERROR, error) for error in allowed))
    assert len(rig.directory.workers) == 2
    assert turns(rig.clock, lambda: len(rig.directory.workers) == MANY) > MANY / 4
    assert [port.command.consumer_id for port in rig.directory.workers] == list(range(MANY))


def test_one_answer_that_is_for_many_lets_them_in_by_slices() -> None:
    """All but the first came while it was asked for the place."""
    rig = SessionRig(authorize=True).connect()
    take_time(rig)
    for number in range(MANY):
        rig.client.deliver(subscribe(number, number + 100))
    for _ in range(2):
        (question,) = rig.to_broker()
        allowed = pb.CommandError(request_id=question.subscribe.request_id, error=pb.NotAllowedError, message="odd")
        rig.broker._receiver.received(encode(T.ERROR, allowed))
    assert len(rig.directory.workers) == 2, "a slice has room for two, and the first answer let one in"
    assert turns(rig.clock, lambda: len(rig.directory.workers) == MANY) > MANY / 4
    assert [port.command.consumer_id for port in rig.directory.workers] == list(range(MANY))
    assert rig.to_broker() == []


def test_the_workers_of_a_lost_connection_are_told_by_slices_and_are_sent_nothing_meanwhile() -> None:
    """Whatever the broker sends in between goes to others."""
    rig = SessionRig().connect()
    for number in range(MANY):
        rig.client.deliver(subscribe(number, number + 100))
    ports = rig.directory.workers

    def lost(reason: str, note: Callable[[str], None]) -> None:
        rig.clock.oversleep(PIECE_S)
        note(reason)

    for port in ports:
        port.lost = lambda reason, note=port.lost: lost(reason, note)  # type: ignore[method-assign, misc]
    rig.client._told_closed = True
    rig.session.closed("connection reset by peer")
    assert not any(port.link.writable for port in ports)
    assert sum(bool(port.calls) for port in ports) <= 3
    rig.clock.settle()
    assert [port.calls[-1][0] for port in ports] == ["lost"] * MANY
    assert rig.slices.cut_total > MANY / 4


# ---- one subscription


def test_a_crowd_joins_in_slices_and_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many turns as it takes; who came first is first in every assignment."""
    rig = SubscriptionRig()
    rig.worker("first")
    slow(monkeypatch, rig.clock)
    workers = crowd(rig)
    dispatcher = rig.subscription.state.dispatcher
    # A group is one piece: the clock is asked between groups.
    assert turns(rig.clock, lambda: len(dispatcher.workers) == MANY + 1) >= MANY // GROUP_MAX
    rig.clock.settle()
    assert [worker.answers() for worker in workers] == [[T.SUCCESS]] * MANY
    assert [worker.name for worker in dispatcher.workers.values()][1:] == [f"worker-{n}" for n in range(MANY)]


def test_another_subscriptions_worker_joins_before_the_crowd_is_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """It waits for its turn, and not for the flood's end."""
    rig = SubscriptionRig()
    rig.worker("first")
    slow(monkeypatch, rig.clock)
    workers = crowd(rig)
    other = rig.subscribe("other", subscription="quiet", settle=False)
    turns(rig.clock, lambda: bool(other._commands))
    assert sum(bool(worker._commands) for worker in workers) < MANY / 2


def test_a_crowd_leaves_in_slices_and_its_messages_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is lost with it: what it had goes to who stays, each once, as a redelivery."""
    rig = SubscriptionRig()
    stays = rig.worker("stays", permits=1_000)
    workers = crowd(rig)
    rig.clock.settle()
    for worker in workers:
        worker.flow(10)
    rig.link.deliver(*((entry, single(f"key-{entry}")) for entry in range(MANY)))
    rig.clock.settle()
    had = stays.entries()
    stays.ack(*had)
    slow(monkeypatch, rig.clock)
    for worker in workers:
        worker.gone, worker.writable = True, False
        worker.port.lost("connection reset by peer")
    dispatcher = rig.subscription.state.dispatcher
    assert len(dispatcher.workers) > MANY / 2
    assert turns(rig.clock, lambda: len(dispatcher.workers) == 1) > 1
    rig.clock.settle()
    again = stays.messages()
    assert sorted([*had, *(message.entry for message in again)]) == list(range(MANY))
    assert {message.redeliveries for message in again} == {1}


def test_what_waits_is_settled_once_a_group(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not once for each that joins or leaves: tens of thousands of messages may wait."""
    rig = SubscriptionRig()
    rig.worker("first")
    settled: list[int] = []
    settle = membership.Changes.settle

    def counted(changes: membership.Changes) -> None:
        settled.append(1)
        settle(changes)

    monkeypatch.setattr(membership.Changes, "settle", counted)
    workers = crowd(rig)
    rig.clock.settle()
    assert len(settled) == -(-MANY // GROUP_MAX)
    settled.clear()
    for worker in workers:
        worker.gone = True
        rig.subscriptions.slices.add(lambda _end, worker=worker: bool(worker.port.lost("gone")))  # type: ignore[misc]
    rig.clock.settle()
    assert len(settled) <= 2 + MANY // GROUP_MAX


def test_those_who_wait_may_leave_again_at_once() -> None:
    """None of them joins, and the subscription that nobody is left to join ends."""
    rig = SubscriptionRig()
    rig.link.held.add(T.SUBSCRIBE)
    workers = crowd(rig)
    for worker in workers:
        worker.lose()
    rig.link.answer(T.SUBSCRIBE)
    rig.clock.settle()
    assert rig.count == 0
    assert all(not worker.commands() for worker in workers)


def test_schemas_that_the_broker_is_asked_about_do_not_pass_the_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    """The broker's answers to probes come many in one read, too."""
    rig = SubscriptionRig()
    rig.worker("first")
    workers = [rig.subscribe(f"w-{number}", schema=schema(f"s-{number}"), settle=False) for number in range(MANY)]
    slow(monkeypatch, rig.clock)
    dispatcher = rig.subscription.state.dispatcher
    assert turns(rig.clock, lambda: len(dispatcher.workers) == MANY + 1) >= MANY // GROUP_MAX
    rig.clock.settle()
    assert [worker.answers() for worker in workers] == [[T.SUCCESS]] * MANY


# ---- one command


@pytest.mark.parametrize("split", [False, True], ids=["one-read", "later-read"])
def test_what_a_client_sends_after_a_long_command_waits_for_its_end(
    split: bool,  # noqa: FBT001
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A close that overtook an acknowledgement would give back what the client had acknowledged before."""
    rig = SessionRig().connect()
    port = rig.worker(1)
    done: list[str] = []
    pieces = ["first", "second", "third"]

    def acknowledge(_command: pb.CommandAck) -> None:
        def piece(_end: float) -> bool:
            done.append(pieces.pop(0))
            return bool(pieces)

        port.link.first(piece)

    def close(_request_id: int) -> None:
        done.append("closed")

    monkeypatch.setattr(port, "ack", acknowledge)
    monkeypatch.setattr(port, "close", close)
    long = encode(T.ACK, pb.CommandAck(consumer_id=1, ack_type=pb.CommandAck.Individual))
    closing = encode(T.CLOSE_CONSUMER, pb.CommandCloseConsumer(consumer_id=1, request_id=9))
    for data in (long, closing) if split else (long + closing,):
        rig.session.received(data)
    assert done == []
    assert not rig.client.reading
    turns(rig.clock, lambda: rig.client.reading)
    assert done == ["first", "second", "third", "closed"]
    rig.session.received(closing)
    assert done[4:] == ["closed"]


@pytest.mark.parametrize("count", [IDS_AT_ONCE, 10 * IDS_AT_ONCE])
def test_an_ack_of_very_many_messages_is_applied_in_slices(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A frame has room for half a million; its receipt follows the last of them, and the real ones are acknowledged."""
    rig = SubscriptionRig()
    worker = rig.worker("a", permits=10)
    rig.link.deliver((0, single("k")), (1, single("k")))
    (first, last) = worker.messages()
    original = SubscribedWorker._apply_acks

    def taking(port: SubscribedWorker, places: Sequence[pb.MessageIdData]) -> None:
        rig.clock.oversleep(SLICE_S)
        original(port, places)

    monkeypatch.setattr(SubscribedWorker, "_apply_acks", taking)
    command = pb.CommandAck(consumer_id=worker.consumer_id, ack_type=pb.CommandAck.Individual, request_id=7)
    for entry in (first.entry, *range(1_000, 998 + count), last.entry):
        command.message_id.add(ledgerId=first.ledger, entryId=entry)
    worker.port.ack(command)
    turns(rig.clock, lambda: bool(worker._commands))
    assert not worker.receipt().HasField("error")
    assert rig.subscriptions.slices.cut_total >= count // IDS_AT_ONCE - 2
    assert rig.link.acked() == [(first.ledger, first.entry), (last.ledger, last.entry)]


def test_a_redelivery_of_very_many_messages_is_done_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that the worker has come again, and it takes as many turns as it takes."""
    rig = SubscriptionRig()
    worker = rig.worker("a", permits=10)
    rig.link.deliver((0, single("k")))
    (message,) = worker.messages()
    original = SubscribedWorker._redeliver

    def taking(port: SubscribedWorker, places: Sequence[pb.MessageIdData]) -> None:
        rig.clock.oversleep(SLICE_S)
        original(port, places)

    monkeypatch.setattr(SubscribedWorker, "_redeliver", taking)
    worker.redeliver(*range(1_000, 999 + 10 * IDS_AT_ONCE), message)
    assert [(again.entry, again.redeliveries) for again in worker.messages()] == [(0, 1)]
    assert rig.subscriptions.slices.cut_total >= 8
