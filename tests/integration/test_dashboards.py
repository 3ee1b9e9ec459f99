"""Dashboards, rules and runbook against a real Prometheus that scrapes a real gateway under load."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from admin_api.metrics import families
from dashboards.alert_rules import main as write_rules
from dashboards.alert_rules import rules_with
from dashboards.build import DASHBOARDS, FOLDER, rendered
from dashboards.promql import quantile
from integration.certificates import Authority
from integration.errors import ToolMissingError
from integration.gateway import KeylineGateway
from integration.load.options import Batching
from integration.load.run import LoadRun
from integration.standalone import PulsarStandalone
from tests.integration.conditions import eventually
from tests.integration.conftest import explain
from tests.integration.prometheus import (
    ALL_NAMESPACES,
    EVERYTHING,
    RULES,
    Choice,
    Prometheus,
    has_numbers,
    interpolated,
    program,
    prometheus,
    promtool,
    unix_now,
)
from tests.integration.raw_client import RawClient
from tests.net.producer_rig import want

RULES_TEST: Final = FOLDER / "rules/keyline.rules.test.yml"
RUNBOOK: Final = FOLDER.parent / "docs/runbook.md"
JOBS: Final = {"keyline": {}, "pulsar/keyline": {"cluster": "test"}}
"""The one as docs/metrics.md has it, without the label `cluster`; one with it."""
RATE_INTERVAL: Final = "10s"
HOLD_MS: Final = 3_000
"""How long workers hold a message: much longer than the time between two scrapes, so that one sees it drain."""
SELECTOR: Final = re.compile(r"\b(?:keyline[\w:]+|process_\w+|up\b)(?:\{[^}]*\})?")
HAPPENED: Final = (
    "keyline_subscription_acked_messages_total > 0",
    "keyline_subscription_redelivered_messages_total > 0",
    "max_over_time(keyline_subscription_draining_hashes[5m]) > 0",
    "max_over_time(keyline_subscription_waiting_slots[5m]) > 0",
    "keyline_subscription_hand_over_duration_seconds_count > 0",
    "keyline_subscription_blocked_time_seconds_count > 0",
    'keyline_gateway_connections_ended_total{cause="client_left"} > 0',
    "keyline_topic_producer_promotions_total > 1",
    "keyline_group_streams_opened_total > 0",
)


ONLY_IN_TROUBLE: Final = "keyline_blamed_worker_"
"""Series of workers that are to blame for something, which none is here; the rules' own tests have them."""
ABSENT: Final = (ONLY_IN_TROUBLE, "keyline_process_")
"""What is asked for and not here: one process is no host of several, which `test_host_processes` has."""


@dataclass(frozen=True)
class Scraped:
    """What Prometheus has of a load."""

    prometheus: Prometheus
    began: float
    at: float
    """The moment that dashboards are looked at: everything has happened, and the load still runs."""


@contextmanager
def fail_over(gateway: KeylineGateway, topic: str) -> Iterator[None]:
    """Let producers wait for a topic, and its owner go."""
    with ExitStack() as stack:
        clients = [stack.enter_context(RawClient(gateway.service_url)) for _ in range(3)]
        for number, client in enumerate(clients):
            client.locate(topic).send(want(number + 1, number, topic=topic))
            client.read()
        clients[0].close()
        yield


def load(run: LoadRun, watching: Prometheus) -> float:
    """Let keys flow, drain, wait, come back and move on; return when Prometheus has seen all of it, with the time."""
    worker = {"ack_delay_ms": HOLD_MS, "nack_fraction": 0.05}
    run.start_workers("a", "b", **worker)
    run.produce(in_process=False, rate_per_s=150, keys=100, batching=Batching.DEFAULT)
    run.wait_acknowledged(100)
    run.start_workers("c", **worker)
    eventually(lambda: watching.holds(HAPPENED[2]), HAPPENED[2])
    run.release_worker("b")
    for condition in HAPPENED:
        eventually(partial(watching.holds, condition), condition)
    # Rules look at a scrape after it was made.
    seen = unix_now()
    eventually(lambda: unix_now() > seen + 2, "two more scrapes")
    return unix_now()


@pytest.fixture(scope="module")
def scraped(pulsar: PulsarStandalone, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scraped]:
    """Load a gateway of its own while Prometheus scrapes it; the load keeps every key's order."""
    directory = tmp_path_factory.mktemp("dashboards")
    signed = Authority(directory).sign("gateway", "localhost")
    settings = {
        "listen_tls": "127.0.0.1:0",
        "tls_certificate_file": str(signed.certificate),
        "tls_key_file": str(signed.key),
        "metrics_pulsar_names": "true",
        "producer_return_grace_s": "0",
        "groups_enabled": "true",
        "groups_mode": "streams",
        "group_streams": "1",  # so that batches of many keys are divided as by a gateway that is alone
        "keep_alive_s": "600",  # raw clients answer no pings while nobody reads
    }
    topic = f"persistent://public/default/dashboards.{directory.name}"
    with KeylineGateway(pulsar.service_url, pulsar.admin_url, directory, settings=settings) as gateway:
        target = gateway.admin_url.removeprefix("http://")
        with (
            prometheus(directory / "prometheus", JOBS, target, RULES) as running,
            LoadRun(directory / "load", gateway.service_url, topic) as run,
            fail_over(gateway, f"{topic}.primary"),
        ):
            began = unix_now()
            at = load(run, running)
            for producer in run.producers:
                producer.stop()
            result = run.finish()
            assert result.ok, explain(result, gateway)
            yield Scraped(running, began, at)


def dashboard(name: str) -> dict[str, Any]:
    """A dashboard as a user imports it."""
    values: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text())
    return values


def options(variable: dict[str, Any], choice: Choice, scraped: Scraped) -> list[str]:
    """What Grafana offers for a variable, after what was chosen for those before it."""
    query = re.fullmatch(r"label_values\((.+), (\w+)\)", variable["query"]["query"])
    assert query is not None, variable
    values = scraped.prometheus.label_values(interpolated(query[1], choice), query[2], scraped.began, scraped.at)
    if variable["regex"]:
        pattern = re.compile(variable["regex"][1:-1])
        values = [found[1] for value in values if (found := pattern.search(value))]
    return list(dict.fromkeys(values))


def chosen(board: dict[str, Any], scraped: Scraped, pick: Callable[[list[str]], list[str] | None]) -> Choice:
    """Choose of each variable what `pick` makes of the options; None for all."""
    choice: Choice = {"__rate_interval": RATE_INTERVAL, "__range": f"{scraped.at - scraped.began:.0f}s"}
    for variable in board["templating"]["list"]:
        if variable["type"] == "query":
            offered = options(variable, choice, scraped)
            assert offered, f"nothing to choose for {variable['name']}"
            choice[variable["name"]] = pick(offered) or variable["allValue"] or offered
    return choice


def test_the_files_are_what_the_module_writes() -> None:
    """Nobody edits the JSON by hand, and nobody forgets to write it."""
    texts = rendered()
    for path, text in texts.items():
        assert path.read_text() == text, f"{path} is not what it should be; run: python -m dashboards.build"
    assert set(FOLDER.glob("*.json")) == set(texts)


@pytest.mark.parametrize("name", [board.name for board in DASHBOARDS])
def test_every_panel_has_a_place_and_says_what_it_shows(name: str) -> None:
    """Unit, description and thresholds are there; no two panels lie on one another."""
    taken: dict[tuple[int, int], str] = {}
    panels = dashboard(name)["panels"]
    for panel in panels:
        place = panel["gridPos"]
        for x in range(place["x"], place["x"] + place["w"]):
            for y in range(place["y"], place["y"] + place["h"]):
                assert taken.setdefault((x, y), panel["title"]) == panel["title"]
                assert x < 24
        if panel["type"] != "row":
            defaults = panel["fieldConfig"]["defaults"]
            assert panel["description"].endswith(".")
            assert defaults["unit"]
            assert defaults["thresholds"]["steps"][0]["value"] is None
            assert all(target["legendFormat"] for target in panel["targets"])
    assert len({panel["id"] for panel in panels}) == len(panels)


@pytest.mark.slow
@pytest.mark.parametrize(
    "pick",
    [lambda _: None, lambda offered: offered[:1], lambda offered: offered],
    ids=["all", "one of each", "several of each"],
)
@pytest.mark.parametrize("name", [board.name for board in DASHBOARDS])
def test_every_panel_shows_numbers(name: str, pick: Callable[[list[str]], list[str] | None], scraped: Scraped) -> None:
    """No query is in error; but for `ABSENT` none is empty, whatever is chosen."""
    board = dashboard(name)
    choice = chosen(board, scraped, pick)
    empty = []
    for panel in board["panels"]:
        for target in panel.get("targets", ()):
            expression = interpolated(target["expr"], choice)
            if target["instant"]:
                result = scraped.prometheus.now(expression, scraped.at)
            else:
                result = scraped.prometheus.over(expression, scraped.began, scraped.at)
            if has_numbers(result) == any(name in expression for name in ABSENT):
                empty.append(f"{panel['title']}: {expression}")
    assert not empty, "\n".join(empty)


@pytest.mark.slow
def test_every_rule_finds_what_it_asks_for(scraped: Scraped) -> None:
    """Rules evaluate without error; recorded series have numbers; alerts' selectors have series and none fires."""
    groups = scraped.prometheus.ask("rules")["groups"]
    rules = [rule for group in groups for rule in group["rules"]]
    assert {rule["type"] for rule in rules} == {"recording", "alerting"}
    for rule in rules:
        assert rule["health"] == "ok", rule
        result = scraped.prometheus.now(rule["query"], scraped.at)
        if rule["type"] == "recording":
            assert has_numbers(scraped.prometheus.over(rule["name"], scraped.began, scraped.at)), rule
            continue
        assert not result, rule
        # A condition may hold for the moment in which a group begins: that is what durations are for.
        assert rule["state"] in ({"inactive", "pending"} if rule["duration"] else {"inactive"}), rule
        selectors = SELECTOR.findall(rule["query"])
        assert selectors, rule
        for selector in selectors:
            found = scraped.prometheus.over(selector, scraped.began, scraped.at)
            assert bool(found) != selector.startswith(ABSENT), f"{rule['name']}: {selector}"


@pytest.mark.slow
def test_every_alert_leads_to_its_section_of_the_runbook(scraped: Scraped) -> None:
    """Severity, summary, description; each alert has a section, each section an alert, and a test of promtool's."""
    groups = scraped.prometheus.ask("rules")["groups"]
    alerts = [rule for group in groups for rule in group["rules"] if rule["type"] == "alerting"]
    for alert in alerts:
        assert alert["labels"]["severity"] in {"critical", "warning"}
        assert alert["annotations"]["summary"].endswith(".")
        assert alert["annotations"]["description"].removesuffix("{{ end }}").endswith(".")
        assert alert["annotations"]["runbook_url"] == f"docs/runbook.md#{alert['name'].lower()}"
        assert f'alertname="{alert["name"]}"' in RULES_TEST.read_text() or alert["name"] == "KeylineUpstreamNotReady"
    sections = re.findall(r"^## (\w+)\n\n(\w+)\.", RUNBOOK.read_text(), re.MULTILINE)
    assert sections == [(alert["name"], alert["labels"]["severity"].capitalize()) for alert in alerts]


@pytest.mark.slow
def test_dashboards_made_for_brokers_find_their_names(scraped: Scraped) -> None:
    """Each of the broker's names that docs/metrics.md promises has numbers under load."""
    for family in (*families.PULSAR_SUBSCRIPTION, *families.PULSAR_CONSUMER):
        assert has_numbers(scraped.prometheus.over(family.name, scraped.began, scraped.at)), family.name


def test_rules_are_well_formed_and_fire_when_they_should() -> None:
    """`promtool check rules` and `promtool test rules` agree."""
    promtool("check", "rules", RULES)
    promtool("test", "rules", RULES_TEST)


def test_every_alert_links_to_a_heading_of_the_runbook_wherever_that_is_published() -> None:
    """The links are absolute; each heading of an alert is linked to once."""
    published = "https://wiki.example.com/keyline/runbook"
    links = re.findall(r"runbook_url: (\S+)#(\S+)", rules_with(published))
    headings = re.findall(r"^## (Keyline\w+)$", RUNBOOK.read_text(), re.MULTILINE)
    assert links == [(published, heading.lower()) for heading in headings]


@pytest.mark.parametrize(
    "wrong", ["docs/runbook.md", "ftp://example.com/x", "https://", "https://e.com/#top", "https://e.com/a b"]
)
def test_a_runbook_without_a_whole_address_is_refused(wrong: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The error says what would be right."""
    assert write_rules(["--runbook-url", wrong]) == 2
    said = capsys.readouterr()
    assert wrong in said.err
    assert "https://HOST/keyline/runbook" in said.err
    assert not said.out


@pytest.mark.parametrize(
    ("labels", "namespace", "found"),
    [
        ('topic="persistent://t/n/a", subscription="s"', ALL_NAMESPACES, [0.05]),
        ('topic="persistent://t/n/a", subscription="s"', "t/other", []),
        ('namespace="t/n"', ALL_NAMESPACES, [0.05]),
        ('namespace="t/n"', "t/n", [0.05]),
        ('namespace="t/n"', "t/other", []),
        ("", ALL_NAMESPACES, [0.05]),
        ("", "t/other", [0.05]),
    ],
)
def test_latencies_are_shown_whatever_has_histograms(
    labels: str, namespace: str, found: list[float], tmp_path: Path
) -> None:
    """Of the subscriptions chosen, of their namespaces, or of the gateway where it has only one set."""
    name = "keyline_subscription_ack_latency_seconds"
    choice: Choice = EVERYTHING | {"namespace": namespace, "__rate_interval": "3m"}
    separator = ", " if labels else ""
    series = [
        {"series": f'{name}_bucket{{job="keyline", instance="g:1", le="{le}"{separator}{labels}}}', "values": "0+60x10"}
        for le in ("0.1", "+Inf")
    ]
    expected = [{"labels": "{}", "value": value} for value in found]
    asked = {"expr": interpolated(quantile(0.5, name), choice), "eval_time": "5m", "exp_samples": expected}
    test = {
        "evaluation_interval": "1m",
        "tests": [{"interval": "1m", "input_series": series, "promql_expr_test": [asked]}],
    }
    file = tmp_path / "quantiles.test.yml"
    file.write_text(json.dumps(test))
    promtool("test", "rules", file)


def test_without_prometheus_the_tests_say_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nothing is passed over in silence."""
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ToolMissingError, match="apt-get install -y --no-install-recommends prometheus"):
        program("promtool")
