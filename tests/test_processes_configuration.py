"""What each of several processes is configured with, from what an operator wrote for their host."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from proxy.config.load import InvalidConfiguration, load
from proxy.config.processes import Place
from proxy.config.settings import Config
from proxy.limits import MIB

ADDRESSES = {"listen": "0.0.0.0:7000", "admin_listen": "127.0.0.1:7001", "replica_listen": "127.0.0.1:7002"}


def host_of(options: Mapping[str, Any] | None = None, /, **environment: str) -> Config:
    """Load what an operator wrote."""
    return load(None, {f"KEYLINE_{name.upper()}": value for name, value in environment.items()}, options).config


def mistakes_of(processes: str, **environment: str) -> str:
    """All mistakes of it."""
    with pytest.raises(InvalidConfiguration) as caught:
        host_of(processes=processes, **environment)
    return str(caught.value)


def test_a_host_that_is_alone_becomes_a_deployment_of_its_own() -> None:
    """Two hosts that know nothing of each other may use one namespace."""
    host = host_of(processes="2", replica_name="host")
    first, second = (Place(index, 2, ADDRESSES).config(host).values() for index in range(2))
    for each in (first, second):
        assert each["groups_enabled"]
        assert (each["groups_mode"], each["group_deployment"]) == ("owner", "host")
        assert {name: each[name] for name in ADDRESSES} == ADDRESSES
    assert (first["replica_name"], second["replica_name"]) == ("host-0", "host-1")


def test_memory_is_divided_and_numbers_are_not() -> None:
    """The host's memory is one; how many clients come to a process is chance."""
    host = host_of(processes="4", gateway_memory_bytes="1GiB", connections_max="100")
    each = Place(3, 4, ADDRESSES).config(host).values()
    assert each["gateway_memory_bytes"] == 256 * MIB
    assert each["journal_memory_bytes"] == host.values()["journal_memory_bytes"] // 4
    assert each["connections_max"] == 100


def test_with_other_hosts_each_process_has_the_next_port(tmp_path: Path) -> None:
    """The secret is that of all hosts, and so is the deployment."""
    secret = tmp_path / "secret"
    secret.write_text("s" * 32)
    host = host_of(
        processes="3",
        groups_enabled="true",
        replica_secret_file=str(secret),
        replica_listen="0.0.0.0:6670",
        replica_address="[2001:db8::1]:6670",
    )
    each = Place(2, 3, ADDRESSES).config(host).values()
    assert (each["replica_listen"], each["replica_address"]) == ("0.0.0.0:6672", "[2001:db8::1]:6672")
    assert each["group_deployment"] is None


@pytest.mark.parametrize(
    ("processes", "settings", "wrong"),
    [
        ("0", {}, "must be a whole number from 1 to 64 (processes)"),
        ("-1", {}, "must be a whole number from 1 to 64 (processes)"),
        ("two", {}, "must be a whole number from 1 to 64 (processes)"),
        ("65", {}, "must be a whole number from 1 to 64 (processes)"),
        ("2", {"groups_enabled": "true", "groups_mode": "streams"}, "are replicas in owner mode, and groups_mode is"),
        (
            "16",
            {},
            "leaves 32MiB of gateway_memory_bytes for each, which is less than subscription_memory_bytes (64MiB)",
        ),
    ],
)
def test_nonsense_is_refused_with_what_would_be_right(processes: str, settings: dict[str, str], wrong: str) -> None:
    """The variable is named, and its value."""
    found = mistakes_of(processes, **settings)
    assert wrong in found
    assert f"KEYLINE_PROCESSES: processes = '{processes}'" in found


def test_ports_that_do_not_exist_are_refused(tmp_path: Path) -> None:
    """Each process takes one more."""
    secret = tmp_path / "secret"
    secret.write_text("s" * 32)
    found = mistakes_of("3", groups_enabled="true", replica_secret_file=str(secret), replica_listen="127.0.0.1:65534")
    assert "3 processes take 3 ports from 65534 on, and the last port is 65535" in found


def test_the_option_overrides_the_environment_and_is_named() -> None:
    """As the environment overrides the file."""
    assert host_of({"processes": 3}, processes="2").serving.processes == 3
    assert load(None, {}, {"processes": 3}).origins["processes"] == "command line"
    with pytest.raises(InvalidConfiguration, match="--processes: processes = 0: must be a whole number from 1 to 64"):
        host_of({"processes": 0})
