"""Workers of a replica in a group: they come in whether there is a stream or not, and cannot speak for the others."""

from __future__ import annotations

import pytest

from proxy.errors import UpstreamUnavailable
from proxy.wire import pulsar_pb2 as pb
from tests.net.stream_rig import GroupRig, StreamEar, StreamRig, subscribes
from tests.net.subscription_rig import schema, sticky
from tests.net.subscription_rig_broker import T

BUSY = (pb.ConsumerBusy, "Exclusive consumer is already connected")


def test_a_worker_comes_in_without_any_stream() -> None:
    """The broker judges it by a probe, which creates the subscription if there is none and leaves at once."""
    rig = GroupRig()
    worker = rig.subscribe("a")
    assert worker.answers() == [T.SUCCESS]
    (probe,) = rig.link.sent(T.SUBSCRIBE)
    assert probe.subscribe.subType == pb.CommandSubscribe.Exclusive
    (closed,) = rig.link.sent(T.CLOSE_CONSUMER)
    assert closed.close_consumer.consumer_id == probe.subscribe.consumer_id
    assert rig.link.consumers == {}
    assert rig.link.sent(T.FLOW) == []
    shown = rig.statistics().subscriptions[0]
    assert (shown.upstream_state, shown.upstream_connects, shown.upstream_permits) == ("ready", 0, 0)


def test_a_probe_that_finds_other_replicas_connected_is_a_yes() -> None:
    """They keep an exclusive consumer out, after its schema was found compatible."""
    rig = GroupRig()
    rig.link.refusals[T.SUBSCRIBE] = BUSY
    assert rig.subscribe("a").answers() == [T.SUCCESS]


def test_what_the_broker_has_judged_is_not_asked_again() -> None:
    """One that brings another schema is, on the connection of a stream if there is one."""
    rig = StreamRig(0)
    assert rig.subscribe("b").answers() == [T.SUCCESS]
    asked = rig.brokers.locates
    assert rig.subscribe("c", schema=schema("v2")).answers() == [T.SUCCESS]
    assert len(rig.link.sent(T.SUBSCRIBE)) == 3, "two probes and the stream"
    assert rig.brokers.locates == asked


def test_one_probe_serves_a_crowd() -> None:
    """A replica that starts gets all of its workers at once."""
    rig = GroupRig()
    crowd = [rig.subscribe(settle=False) for _ in range(5)]
    rig.clock.settle()
    assert [worker.answers() for worker in crowd] == [[T.SUCCESS]] * 5
    assert len(rig.link.sent(T.SUBSCRIBE)) == 1
    assert rig.brokers.locates == 1


def test_a_worker_that_the_broker_does_not_want_gets_its_words_as_do_those_alike() -> None:
    """Others come in; what the broker refused is what no stream is made of."""
    rig = GroupRig()
    rig.link.held.add(T.SUBSCRIBE)
    bad = [rig.subscribe(schema=schema("bad")) for _ in range(2)]
    good = rig.subscribe(schema=schema("good"))
    rig.link.refuse(T.SUBSCRIBE, pb.IncompatibleSchema, "incompatible")
    assert [worker.error() for worker in bad] == [(pb.IncompatibleSchema, "incompatible")] * 2
    rig.link.answer(T.SUBSCRIBE)
    assert good.answers() == [T.SUCCESS]
    rig.link.held.clear()
    rig.subscription.open_stream(0, 0, 9, StreamEar())
    rig.clock.settle()
    (command,) = subscribes(rig.link)
    assert command.schema.name == "good"


def test_a_first_worker_that_is_refused_leaves_nothing() -> None:
    """By the broker's word, or because no broker can be found."""
    rig = GroupRig()
    rig.link.refusals[T.SUBSCRIBE] = (pb.AuthorizationError, "not for you")
    assert rig.subscribe("a").error() == (pb.AuthorizationError, "not for you")
    assert rig.count == 0
    rig.brokers.error = UpstreamUnavailable("no broker could be reached")
    code, text = rig.subscribe("a").error()
    assert (code, text) == (pb.ServiceNotReady, "no broker could be reached")
    assert rig.count == 0


@pytest.mark.parametrize("moment", ["lookup", "probe"])
def test_a_first_worker_that_leaves_meanwhile_leaves_nothing(moment: str) -> None:
    """What was asked for it is answered to nobody."""
    rig = GroupRig()
    rig.brokers.held = moment == "lookup"
    rig.link.held.add(T.SUBSCRIBE)
    worker = rig.subscribe("a")
    worker.close()
    if moment == "lookup":
        rig.brokers.found()
        assert rig.link.log == []
    else:
        rig.link.answer(T.SUBSCRIBE)
        assert len(rig.link.sent(T.CLOSE_CONSUMER)) == 1
    rig.clock.advance(60)
    assert worker.answers() == [T.SUCCESS]
    assert rig.count == 0


def test_workers_that_wait_hear_of_the_gateways_stop() -> None:
    """They find another replica; a late answer is of no interest."""
    rig = GroupRig()
    rig.brokers.held = True
    worker = rig.subscribe("a")
    rig.subscriptions.close()
    assert worker.error()[0] == pb.ServiceNotReady
    rig.brokers.found()
    rig.clock.advance(60)
    assert rig.link.log == []


# ---- what is refused -------------------------------------------------------------------------------------------------


def test_a_worker_cannot_have_ranges_of_its_own() -> None:
    """The first one and any later one: ranges are leased to replicas."""
    rig = GroupRig()
    code, text = rig.subscribe("a", keySharedMeta=sticky((0, 9))).error()
    assert code == pb.NotAllowedError
    assert "leased to replicas, not to workers; use AUTO_SPLIT" in text
    assert rig.count == 0
    rig.worker("b")
    assert rig.subscribe("a", keySharedMeta=sticky((0, 9))).error() == (code, text)


@pytest.mark.parametrize("streams", [(), (0,)])
def test_a_worker_cannot_move_the_cursor_of_all_replicas(streams: tuple[int, ...]) -> None:
    """It is told what to do instead; nothing reaches the broker and nobody is disconnected."""
    rig = StreamRig(*streams)
    rig.first.seek(3)
    code, text = rig.first.error()
    assert code == pb.NotAllowedError
    assert text.startswith("a replica in a group cannot seek on its own: ")
    assert "keyline replay" in text
    assert rig.link.sent(T.SEEK) == []


@pytest.mark.parametrize("force", [False, True])
def test_a_worker_cannot_delete_the_subscription_of_all_replicas(force: bool) -> None:  # noqa: FBT001 - a parameter
    """Forced or not, alone at this replica or not."""
    rig = StreamRig(0)
    rig.first.unsubscribe(force=force)
    code, text = rig.first.error()
    assert code == pb.NotAllowedError
    assert text.startswith("a replica in a group cannot unsubscribe on its own: ")
    assert rig.link.sent(T.UNSUBSCRIBE) == []
    assert rig.count == 1


def test_the_last_message_id_is_asked_by_any_stream() -> None:
    """Without one the worker is told to try again; it is the topic's, not the stream's."""
    rig = StreamRig()
    rig.first.ask_last_message_id(51)
    code, text = rig.first.error()
    assert code == pb.ServiceNotReady
    assert text == "no stream of this group is at this replica now, so the broker cannot be asked; try again"
    rig.open(2)
    rig.first.ask_last_message_id(52)
    (answer,) = rig.first.commands()
    assert answer.getLastMessageIdResponse.request_id == 52
    rig.link.held.add(T.SUBSCRIBE)
    rig.link.close_consumer(rig.consumer_id(2))
    rig.first.ask_last_message_id(53)
    assert rig.first.error()[0] == pb.ServiceNotReady


def test_a_non_durable_worker_is_refused() -> None:
    """Its subscription would end at each hand-over."""
    code, text = GroupRig().subscribe("a", durable=False).error()
    assert code == pb.NotAllowedError
    assert text.endswith("subscribe durably")
