"""Which brokers a gateway knows, how long, and how many."""

from __future__ import annotations

from structlog.testing import capture_logs

from proxy.net.broker.names import LOG_EVERY_S, NAMED_FOR_S, SHOWN_CHARACTERS_MAX, BrokerNames
from proxy.service_url import parse_service_url
from tests.net.fakes import FakeClock

CONFIGURED = "pulsar://broker-0:6650"


def names(clock: FakeClock | None = None, names_max: int = 3) -> BrokerNames:
    """Of a gateway in front of one broker."""
    return BrokerNames([parse_service_url(CONFIGURED)], clock or FakeClock(), names_max)


def knows(known: BrokerNames, place: str) -> bool:
    """Whether a client that says so in CONNECT may be taken there."""
    return known.knows(parse_service_url(place))


def test_only_what_is_configured_is_known_at_the_start() -> None:
    """Host and port both count."""
    known = names()
    assert knows(known, "broker-0:6650")
    assert not knows(known, "broker-0:22")
    assert not knows(known, "broker-1:6650")
    assert not knows(known, "broker-0.:6650")


def test_a_broker_is_known_when_a_lookup_was_answered_with_it() -> None:
    """Host names have no case, and what scheme they are dialled with is the gateway's matter."""
    known = names()
    known.add("pulsar+ssl://Broker-1.cluster.local:6651")
    assert knows(known, "broker-1.CLUSTER.local:6651")
    assert not knows(known, "broker-1.cluster.local:6650")
    known.add("pulsar://[2001:db8::1]:6650")
    assert knows(known, "[2001:db8::1]:6650")


def test_what_is_no_address_names_nothing() -> None:
    """A broker's odd answer is not the client's trouble."""
    known = names()
    for answer in ("", "http://broker-1:80", "broker-1:0", "pulsar://a@broker-1:6650", "pulsar://[::1"):
        known.add(answer)
    assert len(known._named_at) == 0


def test_a_name_is_forgotten_unless_it_is_confirmed() -> None:
    """The address of a pod that has gone is soon another's."""
    clock = FakeClock()
    known = names(clock)
    known.add("broker-1:6650")
    known.add("broker-2:6650")
    clock.advance(NAMED_FOR_S - 1)
    known.add("broker-2:6650")
    assert knows(known, "broker-1:6650")
    clock.advance(1)
    assert not knows(known, "broker-1:6650")
    assert knows(known, "broker-2:6650")
    clock.advance(NAMED_FOR_S)
    assert knows(known, "broker-0:6650")


def test_there_is_room_for_so_many_and_the_one_unconfirmed_for_longest_goes_first() -> None:
    """Memory is bounded, and a broker that is looked up stays."""
    known = names(names_max=3)
    for number in range(1, 4):
        known.add(f"broker-{number}:6650")
    known.add("broker-1:6650")
    known.add("broker-4:6650")
    assert len(known._named_at) == 3
    assert [knows(known, f"broker-{number}:6650") for number in range(5)] == [True, True, False, True, True]


def test_refusals_fill_no_log_however_many_there_are() -> None:
    """One line in a while, which counts the others, and no longer than needed."""
    clock = FakeClock()
    known = names(clock)
    with capture_logs() as lines:
        for _ in range(1000):
            known.refused("x" * 100_000, "192.0.2.7:40000", "no lookup names it")
        clock.advance(LOG_EVERY_S)
        known.refused("10.0.0.1:22", "192.0.2.7:40000", "no lookup names it")
    assert [line["refused_since_last_line"] for line in lines] == [1, 1000]
    assert [len(line["asked_for"]) for line in lines] == [SHOWN_CHARACTERS_MAX, len("10.0.0.1:22")]
