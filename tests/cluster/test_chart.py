"""The chart in a real cluster: pods start where the strictest policy holds, serve, are rolled, evicted and upgraded.

NetworkPolicies are taken by the API server and enforced by nobody here; autoscaling has no metrics to go by.
"""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

import httpx
import pyarrow.parquet as pq
import pytest

from integration.load.lives import Cause
from integration.load.report import audit_lines
from integration.load.run import LoadRun
from integration.ports import LOOPBACK, free_ports
from integration.processes import OwnedProcess
from tests.cluster.conftest import Install
from tests.cluster.installed import Installed
from tests.cluster.release import PulsarRelease
from tests.integration.conditions import eventually

MESSAGES = 12_000
KEYS = 200
RATE_PER_S = 300.0

pytestmark = [pytest.mark.slow, pytest.mark.broker, pytest.mark.cluster]


def new_topic(name: str) -> str:
    """Of nobody else."""
    return f"persistent://public/default/{name}-{uuid.uuid4().hex[:8]}"


def test_two_replicas_serve_and_the_charts_own_test_says_so(install: Install, release: PulsarRelease) -> None:
    """Only the release's name is given. What is printed next is run as it is printed."""
    installed = install("events")
    assert (installed.ready(), installed.restarts()) == (2, 0)
    done = release.cluster.helm("test", "events", "--namespace", release.namespace, "--logs")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "100 messages with 10 keys went through pulsar://events-keyline.pulsar.svc:6650" in done.stdout
    notes = release.cluster.helm("get", "notes", "events", "--namespace", release.namespace).stdout
    status = "kubectl --namespace pulsar rollout status deployment/events-keyline"
    assert status in notes
    assert "successfully rolled out" in release.cluster.kubectl(*status.split()[1:])
    assert f"pulsar-broker.{release.namespace}" in notes


def test_the_console_is_reached_as_the_notes_say(install: Install, release: PulsarRelease, tmp_path: Path) -> None:
    """By a forwarded port; scraped at its own address too."""
    installed = install("events")
    (port,) = free_ports(1)
    words = ("port-forward", "service/events-keyline-admin", f"{port}:8750", "--address", LOOPBACK)
    command = [*release.cluster.kubectl.command, "--namespace", release.namespace, *words]
    with OwnedProcess(command, tmp_path / "forward.log"):
        eventually(lambda: answers(f"http://{LOOPBACK}:{port}/readyz"), "the forwarded port")
        assert "Keyline" in httpx.get(f"http://{LOOPBACK}:{port}/", trust_env=False).text
    (address, *_) = [pod["status"]["podIP"] for pod in installed.pods()]
    assert "keyline_gateway_workers" in httpx.get(f"http://{address}:8750/metrics", trust_env=False).text


def test_a_rollout_under_load_loses_repeats_and_reorders_nothing(install: Install, tmp_path: Path) -> None:
    """All pods are new at the end; clients knew the Service alone."""
    installed = install("events", "config.drain_timeout_s=10")
    before = installed.names()
    with LoadRun(tmp_path / "load", installed.service_url, new_topic("rolled")) as run:
        run.start_workers("w1", "w2", "w3", "w4", receiver_queue_size=20)
        run.produce(count=MESSAGES, keys=KEYS, rate_per_s=RATE_PER_S)
        run.wait_acknowledged(MESSAGES // 10)
        installed.kubectl("rollout", "restart", "deployment/events-keyline")
        installed.kubectl("rollout", "status", "deployment/events-keyline", "--timeout", "120s")
        result = run.finish()
    assert result.ok, "\n".join(audit_lines(result)) + installed.described()
    eventually(lambda: len(installed.names()) == 2, "two pods")
    assert not before & installed.names()
    assert installed.restarts() == 0


def test_a_killed_pod_comes_back_and_others_take_over(install: Install, tmp_path: Path) -> None:
    """Killed without a word; what it had comes again at the other replica, and nothing is lost or out of order."""
    installed = install("events", "config.drain_timeout_s=10")
    with LoadRun(tmp_path / "load", installed.service_url, new_topic("killed")) as run:
        run.start_workers("w1", "w2", "w3", "w4", receiver_queue_size=20)
        run.produce(count=MESSAGES // 2, keys=KEYS, rate_per_s=RATE_PER_S)
        run.wait_acknowledged(MESSAGES // 10)
        run.interruption(Cause.GATEWAY_KILLED)
        victim = min(installed.names())
        installed.kubectl("delete", "pod", victim, "--grace-period=0", "--force")
        result = run.finish()
    assert result.ok, "\n".join(audit_lines(result)) + installed.described()
    eventually(lambda: installed.ready() == 2, "two replicas again", deadline_s=120)
    assert victim not in installed.names()


def test_evictions_leave_one_replica(install: Install) -> None:
    """What `kubectl drain` asks for: the second is refused while the first is not replaced."""
    installed = install("events", "pdb.maxUnavailable=1")
    first, second = sorted(installed.names())
    installed.kubectl("cordon", "node")
    try:
        eventually(lambda: evict(installed, first) == "", "the first eviction, as soon as the budget is counted")
        eventually(lambda: first not in installed.names(), f"{first} to go")
        assert "disruption budget" in evict(installed, second)
        assert second in installed.names()
    finally:
        installed.kubectl("uncordon", "node")


def test_a_broker_that_is_away_makes_pods_unready_and_restarts_none(
    install: Install, release: PulsarRelease, tmp_path: Path
) -> None:
    """Readiness follows the broker, liveness does not."""
    installed = install("events")
    release.scale(0)
    try:
        eventually(lambda: installed.ready() == 0, "no replica to be ready")
    finally:
        release.scale(1)
    eventually(lambda: installed.ready() == 2, "both replicas to be ready", deadline_s=120)
    assert installed.restarts() == 0
    with LoadRun(tmp_path / "load", installed.service_url, new_topic("back")) as run:
        run.start_workers("w1", "w2")
        run.produce(count=500, keys=KEYS, rate_per_s=RATE_PER_S)
        result = run.finish()
    assert result.ok, "\n".join(audit_lines(result))


def test_new_settings_make_new_pods_and_a_rollback_takes_them_back(install: Install, release: PulsarRelease) -> None:
    """Both replicas have what was set, each time."""
    installed = install("events")
    first = installed.names()
    installed.upgrade("config.ordering_mode=last_sent_position")
    second = installed.names()
    assert len(second) == 2
    assert not first & second
    eventually(lambda: modes(installed) == ["last_sent_position"] * 2, "both pods to have the new setting")
    words = ("rollback", "events", "1", "--namespace", release.namespace, "--wait", "--timeout", "120s")
    done = release.cluster.helm(*words)
    assert done.returncode == 0, done.stderr
    eventually(lambda: modes(installed) == ["draining_hashes"] * 2, "both pods to have that of before")


def test_a_stateful_set_keeps_names_and_its_journal(install: Install, release: PulsarRelease, tmp_path: Path) -> None:
    """A volume for each replica, written by a user that is nobody; the same replica finds its files again."""
    for number in range(2):
        release.cluster.kubectl.apply(volume(f"journal-{number}", tmp_path / f"volume-{number}"))
    installed = install(
        *("events", "kind=StatefulSet", "journal.volume.enabled=true", "journal.volume.storageClass=here"),
        *("journal.volume.size=1Gi", "config.journal_deliveries=true", "config.journal_roll_s=2"),
        "config.journal_snapshot_s=2",
    )
    assert installed.names() == {"events-keyline-0", "events-keyline-1"}
    with LoadRun(tmp_path / "load", installed.service_url, new_topic("written")) as run:
        run.start_workers("w1", "w2")
        run.produce(count=500, keys=KEYS, rate_per_s=RATE_PER_S)
        result = run.finish()
    assert result.ok, "\n".join(audit_lines(result))
    installed.kubectl("rollout", "restart", "statefulset/events-keyline")
    installed.kubectl("rollout", "status", "statefulset/events-keyline", "--timeout", "120s")
    written = sorted(tmp_path.glob("volume-*/**/*.parquet"))
    gateways = {part for path in written for part in path.parts if part.startswith("gateway=")}
    assert gateways == {"gateway=events-keyline-0", "gateway=events-keyline-1"}
    deliveries = [path for path in written if "deliveries" in path.parts]
    assert sum(pq.read_metadata(path).num_rows for path in deliveries) >= 2 * 500


def test_everything_that_can_be_switched_on_is_taken_by_the_api_server(install: Install) -> None:
    """What needs no other program: policies and autoscaling by CPU, which sees to the least number without metrics."""
    installed = install("events", "networkPolicy.enabled=true", "autoscaling.enabled=true")
    installed.kubectl("get", "networkpolicy/events-keyline", "hpa/events-keyline")
    eventually(lambda: installed.ready() == 2, "the least number of replicas", deadline_s=120)


def answers(url: str) -> bool:
    """Whether somebody does there."""
    try:
        return httpx.get(url, trust_env=False).is_success
    except httpx.HTTPError:
        return False


def modes(installed: Installed) -> list[str]:
    """The ordering mode in effect at each replica."""
    addresses = [pod["status"]["podIP"] for pod in installed.pods()]
    answers = [httpx.get(f"http://{address}:8750/api/v1/configuration", trust_env=False) for address in addresses]
    return [answer.raise_for_status().json()["ordering_mode"]["value"] for answer in answers]


def evict(installed: Installed, pod: str) -> str:
    """As `kubectl drain` does; what the API server objects to."""
    metadata = {"name": pod, "namespace": installed.namespace}
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata}
    path = f"/api/v1/namespaces/{installed.namespace}/pods/{pod}/eviction"
    said = installed.cluster.kubectl("create", "--raw", path, "--filename", "-", said=json.dumps(eviction), check=False)
    return "" if '"Success"' in said else said


def volume(name: str, place: Path) -> dict[str, Any]:
    """A directory of this machine; nobody provides volumes here."""
    place.mkdir(mode=0o777)
    place.chmod(0o777)
    terms = [{"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "Exists"}]}]
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "here",
            "local": {"path": str(place)},
            "nodeAffinity": {"required": {"nodeSelectorTerms": terms}},
        },
    }
