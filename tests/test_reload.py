"""A running gateway reads its configuration again: by SIGHUP and by the API, all of it or nothing."""

from __future__ import annotations

import secrets
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from integration.secured import KEY_BYTES, signed_token
from proxy.app.reload import NotReloaded, Reloader, subscriptions_fit
from proxy.config.load import Loaded, load
from proxy.config.reloadable import RELOADABLE
from proxy.config.settings import GROUP_OF
from proxy.errors import ConfigurationError
from proxy.net.subscription.order_book import LimitsWanted
from proxy.net.subscription.settings import SubscriptionSettings
from proxy.wire import pulsar_pb2 as pb
from tests.net.subscription_rig import SubscriptionRig
from tests.test_app import Keyline, running

NOWHERE: Final = "pulsar://127.0.0.1:1"


class Configured:
    """A gateway process with a file of its own."""

    def __init__(self, file: Path, gateway: Keyline, admin: str) -> None:
        self.file = file
        self.gateway = gateway
        self.admin = admin

    def write(self, **settings: object) -> None:
        """Write the whole file anew."""
        write(self.file, **settings)

    def hang_up(self) -> dict[str, Any]:
        """Send SIGHUP, and give the line of what it did."""
        self.gateway.signal(signal.SIGHUP)
        return self.gateway.until("configuration reloaded")

    def value(self, name: str, **options: Any) -> Any:
        """A setting in effect."""
        answer = httpx.get(f"{self.admin}/api/v1/configuration", trust_env=False, timeout=60, **options).json()
        return answer[name]["value"]

    def post(self, **options: Any) -> httpx.Response:
        """Order a reload."""
        return httpx.post(f"{self.admin}/api/v1/configuration/reload", trust_env=False, timeout=60, **options)


def write(file: Path, **settings: object) -> None:
    """Write settings as TOML."""
    file.write_text("".join(f"{name} = {value!r}\n".replace("'", '"') for name, value in settings.items()))


@contextmanager
def configured(folder: Path, **settings: object) -> Iterator[Configured]:
    """Start a gateway with these in its file."""
    file = folder / "keyline.toml"
    write(file, **settings)
    with running(config=str(file), broker_url=NOWHERE) as (gateway, admin, _):
        yield Configured(file, gateway, admin)


def test_a_hang_up_changes_what_it_can_and_names_the_rest(tmp_path: Path) -> None:
    """The log has each change and what needs a restart; the rest of the gateway goes on."""
    with configured(tmp_path, log_level="info", workers_max=10, selector="auto_split") as gateway:
        gateway.write(log_level="debug", workers_max=20, selector="consistent_hashing", drain_timeout_s=1)
        line = gateway.hang_up()
        assert line["changed"] == {
            "log_level": "info -> debug",
            "workers_max": "10 -> 20",
            "drain_timeout_s": "25.0 -> 1.0",
        }
        assert (line["needs_restart"], line["by"]) == (["selector"], "SIGHUP")
        assert [gateway.value(name) for name in ("workers_max", "selector")] == [20, "auto_split"]
        gateway.write(selector="consistent_hashing", log_level="debug", workers_max=20, drain_timeout_s=1)
        again = gateway.hang_up()
        assert (again["changed"], again["needs_restart"]) == ({}, ["selector"])
        gateway.gateway.signal(signal.SIGTERM)
        assert gateway.gateway.until("gateway drain started")["timeout_s"] == 1
        assert gateway.gateway.exit_code() == 0


def test_a_bad_file_changes_nothing_and_says_why(tmp_path: Path) -> None:
    """By signal in the log, by the API in the answer: each mistake with the file and what would be right."""
    with configured(tmp_path, workers_max=10) as gateway:
        gateway.write(workers_max=20, workers_maxx=1, key_window=-1)
        gateway.gateway.signal(signal.SIGHUP)
        line = gateway.gateway.until("configuration not reloaded")
        assert line["level"] == "error"
        assert any("workers_maxx" in mistake and "did you mean workers_max" in mistake for mistake in line["mistakes"])
        answer = gateway.post()
        assert answer.status_code == 409
        assert "nothing has changed" in answer.json()["detail"]
        assert f"{gateway.file}: key_window = -1: must be" in answer.json()["detail"]
        assert gateway.value("workers_max") == 10
        gateway.file.unlink()
        assert "cannot be read" in gateway.post().json()["detail"]
        gateway.write(workers_max=30)
        assert gateway.post().json() == {"changed": {"workers_max": {"before": 10, "now": 30}}, "needs_restart": []}


def test_keys_of_callers_are_exchanged(tmp_path: Path) -> None:
    """A new secret in the same file: tokens of the former one are refused from then on, and who may do what is new."""
    file, keys = tmp_path / "secret", [secrets.token_bytes(KEY_BYTES) for _ in range(2)]
    file.write_bytes(keys[0])
    old, new = ({"headers": {"Authorization": f"Bearer {signed_token(key, 'ops')}"}} for key in keys)
    with configured(tmp_path, admin_token_secret_file=str(file), admin_admins="ops") as gateway:
        assert gateway.post().status_code == 401
        assert gateway.post(**old).status_code == 200
        file.write_bytes(keys[1])
        assert gateway.post(**old).status_code == 200
        assert (gateway.post(**old).status_code, gateway.post(**new).status_code) == (401, 200)
        gateway.write(admin_token_secret_file=str(file), admin_viewers="ops")
        assert gateway.post(**new).json()["changed"]["admin_viewers"] == {"before": [], "now": ["ops"]}
        assert gateway.post(**new).status_code == 403
        assert gateway.value("admin_viewers", **new) == ["ops"]
        file.write_bytes(b"short")
        gateway.gateway.signal(signal.SIGHUP)
        assert "too short for a secret" in gateway.gateway.until("configuration not reloaded")["mistakes"][0]
        assert gateway.value("admin_viewers", **new) == ["ops"]


# ---- without a process


def from_environment(**settings: object) -> Loaded:
    """A configuration."""
    return load(None, {f"KEYLINE_{name.upper()}": str(value) for name, value in settings.items()})


def test_tokens_cannot_begin_or_end_without_a_restart(tmp_path: Path) -> None:
    """A gateway that asked nobody goes on asking nobody, and says so: no half of it is in effect."""
    file = tmp_path / "secret"
    file.write_bytes(secrets.token_bytes(KEY_BYTES))
    new = from_environment(admin_token_secret_file=file, admin_admins="ops", workers_max=7)
    done = Reloader(from_environment(), lambda: new, []).reload("a test")
    assert done.needs_restart == ("admin_token_secret_file", "admin_admins")
    assert list(done.changed) == ["workers_max"]


def test_what_replicas_share_by_streams_is_for_a_restart() -> None:
    """A subscription that is here would have to end first; and what else has changed is in effect."""
    new = from_environment(streamed_subscriptions="orders billing", workers_max=7)
    done = Reloader(from_environment(), lambda: new, []).reload("a test")
    assert done.needs_restart == ("streamed_subscriptions",)
    assert list(done.changed) == ["workers_max"]


def test_values_that_contradict_what_stays_are_refused() -> None:
    """`max_frame_bytes` needs a restart, and until then the lower budget would be too small for a frame."""
    applied: list[object] = []
    now = from_environment(max_frame_bytes=8 << 20)
    new = from_environment(
        max_frame_bytes=4 << 20, subscription_memory_bytes=5 << 20, queued_while_connecting_bytes=9999
    )
    reloader = Reloader(now, lambda: new, [lambda config: lambda: applied.append(config)])
    with pytest.raises(NotReloaded, match=r"max_frame_bytes \(8388608\) must be at most .*need a restart first"):
        reloader.reload("a test")
    assert (applied, reloader.loaded) == ([], now)


def test_a_part_that_refuses_keeps_the_others_from_changing() -> None:
    """All are asked before the first changes."""
    applied: list[str] = []

    def refuses(_: object) -> Any:
        raise ConfigurationError("no such key")

    reloader = Reloader(
        from_environment(), lambda: from_environment(workers_max=3), [lambda _: lambda: applied.append("one"), refuses]
    )
    with pytest.raises(NotReloaded, match="no such key"):
        reloader.reload("a test")
    assert applied == []


def test_every_setting_that_is_taken_exists() -> None:
    """A renamed one would else need a restart, unseen; and none of those that are bound at the start is among them."""
    assert set(GROUP_OF) >= RELOADABLE >= set(LimitsWanted.__slots__)
    assert not {name for name in RELOADABLE if name.startswith(("listen", "broker", "tls", "replica", "groups"))}


def test_limits_and_policies_reach_subscriptions_that_are_there() -> None:
    """Under what an operator ordered for one, and what its worker asked for."""
    rig = SubscriptionRig(max_unacked_messages_per_worker=100)
    worker = rig.worker("a", permits=9, metadata=[pb.KeyValue(key="keyline.retry-delay-ms", value="7")])
    assert worker.entries() == []
    rig.subscription.orders.change_limits(LimitsWanted(look_ahead_messages_per_worker=3))
    state, services = rig.subscription.state, rig.subscriptions.services
    rules = ("orders* * key_window=1",)
    new = replace(services.settings, max_unacked_messages_per_worker=5, key_policies=rules, retry_delay_ms=9)
    rig.subscriptions.reconfigure(replace(new, look_ahead_messages_per_worker=77, workers_max=1))
    (joined,) = state.dispatcher.workers.values()
    assert joined.max_unacked == 5
    assert state.dispatcher.policy.window == 1
    assert (state.settings.retry_delay_ms, state.settings.look_ahead_messages_per_worker) == (7, 3)
    assert state.asked.look_ahead_messages_per_worker == 77
    assert rig.subscribe("b").error()[0] == pb.ConsumerBusy
    assert [consumer.window.look_ahead_per_worker for consumer in rig.subscription.consumers] == [3]


def test_a_lower_budget_stops_reading_at_once_and_a_higher_one_resumes_it() -> None:
    """Not only with the next message."""
    rig = SubscriptionRig()
    rig.subscriptions._account(1_000)
    settings = rig.subscriptions.services.settings
    rig.subscriptions.reconfigure(replace(settings, gateway_memory_bytes=10))
    assert rig.subscriptions.services.reading_stopped
    rig.subscriptions.reconfigure(settings)
    assert not rig.subscriptions.services.reading_stopped


def test_limits_that_contradict_an_order_name_the_subscription() -> None:
    """Else the subscription would have limits that no order could have made."""
    settings = replace(SubscriptionSettings(), retry_delay_ms=9, retry_delay_max_ms=5)
    with pytest.raises(ConfigurationError, match=r"billing of orders.*retry_delay_ms \(9\) must be at most"):
        subscriptions_fit([(("orders", "billing"), settings)])


@pytest.mark.parametrize("asked", ["keyline.retry-delay-ms", "keyline.retry-delay-max-ms"])
def test_what_a_worker_asks_for_keeps_no_configuration_from_others(asked: str) -> None:
    """Else any client could keep a revoked key of the admin API in effect."""
    rig = SubscriptionRig()
    rig.worker("a", metadata=[pb.KeyValue(key=asked, value="400")])
    new = replace(rig.subscriptions.services.settings, retry_delay_ms=500 if "max" in asked else 9)
    new = replace(new, retry_delay_max_ms=600 if "max" in asked else 10)
    subscriptions_fit(rig.subscriptions.ordered(new))
    rig.subscriptions.reconfigure(new)
    assert rig.subscription.state.dispatcher.policy.retry_after_s(1) == (0.4 if "max" in asked else 0.01)
    rig.subscription.orders.change_limits(LimitsWanted(retry_delay_ms=700))
    with pytest.raises(ConfigurationError, match=r"retry_delay_ms \(700\) must be at most"):
        subscriptions_fit(rig.subscriptions.ordered(new))


def test_dead_letters_that_the_configuration_no_longer_has_end() -> None:
    """A worker's property chose a number, and the right to have them is the configuration's."""
    rig = SubscriptionRig(dead_letter_after=9)
    rig.worker("a", metadata=[pb.KeyValue(key="keyline.dead-letter-after", value="2")])
    assert rig.subscription.state.settings.dead_letter_after == 2
    rig.subscriptions.reconfigure(replace(rig.subscriptions.services.settings, dead_letter_after=0))
    assert rig.subscription.state.settings.dead_letter_after == 0
