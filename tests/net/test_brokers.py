"""The directory of brokers: lookups, redirects, the pool of connections."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from proxy.errors import KeylineError, LimitExceeded, UpstreamError, UpstreamUnavailable
from proxy.net.broker.connection import BrokerConnection
from proxy.net.broker.directory import CHECK_S, OWN_KEEP_ALIVE_S, BrokerProbe, Brokers
from proxy.net.broker.settings import BrokerSettings
from proxy.wire import pulsar_pb2 as pb
from tests.net.broker_fakes import SETTINGS, T, connected, error, lookup_answer, shake_hands, written
from tests.net.fakes import FakeClock, FakeConnector, FakeTransport

TOPIC = "persistent://public/default/orders"
REDIRECT = pb.CommandLookupTopicResponse.Redirect


class Bench:
    """Brokers on a made-up network."""

    def __init__(self, settings: BrokerSettings = SETTINGS, named: Callable[[str], None] = lambda _url: None) -> None:
        self.clock = FakeClock()
        self.connector = FakeConnector(self.clock)
        self.brokers = Brokers(self.connector, self.clock, settings, named)
        self.found: list[object] = []

    def locate(self, topic: str = TOPIC) -> None:
        """Look for a topic; what is found lands in `found`."""
        self.brokers.locate(topic, self.found.append)

    def lookup(self, transport: FakeTransport) -> pb.CommandLookupTopic:
        """Take the one lookup that was sent on this connection."""
        (command,) = written(transport)
        assert command.type == T.LOOKUP
        return command.lookupTopic

    @property
    def addresses(self) -> list[str]:
        """Where connections went, in order."""
        return [attempt.address for attempt in self.connector.attempts]

    def link(self, index: int = -1) -> BrokerConnection:
        """One that was found."""
        link = self.found[index]
        assert isinstance(link, BrokerConnection)
        return link


def test_a_topic_leads_to_a_connection_to_its_broker() -> None:
    """Lookup at the configured broker, then a connection to the one it named."""
    bench = Bench()
    bench.locate()
    one = shake_hands(bench.connector.last)
    lookup = bench.lookup(one)
    assert (lookup.topic, lookup.authoritative) == (TOPIC, False)
    one.deliver(lookup_answer(lookup.request_id, "pulsar://two:6650"))
    assert bench.found == []
    shake_hands(bench.connector.last)
    assert bench.link().target.service_url == "pulsar://two:6650"
    assert bench.addresses == ["pulsar://one:6650", "pulsar://two:6650"]


def test_connections_are_shared_between_topics_and_with_lookups() -> None:
    """What the gateway needs for itself has one connection to a broker."""
    bench = Bench()
    for topic in ("a", "b"):
        bench.locate(topic)
    one = shake_hands(bench.connector.last)
    for command in written(one):
        one.deliver(lookup_answer(command.lookupTopic.request_id, "pulsar://one:6650"))
    assert bench.found[0] is bench.found[1]
    assert bench.addresses == ["pulsar://one:6650"]


def test_a_connection_for_the_gateway_s_own_needs_on_which_nothing_comes_is_replaced_soon() -> None:
    """Leases last 5 s, and are renewed there. On one for deliveries nothing may come for longer."""
    bench = Bench()
    for brokers in (bench.brokers, bench.brokers.deliveries):
        brokers.locate(TOPIC, bench.found.append)
    one = shake_hands(bench.connector.last)
    one.deliver(lookup_answer(bench.lookup(one).request_id, "pulsar://one:6650"))
    delivers = shake_hands(bench.connector.last)
    bench.clock.advance(OWN_KEEP_ALIVE_S + 1)
    assert [command.type for command in written(one)] == [T.PING]
    assert written(delivers) == []
    bench.clock.advance(OWN_KEEP_ALIVE_S)
    assert [transport.aborted for transport in (one, delivers)] == [True, False]


def test_one_lookup_serves_everyone_who_waits_for_the_topic() -> None:
    """A broker that restarts is not asked the same thing a thousand times."""
    bench = Bench()
    for _ in range(3):
        bench.locate()
    one = shake_hands(bench.connector.last)
    one.deliver(lookup_answer(bench.lookup(one).request_id, "pulsar://one:6650"))
    assert len(bench.found) == 3
    assert bench.brokers.statistics().lookups_total == 1


def test_several_connections_per_broker_are_dealt_in_turn() -> None:
    """connections_per_broker=2: of four consumers two get each; lookups have one of their own."""
    bench = Bench(replace(SETTINGS, connections_per_broker=2))
    for topic in "abcd":
        bench.brokers.deliveries.locate(topic, bench.found.append)
    one = shake_hands(bench.connector.last)
    for command in written(one):
        one.deliver(lookup_answer(command.lookupTopic.request_id, "pulsar://two:6650"))
    for attempt in bench.connector.attempts[1:]:
        shake_hands(attempt)
    assert bench.addresses == ["pulsar://one:6650"] + ["pulsar://two:6650"] * 2
    assert [bench.found.count(link) for link in set(bench.found)] == [2, 2]


def test_redirects_are_followed_with_their_authority() -> None:
    """A redirect names a broker that may know better, and says whether it must."""
    bench = Bench()
    bench.locate()
    one = shake_hands(bench.connector.last)
    one.deliver(lookup_answer(bench.lookup(one).request_id, "pulsar://two:6650", response=REDIRECT, authoritative=True))
    two = shake_hands(bench.connector.last)
    lookup = bench.lookup(two)
    assert lookup.authoritative
    two.deliver(lookup_answer(lookup.request_id, "pulsar://two:6650"))
    assert bench.link().target.service_url == "pulsar://two:6650"


def test_a_lookup_asks_for_the_addresses_of_the_configured_listener() -> None:
    """For a gateway that does not reach those which brokers give to each other."""
    bench = Bench(replace(SETTINGS, listener_name="outside"))
    bench.locate()
    assert bench.lookup(shake_hands(bench.connector.last)).advertised_listener_name == "outside"


def test_a_broker_that_a_lookup_leads_to_is_named_and_one_behind_a_proxy_is_not() -> None:
    """What a proxy calls its broker is no address to dial from here."""
    named: list[str] = []
    bench = Bench(named=named.append)
    bench.locate("a")
    one = shake_hands(bench.connector.last)
    one.deliver(lookup_answer(bench.lookup(one).request_id, "pulsar://two:6650"))
    assert named == ["pulsar://two:6650"]
    bench.locate("b")
    answer = lookup_answer(bench.lookup(one).request_id, "pulsar://localhost:6650", proxy_through_service_url=True)
    one.deliver(answer)
    assert named == ["pulsar://two:6650"]


def test_a_redirect_loop_ends_after_ten_hops() -> None:
    """Ownership may move while we ask; it may not keep us asking."""
    bench = Bench()
    bench.locate()
    one = shake_hands(bench.connector.last)
    hops = 0
    while not bench.found:
        lookup = bench.lookup(one)
        one.deliver(lookup_answer(lookup.request_id, "pulsar://one:6650", response=REDIRECT))
        hops += 1
    assert hops == 11
    assert isinstance(bench.found[0], UpstreamUnavailable)
    assert "redirected more than 10 times" in str(bench.found[0])


def test_a_proxy_is_asked_to_forward_to_the_broker_it_named() -> None:
    """proxy_through_service_url: connect to the service URL again and say which broker is meant."""
    bench = Bench()
    bench.locate()
    one = shake_hands(bench.connector.last)
    one.deliver(lookup_answer(bench.lookup(one).request_id, "pulsar://broker-3:6651", proxy_through_service_url=True))
    assert bench.addresses == ["pulsar://one:6650", "pulsar://one:6650"]
    transport = bench.connector.last.accept()
    assert written(transport)[0].connect.proxy_to_broker_url == "broker-3:6651"
    transport.deliver(connected())
    assert bench.link().target.proxy_to_broker_url == "broker-3:6651"


def test_a_tls_service_url_takes_the_brokers_tls_address() -> None:
    """Encryption is never dropped on the way."""
    bench = Bench(replace(SETTINGS, service_urls=("pulsar+ssl://one:6651",)))
    bench.locate()
    one = shake_hands(bench.connector.last)
    one.deliver(
        lookup_answer(bench.lookup(one).request_id, "pulsar://two:6650", brokerServiceUrlTls="pulsar+ssl://two:6651")
    )
    assert bench.addresses[-1] == "pulsar+ssl://two:6651"


def test_a_broker_without_the_wanted_address_is_unavailable() -> None:
    """A plain URL is no way to a broker that listens with TLS only."""
    bench = Bench()
    bench.locate()
    one = shake_hands(bench.connector.last)
    one.deliver(lookup_answer(bench.lookup(one).request_id, ""))
    assert "no plain address" in str(bench.found[0])


def test_the_brokers_refusal_is_passed_on() -> None:
    """E.g. an unknown tenant: its code and words reach the caller, and no other broker is bothered."""
    bench = Bench(replace(SETTINGS, service_urls=("pulsar://one:6650", "pulsar://two:6650")))
    bench.locate()
    one = shake_hands(bench.connector.last)
    one.deliver(error(bench.lookup(one).request_id, pb.TopicNotFound, "no such tenant"))
    (refusal,) = bench.found
    assert isinstance(refusal, UpstreamError)
    assert refusal.wire_code == pb.TopicNotFound
    assert bench.addresses == ["pulsar://one:6650"]


def test_configured_brokers_are_tried_in_turn() -> None:
    """The first that can be reached answers."""
    bench = Bench(replace(SETTINGS, service_urls=("pulsar://one:6650", "pulsar://two:6650")))
    bench.locate()
    bench.connector.last.refuse()
    two = shake_hands(bench.connector.last)
    two.deliver(lookup_answer(bench.lookup(two).request_id, "pulsar://two:6650"))
    assert bench.link().target.service_url == "pulsar://two:6650"


def test_when_no_configured_broker_can_be_reached_the_error_names_all() -> None:
    """Retrying is the caller's business; the next attempt begins elsewhere."""
    bench = Bench(replace(SETTINGS, service_urls=("pulsar://one:6650", "pulsar://two:6650")))
    bench.locate()
    bench.connector.last.refuse("connection refused")
    bench.connector.last.refuse("no route to host")
    (failure,) = bench.found
    assert isinstance(failure, UpstreamUnavailable)
    assert "pulsar://one:6650" in str(failure)
    assert "no route to host" in str(failure)
    bench.found.clear()
    bench.locate()
    assert bench.addresses[-1] == "pulsar://two:6650"


def test_a_broker_that_cannot_be_connected_after_the_lookup_is_unavailable() -> None:
    """The lookup may name a broker that just died."""
    bench = Bench()
    bench.locate()
    one = shake_hands(bench.connector.last)
    one.deliver(lookup_answer(bench.lookup(one).request_id, "pulsar://two:6650"))
    bench.connector.last.refuse()
    assert isinstance(bench.found[0], UpstreamUnavailable)


def test_a_lost_connection_is_opened_anew_for_the_next() -> None:
    """Nobody is handed a dead link, not even one who asks while being told of the loss."""
    bench = Bench()
    bench.locate()
    one = shake_hands(bench.connector.last)
    one.deliver(lookup_answer(bench.lookup(one).request_id, "pulsar://one:6650"))
    again: list[object] = []
    bench.link().request(lambda _id: b"", lambda _reply: bench.brokers.locate(TOPIC, again.append))
    one.lose()
    assert len(bench.connector.attempts) == 2
    one = shake_hands(bench.connector.last)
    one.deliver(lookup_answer(bench.lookup(one).request_id, "pulsar://one:6650"))
    assert again[0] is not bench.link()


def test_too_many_lookups_at_once_are_refused() -> None:
    """The queue has a bound, and the caller is told in a later turn."""
    bench = Bench(replace(SETTINGS, lookups_max=1))
    bench.brokers.locate("a", bench.found.append)
    bench.brokers.locate("b", bench.found.append)
    assert bench.found == []
    bench.clock.settle()
    assert isinstance(bench.found[0], LimitExceeded)


def test_check_connects_and_tells_whether_that_worked() -> None:
    """What readiness rests on."""
    bench = Bench()
    told: list[KeylineError | None] = []
    bench.brokers.check(told.append)
    bench.connector.last.refuse()
    assert isinstance(told[0], UpstreamUnavailable)
    bench.brokers.check(told.append)
    shake_hands(bench.connector.last)
    assert told[1] is None
    bench.brokers.check(told.append)
    bench.clock.settle()
    assert told[2] is None
    assert len(bench.connector.attempts) == 2


def test_close_ends_connections_and_lookups_and_refuses_new_ones() -> None:
    """After close nothing is connected again."""
    bench = Bench(replace(SETTINGS, service_urls=("pulsar://one:6650", "pulsar://two:6650")))
    gone: list[str] = []
    bench.locate()
    transport = bench.connector.last.accept()
    bench.brokers.close(lambda: gone.append("gone"))
    assert gone == []
    bench.locate("other")
    bench.clock.settle()
    assert transport.closing
    assert gone == ["gone"]
    assert [type(found) for found in bench.found] == [UpstreamUnavailable] * 2
    assert len(bench.connector.attempts) == 1
    assert not any(bench.brokers.statistics().connections.values())


def test_statistics_count_every_connection() -> None:
    """Frozen, and about connections that are being opened as well."""
    bench = Bench()
    bench.locate()
    statistics = bench.brokers.statistics()
    assert statistics.connections == {"connecting": 1, "handshake": 0, "ready": 0, "lost": 0}


def test_close_without_connections_is_done_at_once() -> None:
    """Nothing is left to wait for."""
    gone: list[str] = []
    Bench().brokers.close(lambda: gone.append("gone"))
    assert gone == ["gone"]


def test_the_probe_asks_again_and_keeps_the_last_answer() -> None:
    """Readiness follows the broker, down and up again."""
    bench = Bench()
    probe = BrokerProbe(bench.brokers, bench.clock)
    reasons = [probe.unreachable_because]
    probe.start()
    bench.connector.last.refuse("connection refused")
    reasons.append(probe.unreachable_because)
    bench.clock.advance(CHECK_S)
    transport = shake_hands(bench.connector.last)
    reasons.append(probe.unreachable_because)
    transport.lose("reset")
    bench.clock.advance(CHECK_S)
    bench.connector.last.refuse("no route to host")
    reasons.append(probe.unreachable_because)
    probe.stop()
    bench.clock.advance(10 * CHECK_S)
    assert len(bench.connector.attempts) == 3
    assert [str(reason).rpartition(": ")[2] for reason in reasons] == [
        "no broker was reached yet",
        "connection refused",
        "None",
        "no route to host",
    ]


def test_what_the_gateway_needs_answered_shares_no_connection_with_what_may_stop_or_end_one() -> None:
    """Each is read and written while another is not; one lookup serves all, and all are counted and closed together."""
    bench = Bench()
    for brokers in (bench.brokers, bench.brokers.deliveries, bench.brokers.diversions, bench.brokers.elections):
        brokers.locate(TOPIC, bench.found.append)
    one = shake_hands(bench.connector.last)
    one.deliver(lookup_answer(bench.lookup(one).request_id, "pulsar://one:6650"))
    assert bench.addresses == ["pulsar://one:6650"] * 4
    others = [shake_hands(attempt) for attempt in bench.connector.attempts[1:]]
    own, delivers, diverts, elects = bench.found
    assert len({own, delivers, diverts, elects}) == 4
    bench.link(1).pause_reading(bench)
    assert [transport.reading for transport in (one, *others)] == [True, False, True, True]
    statistics = bench.brokers.statistics()
    assert (statistics.lookups_total, statistics.connections["ready"]) == (1, 4)
    bench.brokers.deliveries.locate("another", bench.found.append)
    one.deliver(lookup_answer(bench.lookup(one).request_id, "pulsar://one:6650"))
    assert bench.found[-1] is delivers, "a topic is found while deliveries are not read"
    gone: list[bool] = []
    bench.brokers.close(lambda: gone.append(True))
    assert gone == []
    bench.clock.settle()
    assert gone == [True]
    assert not any(bench.brokers.statistics().connections.values())
    for brokers in (bench.brokers, bench.brokers.deliveries, bench.brokers.diversions, bench.brokers.elections):
        brokers.locate(TOPIC, bench.found.append)
    bench.clock.settle()
    assert [type(found) for found in bench.found[-4:]] == [UpstreamUnavailable] * 4
