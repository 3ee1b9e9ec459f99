"""A wrong value fails while the chart is rendered, with a sentence that says what would be right."""

from __future__ import annotations

import math

import pytest

from helm.setting_schema import setting_facts
from proxy.config.settings import GROUP_OF
from tests.helm.chart import Chart

SENTENCES = [
    ("minimal", ['pulsar.release=""'], "set pulsar.release to the name of the Pulsar release"),
    (
        "minimal",
        ["config.groups_enabled=false"],
        "config.groups_enabled is false, and there may be more than one replica",
    ),
    ("autoscaled", ["config.groups_enabled=false", "replicaCount=1"], "autoscaling.enabled true"),
    ("minimal", ['config.broker_token="x"'], "put it into a Secret and name that in brokerToken.existingSecret"),
    ("minimal", ['config.journal_key_secret="x"'], "name that in journal.keySecret.existingSecret"),
    ("minimal", ['config.listen="0.0.0.0:1"'], "choose the host by listenHost"),
    ("minimal", ['config.replica_name="x"'], "each replica is named after its pod"),
    ("minimal", ['config.replica_secret_file="/x"'], "name the Secret in replicas.existingSecret"),
    ("minimal", ["shutdown.terminationGracePeriodSeconds=30"], "(30) must be at least 50"),
    ("minimal", ["shutdown.terminationGracePeriodSeconds=60", "config.drain_timeout_s=40"], "must be at least 65"),
    ("minimal", ["config.metrics_open=false"], "set monitoring.scrape.kind to none"),
    ("elsewhere", ["adminTokens.enabled=true"], "adminTokens.enabled needs adminTokens.existingSecret"),
    ("minimal", ["tls.enabled=true"], "tls.enabled needs a certificate"),
    ("minimal", ["config.admin_tls=true"], "config.admin_tls needs a certificate"),
    (
        "public-tls",
        ['tls.certManager.issuerRef.name=""'],
        "tls.certManager.enabled needs tls.certManager.issuerRef.name",
    ),
    ("minimal", ["journal.volume.enabled=true"], "needs kind StatefulSet"),
    ("minimal", ["ingress.enabled=true", 'ingress.hosts=[{"host": "a"}]'], "ingress.enabled needs tokens"),
    ("observed", ['monitoring.rules.runbookUrl=""'], "needs monitoring.rules.runbookUrl"),
    ("secured-release", ["ingress.hosts=[]"], "ingress.enabled needs ingress.hosts"),
    ("object-store", ['config.journal="/x"'], "name two places for one journal"),
    ("object-store", ['journal.objectStore.url="bucket"'], "must be a URL such as s3://bucket/folder"),
    ("object-store", ["networkPolicy.egress=[]"], "networkPolicy.enabled needs networkPolicy.egress"),
    ("elsewhere", ["networkPolicy.egress=[]"], "where the brokers are not those of pulsar.release"),
    ("elsewhere", ['pulsar.tls.caSecret=""'], "pulsar.tls.enabled needs pulsar.tls.caSecret"),
    ("elsewhere", ['config.broker_token_file="/x"'], "exclude each other"),
    ("elsewhere", ['config.proxy_role_token_file="/x"'], "proxyRoleToken.existingSecret exclude each other"),
    ("elsewhere", ['tls.clientCa.existingSecret=""'], "needs tls.enabled and tls.clientCa.existingSecret"),
    ("elsewhere", ["config.broker_is_proxy=true"], "set pulsar.component to broker"),
    ("elsewhere", ['pulsar.release="main"'], "set pulsar.component to broker"),
    ("autoscaled", ["autoscaling.minReplicas=20"], "must be at most autoscaling.maxReplicas (10)"),
    ("minimal", ['resources.limits.memory="512Mi"'], "must be more than config.gateway_memory_bytes"),
    ("minimal", ['resources.limits.memory="768Mi"'], "and config.waiting_producers_bytes_max (268435456) together"),
    ("minimal", ['config.gateway_memory_bytes="4GiB"'], "resources.limits.memory (1536Mi) must be more than"),
    ("minimal", ['config.gateway_memory_bytes="1KiB"'], "(1KiB) must be a size from 1MiB to 1024GiB"),
    (
        "minimal",
        ['config.subscription_memory_bytes="1GB"'],
        "config.subscription_memory_bytes (1GB) must be at most config.gateway_memory_bytes",
    ),
    ("minimal", ["config.group_lease_s=7"], "config.group_lease_s (7) must be less than config.group_drop_s (7)"),
]


@pytest.mark.parametrize(("scenario", "settings", "sentence"), SENTENCES)
def test_a_contradiction_is_told_in_a_sentence(chart: Chart, scenario: str, settings: list[str], sentence: str) -> None:
    """The values are named in it."""
    refusal = chart.refusal(scenario, *settings)
    assert sentence in refusal
    assert refusal.rstrip().partition("\n")[0].endswith(".")


@pytest.mark.parametrize(
    ("setting", "where", "what"),
    [
        ("config.workers_maxx=1", "/config", "workers_maxx"),
        ("config.workers_max=0", "/config/workers_max", "minimum: got 0, want 1"),
        ('config.ordering_mode="draining"', "/config/ordering_mode", "draining_hashes"),
        ('config.batch_peek_max_bytes="64 Mega"', "/config/batch_peek_max_bytes", "pattern"),
        ('kind="DaemonSet"', "/kind", "StatefulSet"),
        ("pulsar.realease=1", "/pulsar", "realease"),
        ('pulsar.component="bookie"', "/pulsar/component", "broker"),
        ("service.ports.pulsar=70000", "/service/ports/pulsar", "65,535"),
    ],
)
def test_a_wrong_value_is_told_with_its_place(chart: Chart, setting: str, where: str, what: str) -> None:
    """By the schema, before anything is rendered."""
    refusal = chart.refusal("minimal", setting)
    assert f"at '{where}'" in refusal
    assert what in refusal


def test_every_relation_is_checked(chart: Chart) -> None:
    """All at once: a person who made several mistakes is told of each."""
    for relation in setting_facts()["relations"]:
        left, right = relation["left"], relation["right"]
        least_right, least_left = _least(right), _least(left)
        low = max(least_right, least_left)
        high = low if relation["strict"] else low + 1
        refusal = chart.refusal("minimal", f"config.{left}={high}", f"config.{right}={low}")
        assert (
            f"config.{left} ({high}) must be {relation['words']} config.{right} ({low}): {relation['why']}." in refusal
        )


def _least(name: str) -> int:
    field = GROUP_OF[name][1].model_fields[name]
    assert isinstance(field.json_schema_extra, dict)
    return math.ceil(field.json_schema_extra["ge"])  # type: ignore[arg-type]


def test_a_parent_charts_globals_are_no_mistake(chart: Chart) -> None:
    """Helm hands them to every part of a chart."""
    chart.render("minimal", 'global.anything={"a": 1}')


def test_sizes_are_read_as_the_gateway_reads_them(chart: Chart) -> None:
    """Thousands and powers of two, with and without a unit, in either case."""
    for size in ('"64MiB"', '"64 mib"', '"67108864"', "67108864", '"65536KiB"'):
        chart.render("minimal", f"config.subscription_memory_bytes={size}", 'config.gateway_memory_bytes="64MiB"')
    refusal = chart.refusal(
        "minimal", 'config.subscription_memory_bytes="64MiB"', 'config.gateway_memory_bytes="67.1MB"'
    )
    assert "must be at most config.gateway_memory_bytes (67.1MB)" in refusal
