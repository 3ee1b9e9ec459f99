"""Metrics as Prometheus reads them, from a gateway whose clients, brokers and clock are the test's."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from prometheus_client import Metric
from prometheus_client.openmetrics import parser as openmetrics_parser
from prometheus_client.parser import text_string_to_metric_families as parse_text

from admin_api.metrics import families
from admin_api.metrics.exposition import ROWS_AT_ONCE, exposition, gather
from admin_api.metrics.formats import OPENMETRICS, TEXT, wanted
from admin_api.metrics.text import MetricsText
from admin_api.routes.metrics import metrics_routes
from admin_api.turns import TURN_S, Turns
from proxy.app.collector import Collector
from proxy.app.listener import GatewayServer
from proxy.limits import Limits
from proxy.net.broker.directory import Brokers
from proxy.net.broker.names import BrokerNames
from proxy.net.broker.settings import BrokerSettings
from proxy.net.group.groups import Groups
from proxy.net.group.settings import GroupSettings
from proxy.net.session.services import SessionServices
from proxy.net.session.sessions import Sessions
from proxy.net.session.settings import SessionSettings
from proxy.net.subscription.upstream import UpstreamState
from proxy.service_url import parse_service_url
from proxy.views.metrics import CertificatesSummary, MetricsSource
from proxy.wire import pulsar_pb2 as pb
from tests.admin_api.shared_app import SharedApp
from tests.net.assignment_rig import NoBrokers
from tests.net.fakes import FakeConnector, FakeTransport
from tests.net.producer_rig import TOPIC as PRIMARY
from tests.net.producer_rig import error, ready, want
from tests.net.session_rig import SessionRig, new_elections
from tests.net.subscription_rig import SubscriptionRig, Worker
from tests.net.subscription_rig_broker import TOPIC, batch, single

DOCS = Path(__file__).parents[2] / "docs/metrics.md"
BROKER = "pulsar://192.0.2.1:6650"
AS_PROMETHEUS_ASKS = (
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,"
    "application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=1.0.0;q=0.3,text/plain;version=0.0.4;q=0.2"
)
ALL_FAMILIES = (
    *families.GATEWAY,
    *families.TOPIC,
    *families.GROUP,
    *families.DURATIONS,
    *families.SUBSCRIPTION,
    *families.WORKER,
    *families.PULSAR_SUBSCRIPTION,
    *families.PULSAR_CONSUMER,
)
NAME = re.compile(r"(keyline_(gateway|deployment|topic|group|subscription|worker|contract)|pulsar)(_[a-z]+)+")
EVERYTHING: dict[str, Any] = {"workers_max": 1_000, "pulsar_names": True}

Numbers = dict[tuple[str, frozenset[tuple[str, str]]], float]


@pytest.fixture(autouse=True)
def _new_applications() -> None:
    """What one keeps is looked at here."""
    SharedApp.forget()


def parse_openmetrics(text: str) -> Iterator[Metric]:
    """As `parse_text`."""
    return openmetrics_parser.text_string_to_metric_families(text)  # type: ignore[no-untyped-call, no-any-return]


class Gateway:
    """Everything that counts in a gateway, and its `/metrics`."""

    def __init__(self, limits: Limits | None = None, **settings: object) -> None:
        """Nobody is connected."""
        self.rig = SubscriptionRig(**settings)
        self.clock = self.rig.clock
        self.subscriptions = self.rig.subscriptions
        self.limits = limits or Limits()
        connector = FakeConnector(self.clock)
        session_settings = SessionSettings((parse_service_url(BROKER),), authorize_workers=False)
        self.elections = new_elections(self.clock, self.subscriptions.events)
        names = BrokerNames(session_settings.brokers, self.clock)
        self.sessions = Sessions(
            SessionServices(
                connector,
                self.clock,
                self.subscriptions,
                self.elections,
                names,
                session_settings,
                self.limits,
                self.subscriptions.slices,
            )
        )
        self.brokers = Brokers(connector, self.clock, BrokerSettings((BROKER,), "test"))
        self.collector = Collector(self.clock, lambda: 0, lambda: 0)
        self.groups = Groups(
            "here-1", NoBrokers(), self.clock, GroupSettings(groups_enabled=True, groups_mode="streams")
        )
        self.reasons: list[str] = []

    def source(self) -> MetricsSource:
        """In a running loop, as the gateway's own."""
        server = GatewayServer(self.sessions, self.limits, asyncio.get_running_loop())
        return MetricsSource(
            "1.2.3",
            "compiled",
            lambda: self.reasons,
            server.statistics,
            self.subscriptions,
            self.elections,
            self.brokers,
            lambda: self.collector.collections_total,
            self.groups,
            certificates=lambda: CertificatesSummary({"clients": 1_800_000_000.0}, well=True, reloads=2),
        )

    def get(
        self,
        accept: str = "",
        *,
        workers_max: int = 0,
        pulsar_names: bool = False,
        histograms: families.Histograms = "subscription",
        headers: dict[str, str] | None = None,
    ) -> httpx.Response:
        """Scrape."""

        async def ask() -> httpx.Response:
            app = FastAPI()
            text = MetricsText(self.source(), workers_max=workers_max, pulsar_names=pulsar_names, histograms=histograms)
            app.include_router(metrics_routes(text))
            transport = httpx.ASGITransport(app=app)
            async with httpx.AsyncClient(transport=transport, base_url="http://gateway") as client:
                return await client.get("/metrics", headers={"accept": accept} | (headers or {}))

        answer = asyncio.run(ask())
        assert answer.status_code == 200
        return answer

    def families(self, **options: Any) -> list[Metric]:
        """Scrape and parse as text."""
        return list(parse_text(self.get(**options).text))

    def numbers(self, **options: Any) -> Numbers:
        """Every sample; a second one with the same name and labels is an error, as it is for Prometheus."""
        return numbers_of(self.families(**options))


def numbers_of(metrics: list[Metric]) -> Numbers:
    """By name and labels."""
    found: Numbers = {}
    for metric in metrics:
        for sample in metric.samples:
            key = (sample.name, frozenset(sample.labels.items()))
            assert key not in found, key
            found[key] = sample.value
    return found


def of(numbers: Numbers, name: str, **labels: str) -> float:
    """The one number of this name with these labels among its own."""
    (found,) = [
        value for (known, held), value in numbers.items() if known == name and labels.items() <= dict(held).items()
    ]
    return found


def driven(gateway: Gateway) -> tuple[Worker, Worker]:
    """Two workers, of whom the second came later; something of everything has happened."""
    rig = gateway.rig
    drive_producers(gateway)
    first = rig.worker("a", permits=50)
    keys = [f"key-{number}" for number in range(40)]
    rig.link.deliver(*[(entry, single(key)) for entry, key in enumerate(keys)])
    rig.clock.advance(0.5)
    second = rig.worker("b")
    moved = keys.index(rig.key_for("b"))
    rig.link.deliver((40, single(keys[moved])), (41, batch([(rig.key_for("a"), b"0"), (rig.key_for("b", 1), b"1")])))
    rig.clock.advance(2)
    first.ack(moved)
    first.ack(99)
    first.redeliver((moved + 1) % 40)
    rig.clock.advance(4)
    second.flow(1)
    gateway.groups.new_assignment(rig.subscription).workers_changed(2)
    return first, second


def drive_producers(gateway: Gateway) -> None:
    """One owned its topic, went and was fenced when it came back; one waited for a second and owns it; one waits."""
    owner, second, third = (SessionRig(clock=gateway.clock, elections=gateway.elections).connect() for _ in range(3))
    owner.client.deliver(want(1, 9, name="owner"))
    owner.broker.deliver(ready(1, name="owner", epoch=3))
    second.client.deliver(want(2, -4))
    third.client.deliver(want(3, -5))
    owner.client.lose()
    gateway.clock.advance(1)
    second.broker.deliver(error(2, pb.ProducerFenced))
    third.broker.deliver(ready(3, name="third", epoch=4))
    fourth = SessionRig(clock=gateway.clock, elections=gateway.elections).connect()
    fourth.client.deliver(want(4))


# ---- the formats -----------------------------------------------------------------------------------------------------


def test_both_formats_parse_and_tell_the_same() -> None:
    """By prometheus-client's own parsers; of the process's numbers only which there are."""
    gateway = Gateway()
    driven(gateway)
    text = numbers_of(list(parse_text(gateway.get(**EVERYTHING).text)))
    answer = gateway.get(AS_PROMETHEUS_ASKS, **EVERYTHING)
    openmetrics = numbers_of(list(parse_openmetrics(answer.text)))
    assert answer.text.endswith("\n# EOF\n")
    assert text.keys() == openmetrics.keys()
    changing = ("process_", "python_")
    assert {key: value for key, value in text.items() if not key[0].startswith(changing)} == {
        key: value for key, value in openmetrics.items() if not key[0].startswith(changing)
    }


def test_who_asks_for_openmetrics_gets_it_and_everybody_else_text() -> None:
    """Whatever else the header says; a version that is none is no error."""
    assert wanted(AS_PROMETHEUS_ASKS) is OPENMETRICS
    assert wanted("Application/OpenMetrics-Text; version=later") is OPENMETRICS
    for accept in ("", "*/*", "text/html,application/xhtml+xml;q=0.9,*/*;q=0.8", "text/plain;version=x", ";,;"):
        assert wanted(accept) is TEXT
    gateway = Gateway()
    assert gateway.get().headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    answer = gateway.get(AS_PROMETHEUS_ASKS)
    assert answer.headers["content-type"] == "application/openmetrics-text; version=1.0.0; charset=utf-8"


def test_who_takes_gzip_gets_it() -> None:
    """The same text in a tenth of the bytes; httpx unpacks it."""
    gateway = Gateway()
    driven(gateway)
    plain = gateway.get(headers={"accept-encoding": "identity"})
    packed = gateway.get(headers={"accept-encoding": "deflate, gzip"})
    assert "content-encoding" not in plain.headers
    assert packed.headers["content-encoding"] == "gzip"
    assert packed.headers["vary"] == "Accept, Accept-Encoding"
    assert [line for line in packed.text.split("\n") if line.startswith("keyline_")] == [
        line for line in plain.text.split("\n") if line.startswith("keyline_")
    ]


@pytest.mark.parametrize("accept", ["text/plain", AS_PROMETHEUS_ASKS])
def test_names_with_any_characters_are_told_as_they_are(accept: str) -> None:
    """Quotes, backslashes, line ends, braces, what stands for a label's place in a template, other alphabets."""
    gateway = Gateway()
    name, worker = 'a{0}\\\n"\x01\x02 {1}\\n', 'ü "%s" {topic} \x05'
    gateway.rig.worker(worker, subscription=name)
    parse = parse_openmetrics if accept == AS_PROMETHEUS_ASKS else parse_text
    found = numbers_of(list(parse(gateway.get(accept, **EVERYTHING).text)))
    labels = {"topic": TOPIC, "subscription": name}
    assert of(found, "keyline_subscription_workers", **labels) == 1
    assert of(found, "keyline_worker_connected", **labels, worker=worker) == 1
    assert of(found, "pulsar_subscription_consumers_count", **labels, namespace="public/default") == 1


# ---- names and labels ------------------------------------------------------------------------------------------------


def test_names_follow_prometheus() -> None:
    """One prefix, `_total` on counters and on nothing else, the unit at the end, none of the suffixes it reserves."""
    for family in ALL_FAMILIES:
        assert re.fullmatch(
            r"(keyline_(gateway|deployment|topic|group|subscription|worker|contract)|pulsar)(_[a-z]+)+", family.name
        ), family.name
        assert family.name.endswith("_total") == (family.kind == "counter")
        base = family.name.removesuffix("_total")
        ends = next((unit for unit in ("seconds", "bytes", "ratio") if base.endswith(f"_{unit}")), "")
        assert family.unit == ends, family.name
        if not family.name.startswith("pulsar_"):
            assert not base.endswith(("_count", "_sum", "_bucket", "_info", "_created"))
        assert family.documentation.endswith(".")
    bases = [family.name.removesuffix("_total") for family in ALL_FAMILIES]
    assert len(set(bases)) == len(bases), "OpenMetrics takes a gauge and a counter of one name for one family"


def test_every_family_is_shown_with_its_kind_and_its_words() -> None:
    """Once each, whatever there is to be told."""
    gateway = Gateway()
    driven(gateway)
    shown = {metric.name: metric for metric in gateway.families(**EVERYTHING)}
    for family in ALL_FAMILIES:
        metric = shown[family.name.removesuffix("_total")]
        assert (metric.type, metric.documentation) == (family.kind, family.documentation)
        assert metric.samples


def test_no_label_is_a_key_or_anything_else_without_bound() -> None:
    """Of topics, subscriptions and workers there are so many; every other label has a few values."""
    gateway = Gateway()
    driven(gateway)
    ours = {"topic", "subscription", "worker", "le", "state", "cause", "kind", "version", "build", "certificate"}
    for metric in gateway.families(**EVERYTHING):
        labels = {label for sample in metric.samples for label in sample.labels}
        if metric.name.startswith("keyline_"):
            assert labels <= ours, metric.name
        elif metric.name.startswith("pulsar_"):
            assert labels <= {"namespace", "topic", "subscription", "consumer_name"}, metric.name
        else:
            assert metric.name.startswith(("process_", "python_gc_"))


def test_the_docs_list_every_metric_as_it_is() -> None:
    """By name, kind, labels and meaning."""
    rows = {
        cells[0].strip("`"): cells[1:]
        for line in DOCS.read_text(encoding="utf-8").split("\n")
        if line.startswith("| `") and len(cells := [cell.strip() for cell in line.strip("|").split("|")]) == 4
    }
    levels = (
        (families.GATEWAY, ()),
        (families.TOPIC, families.TOPIC_LABELS),
        (families.GROUP, families.SUBSCRIPTION_LABELS),
        (families.DURATIONS, families.SUBSCRIPTION_LABELS),
        (families.SUBSCRIPTION, families.SUBSCRIPTION_LABELS),
        (families.WORKER, families.WORKER_LABELS),
        (families.BLAMED, families.WORKER_LABELS),
        (families.PULSAR_SUBSCRIPTION, families.PULSAR_SUBSCRIPTION_LABELS),
        (families.PULSAR_CONSUMER, families.PULSAR_CONSUMER_LABELS),
    )
    for level, labels in levels:
        for family in level:
            own = [family.label] if family.label else []
            assert rows.pop(family.name) == [family.kind, ", ".join([*labels, *own]), family.documentation]
    of_processes = {"keyline_process_up", "keyline_process_restarts_total"}  # see `test_merged_metrics`
    assert set(rows) == {"keyline_build_info", "keyline_gateway_workers_shown"} | of_processes


# ---- what is told ----------------------------------------------------------------------------------------------------


def test_a_topic_with_one_producer_at_a_time_is_told_as_it_was_driven() -> None:
    """The topic's own numbers, and the gateway's sums."""
    gateway = Gateway()
    drive_producers(gateway)
    found = gateway.numbers()
    told = {
        name: of(found, f"keyline_topic_{name}", topic=PRIMARY)
        for name in ("owned", "owner_priority", "owner_epoch", "waiting_producers", "vacant_seconds")
    }
    assert told == {
        "owned": 1,
        "owner_priority": -5,
        "owner_epoch": 4,
        "waiting_producers": 1,
        "vacant_seconds": 0,
    }
    for level, labels in (("topic", {"topic": PRIMARY}), ("gateway", {})):
        assert of(found, f"keyline_{level}_producer_promotions_total", **labels) == 2
        assert of(found, f"keyline_{level}_producer_failed_promotions_total", **labels) == 1
        assert of(found, f"keyline_{level}_producer_fencings_total", **labels) == 1
    assert of(found, "keyline_gateway_producer_arrivals_total") == 4
    assert of(found, "keyline_gateway_producer_vacancy_seconds_total") == 1
    assert of(found, "keyline_gateway_exclusive_topics") == of(found, "keyline_gateway_exclusive_owners") == 1
    assert of(found, "keyline_gateway_waiting_producers") == 1
    assert of(found, "keyline_gateway_waiting_producers_bytes") > 1_000


def test_a_subscription_is_told_as_it_was_driven() -> None:
    """Each number is what happened; the time in each histogram is what the clock was moved by."""
    gateway = Gateway()
    driven(gateway)
    found = gateway.numbers()

    def told(name: str) -> float:
        return of(found, f"keyline_subscription_{name}", topic=TOPIC, subscription="s")

    assert told("workers") == 2
    assert told("sent_messages_total") == 40 + 1 + 1 + 1, "the entries, a half of the batch, one again, one handed over"
    assert told("acked_messages_total") == 1
    assert told("redelivered_messages_total") == 1
    assert told("unknown_acks_total") == 1
    assert told("mixed_batches_total") == 1
    assert told("sliced_deliveries_total") == 1
    assert told("pending_acks") == told("unacked_messages") == 41
    assert told("available_permits") == 50 - 40 - 1 - 1
    assert told("waiting_messages") == told("waiting_slots") == 1
    assert told("waiting_bytes") > 0
    assert told("oldest_wait_seconds") == 6.0
    assert told("draining_hashes") == told("draining_hashes_unacked_messages") > 0
    assert told("draining_hashes_cleared_total") == 1
    assert told("upstream_connects_total") == 1
    assert told("outstanding_entries") == 41
    assert told("look_ahead_limit_messages") == 2 * 2_000
    assert told("look_ahead_used_ratio") == 1 / (4_000 + told("available_permits"))
    assert told("held_bytes") == of(found, "keyline_gateway_held_bytes")
    for name, count, seconds in (
        ("dispatch_latency", 42, 6.0),
        ("ack_latency", 1, 2.5),
        ("hand_over_duration", 1, 2.0),
        ("blocked_time", 1, 6.0),
    ):
        assert told(f"{name}_seconds_count") == count, name
        assert told(f"{name}_seconds_sum") == seconds, name


def test_workers_that_get_no_keys_are_counted_by_why() -> None:
    """By name, while their clients are connected: an operator excluded them, or they lost a lease too often."""
    gateway = Gateway(ack_lease_ms=2_000, quarantine_after=1, quarantine_ms=600_000)
    rig = gateway.rig
    for name in ("hangs", "works"):
        rig.worker(name, permits=9)

    def told() -> tuple[float, float]:
        rig.clock.settle()
        found, names = gateway.numbers(), ("excluded", "quarantined")
        excluded, quarantined = (of(found, f"keyline_subscription_{name}_workers", subscription="s") for name in names)
        return excluded, quarantined

    rig.link.deliver((0, single(rig.key_for("hangs"))))
    rig.clock.advance(2.0)
    assert told() == (0, 0), "its client has not come again"
    for _ in range(2):
        rig.worker("hangs")
    assert told() == (0, 1)
    rig.subscription.orders.exclude("hangs", excluded=True)
    assert told() == (1, 0)
    rig.subscription.orders.exclude("hangs", excluded=False)
    assert told() == (0, 0)


def test_buckets_count_what_is_at_or_below_their_bounds() -> None:
    """And the last one everything."""
    gateway = Gateway()
    driven(gateway)
    (metric,) = [m for m in gateway.families() if m.name == "keyline_subscription_dispatch_latency_seconds"]
    buckets = [(s.labels["le"], s.value) for s in metric.samples if s.name.endswith("_bucket")]
    assert [float(bound) for bound, _ in buckets] == sorted(float(bound) for bound, _ in buckets)
    assert [value for _, value in buckets] == [42.0 if float(bound) >= 6 else 41.0 for bound, _ in buckets]
    assert buckets[-1] == ("+Inf", 42.0)


HISTOGRAM = re.compile(r"keyline_\w+_seconds_(bucket|count|sum)")


def histograms_of(numbers: Numbers) -> Numbers:
    """Of these numbers."""
    return {place: value for place, value in numbers.items() if HISTOGRAM.fullmatch(place[0])}


def summed(histograms: Numbers, key: Callable[[dict[str, str]], dict[str, str]]) -> Numbers:
    """Added up by the labels that `key` leaves of the subscription's."""
    sums: Numbers = {}
    for (name, labels), value in histograms.items():
        kept = dict(labels)
        less = key({"topic": kept.pop("topic"), "subscription": kept.pop("subscription")})
        place = name, frozenset((kept | less).items())
        sums[place] = sums.get(place, 0.0) + value
    return sums


def test_histograms_of_namespaces_and_of_the_gateway_are_the_sums_of_their_subscriptions() -> None:
    """With fewer labels and in fewer series; all else is as it was."""
    gateway = Gateway()
    driven(gateway)
    gateway.rig.subscribe("t", subscription="t")
    each = gateway.numbers()
    other = gateway.numbers(histograms="namespace")
    together = gateway.numbers(histograms="gateway")
    expected = histograms_of(each)
    assert len(expected) == 2 * 4 * 17
    namespace = summed(expected, lambda labels: {"namespace": labels["topic"].split("://")[1].rpartition("/")[0]})
    assert histograms_of(other) == namespace
    assert histograms_of(together) == summed(expected, lambda _labels: {})
    for fewer in (other, together):
        ours = {place for place in each if place[0].startswith("keyline_")}
        assert ours - set(expected) == {place for place in fewer if place[0].startswith("keyline_")} - set(
            histograms_of(fewer)
        )


def test_sums_of_histograms_do_not_fall_when_a_subscription_ends() -> None:
    """A namespace's last until its last subscription has ended, the gateway's for good."""
    gateway = Gateway()
    workers = driven(gateway)
    neighbour = gateway.rig.subscribe("n", subscription="neighbour")
    count = "keyline_subscription_dispatch_latency_seconds_count"

    def counted(histograms: families.Histograms) -> list[float]:
        found = gateway.numbers(histograms=histograms)
        return [value for (name, _), value in found.items() if name == count]

    before = counted("namespace")
    assert before == counted("gateway") == [42.0]
    for worker in workers:
        worker.lose()
    assert counted("subscription") == [0.0]
    assert counted("namespace") == counted("gateway") == before
    neighbour.lose()
    assert counted("namespace") == []
    assert counted("gateway") == before


def test_a_subscription_that_ends_during_a_scrape_counts_once() -> None:
    """So that the next scrape's sum is not lower."""
    gateway = Gateway()
    workers = driven(gateway)
    gateway.rig.subscribe("n", subscription="neighbour")
    told = gateway.subscriptions.durations(by_namespace=False)
    found = [next(told)]
    for worker in workers:
        worker.lose()
    assert len(gateway.subscriptions) == 1
    found += told
    assert sum(sum(durations.dispatch_latency.counts) for _, durations in found) == 42


def test_the_upstream_state_is_one_of_those_that_are() -> None:
    """1 for it, 0 for every other."""
    assert [state.value for state in UpstreamState] == list(families.UPSTREAM_STATES)
    gateway = Gateway()
    gateway.rig.worker("a")
    gateway.rig.link.held.add(pb.BaseCommand.SUBSCRIBE)
    gateway.rig.subscribe("b", subscription="t")
    found = gateway.numbers()
    for subscription, now in (("s", "ready"), ("t", "subscribing")):
        for state in families.UPSTREAM_STATES:
            name = "keyline_subscription_upstream_state"
            assert of(found, name, subscription=subscription, state=state) == (state == now)


def test_the_gateway_tells_of_itself() -> None:
    """Version, readiness, connections, who was refused, what it may hold, and how connections ended."""
    gateway = Gateway(
        Limits(connections_max=2, connections_per_address_max=1), workers_max=1, gateway_memory_bytes=1_000
    )
    peers = ("192.0.2.1:1", "192.0.2.1:2", "192.0.2.2:1", "192.0.2.3:1")
    receivers = [gateway.sessions.admit(peer) for peer in peers]
    for peer, receiver in zip(peers, receivers, strict=True):
        FakeTransport(gateway.clock, receiver, peer).open()
        gateway.clock.settle()
    receivers[0].received(b"\xff" * 16)
    gateway.clock.settle()
    gateway.rig.worker("a")
    gateway.rig.subscribe("b")
    found = gateway.numbers()
    told = {name: value for (name, labels), value in found.items() if not labels}
    assert of(found, "keyline_build_info") == 1
    assert of(found, "keyline_build_info", version="1.2.3", build="compiled") == 1
    assert told["keyline_gateway_ready"] == 1
    assert told["keyline_gateway_shutting_down"] == 0
    assert told["keyline_gateway_connections"] == 1
    assert told["keyline_gateway_connections_opened_total"] == 4
    assert told["keyline_gateway_connections_refused_total"] == 1
    assert told["keyline_gateway_connections_per_address_refused_total"] == 1
    assert told["keyline_gateway_subscriptions"] == told["keyline_gateway_workers"] == 1
    assert told["keyline_gateway_workers_refused_total"] == 1
    assert told["keyline_gateway_workers_per_connection_refused_total"] == 0
    assert told["keyline_gateway_slices_cut_total"] == told["keyline_gateway_log_lines_left_out_total"] == 0
    assert told["keyline_gateway_memory_limit_bytes"] == 1_000
    assert of(found, "keyline_gateway_connections_ended_total", cause="bad_frame") == 1
    assert of(found, "keyline_gateway_connections_ended_total", cause="silent") == 0
    assert told["keyline_gateway_received_bytes_total"] == 16, "sessions that ended are counted on"
    assert of(found, "keyline_gateway_broker_connections", state="ready") == 0
    assert told["process_resident_memory_bytes"] > 0
    assert of(found, "python_gc_collections_total", generation="2") >= 0
    gateway.reasons.append("shutting down")
    assert of(gateway.numbers(), "keyline_gateway_ready") == 0


def test_a_gateway_without_subscriptions_is_told_in_both_formats() -> None:
    """Nothing is there to be shown for them, not even their families' names."""
    for accept, parse in (("text/plain", parse_text), (AS_PROMETHEUS_ASKS, parse_openmetrics)):
        found = numbers_of(list(parse(Gateway().get(accept, **EVERYTHING).text)))
        assert of(found, "keyline_gateway_subscriptions") == 0
        assert not any(name.startswith(("keyline_subscription", "keyline_worker", "pulsar")) for name, _ in found)


def never_fall(before: Numbers, after: Numbers) -> None:
    """Of every series that is a counter by its name and was there before."""
    for key, value in before.items():
        name = key[0]
        if name.endswith(("_total", "_count", "_bucket", "_sum")) and not name.startswith(("process_", "python_")):
            assert after[key] >= value, key


def test_counters_never_fall_while_a_subscription_lives() -> None:
    """Workers leave with full outboxes, take what they had back, and come again; sums go on from where they were."""
    gateway = Gateway()
    rig = gateway.rig
    first, second = driven(gateway)
    steps: list[Callable[[], object]] = [
        first.stop_reading,
        lambda: rig.link.deliver(*[(entry, single(f"key-{entry}")) for entry in range(50, 60)]),
        lambda: second.flow(100),
        first.lose,
        second.redeliver,
        lambda: rig.worker("a", permits=5),
        lambda: rig.clock.advance(1),
        lambda: second.ack(*range(60)),
        second.close,
        rig.link.lose,
        lambda: rig.clock.advance(60),
    ]
    before = gateway.numbers()
    sent = of(before, "keyline_subscription_sent_messages_total")
    for step in steps:
        step()
        after = gateway.numbers()
        never_fall(before, after)
        before = after
    assert of(before, "keyline_subscription_workers") == 1
    assert of(before, "keyline_subscription_sent_messages_total") > sent


# ---- workers and the broker's names ----------------------------------------------------------------------------------


def test_workers_have_series_of_their_own_where_that_is_wanted() -> None:
    """Off by default; their numbers add up to the subscription's."""
    gateway = Gateway()
    driven(gateway)
    assert not any(name.startswith("keyline_worker") for name, _ in gateway.numbers())
    found = gateway.numbers(workers_max=10)
    for name in ("sent_messages_total", "acked_messages_total", "unacked_messages", "pending_acks", "draining_hashes"):
        each = [of(found, f"keyline_worker_{name}", topic=TOPIC, subscription="s", worker=c) for c in "ab"]
        assert sum(each) == of(found, f"keyline_subscription_{name}")
    shares = [of(found, "keyline_worker_hash_space_ratio", worker=c) for c in "ab"]
    assert sum(shares) == pytest.approx(1)


def test_there_are_only_so_many_workers() -> None:
    """Over all subscriptions, the oldest first; how many are shown is told."""
    gateway = Gateway()
    for subscription in "st":
        for name in "abc":
            gateway.rig.worker(name, subscription=subscription)
    for bound, shown in ((0, 0), (1, 1), (4, 4), (6, 6), (100, 6)):
        found = gateway.numbers(workers_max=bound, pulsar_names=True)
        for name in ("keyline_worker_connected", "pulsar_consumer_unacked_messages"):
            assert len([key for key in found if key[0] == name]) == shown
        assert of(found, "keyline_gateway_workers_shown") == shown
        assert of(found, "keyline_gateway_workers") == 6


def test_workers_of_one_name_share_their_series() -> None:
    """Two with the same labels would be an error to Prometheus."""
    gateway = Gateway()
    for _ in range(3):
        gateway.rig.worker("a", permits=2)
    found = gateway.numbers(**EVERYTHING)
    assert of(found, "keyline_worker_connected", worker="a") == 3
    assert of(found, "pulsar_consumer_available_permits", consumer_name="a") == 6


def test_the_brokers_names_are_given_where_they_are_wanted() -> None:
    """With the labels its own metrics have, as far as they are known here, and the numbers of ours."""
    gateway = Gateway()
    driven(gateway)
    assert not any(name.startswith("pulsar_") for name, _ in gateway.numbers(workers_max=5))
    found = gateway.numbers(pulsar_names=True)
    assert not any(name.startswith("pulsar_consumer") for name, _ in found), "workers are switched by themselves"
    labels = {"namespace": "public/default", "topic": TOPIC, "subscription": "s"}
    assert of(found, "pulsar_subscription_unacked_messages", **labels) == 41
    assert of(found, "pulsar_subscription_in_replay", **labels) == 1
    assert of(found, "pulsar_subscription_consumers_count", **labels) == 2
    sent = of(found, "keyline_subscription_sent_messages_total")
    assert of(found, "pulsar_out_messages_total", **labels) == sent


# ---- turns -----------------------------------------------------------------------------------------------------------


class ManySubscriptions:
    """A view of one gateway whose one subscription is there a thousand times."""

    def __init__(self, source: MetricsSource, count: int) -> None:
        self.gateway = source.gateway
        self.topics = source.topics
        self.durations = source.durations
        self.groups = source.groups
        self.workers = source.workers
        self._source = source
        self._count = count

    def subscriptions(self) -> Iterator[Any]:
        """As the port says."""
        (one,) = self._source.subscriptions()
        return (replace(one, subscription=f"s-{number}") for number in range(self._count))


def test_a_scrape_of_a_thousand_subscriptions_lets_others_run() -> None:
    """A turn ends when its time is over, while numbers are gathered as well as while text is made of them."""
    gateway = Gateway()
    driven(gateway)
    looks = 0
    looks_a_turn = 6
    others = 0

    def clock() -> float:
        nonlocal looks
        looks += 1
        return looks * TURN_S / looks_a_turn

    async def count_turns() -> None:
        nonlocal others
        while True:
            others += 1
            await asyncio.sleep(0)

    async def scenario() -> None:
        view = ManySubscriptions(gateway.source(), 1_000)
        counting = asyncio.create_task(count_turns())
        turns = Turns(clock)
        scrape = await gather(view, 0, turns)
        gathered = others
        assert gathered >= 1_000 / looks_a_turn * 0.9
        pieces = [piece async for piece in exposition(scrape, TEXT, turns, pulsar_names=False)]
        counting.cancel()
        looks_each = len(families.SUBSCRIPTION) * 1_000 / ROWS_AT_ONCE
        assert others - gathered >= looks_each / looks_a_turn * 0.9
        most = looks_a_turn * ROWS_AT_ONCE * 20
        assert max(len(piece.split("\n")) for piece in pieces) < most, "at most a turn's lines in a piece"
        text = "".join(pieces)
        assert text.count("\nkeyline_subscription_workers{") == 1_000
        assert text.count("# TYPE keyline_subscription_workers gauge\n") == 1

    asyncio.run(scenario())


def test_groups_are_told_while_this_replica_takes_part() -> None:
    """A session without a lease, and what it knows of its group."""
    gateway = Gateway()
    driven(gateway)
    labels = frozenset({"topic": TOPIC, "subscription": "s"}.items())
    found = {
        name.removeprefix("keyline_group_"): value
        for (name, of_), value in gateway.numbers().items()
        if name.startswith("keyline_group_") and of_ == labels
    }
    assert (found["connected"], found["epoch"], found["leading"], found["streams_leased"]) == (0, -1, 0, 0)
    gateway.groups.close()
    assert not [name for name, _ in gateway.numbers() if name.startswith("keyline_group_")]
