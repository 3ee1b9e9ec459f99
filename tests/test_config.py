"""Configuration: sources and their order, every mistake at once and in words, and the documentation made from it."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

import pytest

from proxy.config.load import MASK, InvalidConfiguration, Loaded, is_secret, load
from proxy.config.relations import RELATIONS
from proxy.config.settings import GROUP_OF, GROUPS
from proxy.config.show import documentation, effective, effective_json, mistakes, mistakes_json
from proxy.config.types import expectation, service_urls, size_text, split_host_port
from proxy.key_policies import configured
from proxy.limits import Limits
from proxy.net.subscription.settings import SubscriptionSettings

DOCS = Path(__file__).parent.parent / "docs" / "configure.md"


def loaded(**environment: str) -> Loaded:
    """Load from an environment given in lower case and without the prefix."""
    return load(None, {f"KEYLINE_{name.upper()}": value for name, value in environment.items()})


def mistakes_of(file: Path | None = None, **environment: str) -> list[str]:
    """Load what cannot work; the mistakes, one line each."""
    with pytest.raises(InvalidConfiguration) as caught:
        load(file, {f"KEYLINE_{name.upper()}": value for name, value in environment.items()})
    return [str(problem) for problem in caught.value.problems]


def written(tmp_path: Path, text: str) -> Path:
    """Write a configuration file."""
    file = tmp_path / "keyline.toml"
    file.write_text(text)
    return file


def test_without_any_source_the_defaults_hold() -> None:
    """The gateway starts beside a standalone broker with no configuration at all."""
    config = load(None, {}).config
    assert config.broker.broker_url == "pulsar://127.0.0.1:6650"
    assert config.serving.listen == "127.0.0.1:6660"
    assert config.serving.admin_listen == "127.0.0.1:8750"
    assert config.ordering.ordering_mode == "draining_hashes"
    assert config.serving.replica_name


def test_the_environment_overrides_the_file_and_origins_say_so(tmp_path: Path) -> None:
    """Each value knows where it came from."""
    file = written(tmp_path, 'listen = "0.0.0.0:6650"\nselector = "auto_split"\n')
    result = load(file, {"KEYLINE_LISTEN": "127.0.0.1:7000", "PATH": "/bin"})
    assert result.config.serving.listen == "127.0.0.1:7000"
    assert result.config.ordering.selector == "auto_split"
    origins = {name: result.origins[name] for name in ("listen", "selector", "admin_listen")}
    assert origins == {"listen": "environment", "selector": "file", "admin_listen": "default"}


def test_the_environments_texts_become_values() -> None:
    """Numbers, truth values, sizes and paths are written as text there."""
    values = loaded(
        upstream_batch_index_ack="no", gateway_memory_bytes="1GiB", drain_timeout_s="2.5", connections_max="7"
    ).config.values()
    assert values["upstream_batch_index_ack"] is False
    assert values["gateway_memory_bytes"] == 1 << 30
    assert values["drain_timeout_s"] == 2.5
    assert values["connections_max"] == 7


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ("orders billing", "must be topic, subscription and name=number"),
        ("orders billing window=1", "window is not one of key_window, retry_delay_ms"),
        ("orders billing key_window=-1", "key_window must be a whole number from 0 to 1,000,000"),
        ("orders billing retry_multiplier=0.5", "retry_multiplier must be a number from 1 to 100"),
        ("non-persistent://a/b/c billing key_window=1", "is not the name of a persistent topic"),
        ("a/b billing key_window=1", "a/b is not the name of a persistent topic"),
        ("* * retry_delay_ms=9 retry_delay_max_ms=8", "retry_delay_ms must be at most retry_delay_max_ms"),
    ],
)
def test_a_key_policy_that_is_none_is_refused_with_the_reason(rule: str, words: str) -> None:
    """At load, not when the first worker comes."""
    (line,) = mistakes_of(key_policies=f"orders* billing key_window=1, {rule}")
    assert words in line
    assert "KEYLINE_KEY_POLICIES" in line


def test_key_policies_go_by_topic_and_subscription() -> None:
    """The first that matches, alone; a partitioned topic's name means its partitions."""
    rules = loaded(
        key_policies="orders billing key_window=1,tenant/ns/* b* retry_delay_ms=5,* audit key_window=9"
    ).config.ordering.key_policies
    assert configured(rules, "persistent://public/default/orders", "billing") == {"key_window": 1}
    assert configured(rules, "persistent://public/default/orders-partition-12", "billing") == {"key_window": 1}
    assert configured(rules, "persistent://public/default/orders-old", "billing") == {}
    assert configured(rules, "persistent://tenant/ns/any", "b2") == {"retry_delay_ms": 5}
    assert configured(rules, "persistent://tenant/ns/any", "audit") == {"key_window": 9}


def test_lists_are_written_with_commas_or_as_lists(tmp_path: Path) -> None:
    """The environment has no lists, TOML has."""
    file = written(tmp_path, "allowed_broker_ports = [6650, 6651]\n")
    result = load(file, {"KEYLINE_ALLOWED_BROKER_HOSTS": "broker-0, .pulsar.svc"})
    assert result.config.serving.allowed_broker_hosts == ("broker-0", ".pulsar.svc")
    assert result.config.serving.allowed_broker_ports == (6650, 6651)
    assert "broker-0,.pulsar.svc" in effective(result)
    (line,) = mistakes_of(allowed_broker_ports="6650,70000")
    assert line.endswith("must be ports from 1 to 65535, separated by commas")


def test_models_are_frozen() -> None:
    """Nobody changes the configuration after it was checked."""
    config = load(None, {}).config
    with pytest.raises(ValueError, match="frozen"):
        config.serving.listen = "0.0.0.0:1"
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.serving = None  # type: ignore[misc,assignment]


@pytest.mark.parametrize(
    ("setting", "value", "said"),
    [
        ("listen", "6660", "must be host:port with a port from 0 to 65535, e.g. 127.0.0.1:6660 or [::1]:6660"),
        (
            "listen",
            "127.0.0.1:70000",
            "must be host:port with a port from 0 to 65535, e.g. 127.0.0.1:6660 or [::1]:6660",
        ),
        ("broker_url", "http://broker:8080", "the scheme is 'http', it should be pulsar or pulsar+ssl"),
        ("broker_url", "broker:6650", "must begin with pulsar:// or pulsar+ssl://"),
        ("broker_admin_url", "broker:8080", "must be http://host:port or https://host:port"),
        (
            "broker_admin_url",
            "http://admin:hush@broker:8080",
            "must have no user, query or fragment: it is shown, and used for all clients",
        ),
        ("ordering_mode", "strict", "must be one of draining_hashes, last_sent_position, unordered"),
        ("drain_timeout_s", "-1", "must be a number from 0 to 3,600 (seconds)"),
        ("drain_timeout_s", "nan", "must be a number from 0 to 3,600 (seconds)"),
        ("upstream_request_timeout_s", "0", "must be a number above 0 up to 600 (seconds)"),
        (
            "turns_per_s_max",
            "1",
            "must be 0, or from 100: between two turns the gateway serves no one, here for 1000 ms",
        ),
        ("connections_max", "many", "must be a whole number from 1 to 1,000,000 (connections)"),
        ("subscription_memory_bytes", "64 parsecs", "must be a size from 1MiB to 1024GiB, in bytes or with a unit"),
        ("upstream_batch_index_ack", "perhaps", "must be true or false"),
        ("replica_name", " ", "must be a printable name that is not empty"),
        ("broker_tls_ca_file", "/nowhere/ca.pem", "there is no such file"),
    ],
)
def test_a_wrong_value_is_named_with_what_would_be_right(setting: str, value: str, said: str) -> None:
    """Variable, setting, value and remedy stand in one line."""
    (line,) = mistakes_of(None, **{setting: value})
    assert line.startswith(f"KEYLINE_{setting.upper()}: {setting} = {value.replace('admin:hush', MASK)!r}: ")
    assert line.endswith(said)


@pytest.mark.parametrize("setting", ["broker_url", "broker_admin_url", "listen", "admin_listen"])
@pytest.mark.parametrize(
    "value",
    [
        "http://admin:hush@broker:8080",
        "http://admin:hu/hush@broker:8080",
        "http://admin:hu?hush@broker:8080",
        "http://admin:hush@hush@broker:8080",
        "http://admin:hush\u2100\n@broker:8080",
        "http//admin:hush@broker:8080",
        "admin:hush@broker:8080",
        "pulsar://hush@broker:6650",
        "pulsar://admin:hush@broker:6650",
        "pulsar://one:6650,admin:hush@two:6650",
        "pulsar://admin:hush@one:6650, two:6650",
        "ftp://admin:hush@broker",
    ],
)
def test_no_address_has_a_password_and_none_is_told(setting: str, value: str) -> None:
    """Neither in the value found nor in what is wrong with it, for people or programs; so none can be in effect."""
    with pytest.raises(InvalidConfiguration) as caught:
        loaded(**{setting: value})
    told = [str(caught.value), mistakes(caught.value), str(mistakes_json(caught.value)), repr(caught.value)]
    assert not any("hush" in text or "admin:" in text for text in told)
    (found,) = [problem.found for problem in caught.value.problems]
    assert found is not None
    assert MASK + "@" in found


def test_a_password_in_a_list_is_masked_as_well(tmp_path: Path) -> None:
    """A file may have one where text belongs."""
    (line,) = mistakes_of(written(tmp_path, 'broker_admin_url = ["http://admin:hush@broker:8080"]\n'))
    assert f"broker_admin_url = ['http://{MASK}@broker:8080']: " in line


def test_a_path_is_told_as_it_was_written() -> None:
    """An at-sign is nothing special there."""
    (line,) = mistakes_of(broker_token_file="/nowhere/a@b")
    assert "broker_token_file = '/nowhere/a@b': there is no such file" in line


def test_every_mistake_is_told_at_once(tmp_path: Path) -> None:
    """From both sources, and each with its own place."""
    file = written(tmp_path, 'listen = "nowhere"\nconnections_max = 0\n')
    lines = mistakes_of(file, log_level="loud")
    assert [line.split(":")[0] for line in lines] == [str(file), "KEYLINE_LOG_LEVEL", str(file)]


@pytest.mark.parametrize(
    ("variable", "said"),
    [
        ("KEYLINE_BROKER_ULR", "unknown variable; did you mean KEYLINE_BROKER_URL?"),
        ("KEYLINE_LOOK_AHEAD_MESSAGES", "unknown variable; did you mean KEYLINE_LOOK_AHEAD_MESSAGES_PER_WORKER?"),
        ("KEYLINE_LISTEN_PORT", "unknown variable; did you mean KEYLINE_LISTEN_TLS?"),
        ("KEYLINE_XYZZY", "unknown variable; `keyline check-config` lists all"),
    ],
)
def test_an_unknown_variable_is_refused_with_a_guess(variable: str, said: str) -> None:
    """A setting that is misspelt must not be ignored."""
    with pytest.raises(InvalidConfiguration) as caught:
        load(None, {variable: "1"})
    assert str(caught.value) == f"{variable}: {said}"


def test_an_unknown_key_or_a_table_in_the_file_is_refused(tmp_path: Path) -> None:
    """The file is flat."""
    file = written(tmp_path, 'brokerurl = "x"\n[broker]\nbroker_url = "x"\n')
    assert mistakes_of(file) == [
        f"{file}: brokerurl: unknown setting; did you mean broker_url?",
        f"{file}: [broker]: tables are not used; write each setting at the top level",
    ]


@pytest.mark.parametrize(
    ("content", "said"),
    [(b"listen = ", "is not TOML: Invalid value (at end of document)"), (b"\xff", "is not UTF-8 text")],
)
def test_a_file_that_cannot_be_parsed_says_where(tmp_path: Path, content: bytes, said: str) -> None:
    """No stack trace, one line."""
    file = tmp_path / "keyline.toml"
    file.write_bytes(content)
    assert mistakes_of(file) == [f"{file}: {said}"]


def test_a_missing_file_is_a_mistake(tmp_path: Path) -> None:
    """Asked for, it must be there."""
    assert mistakes_of(tmp_path / "none.toml") == [
        f"{tmp_path / 'none.toml'}: cannot be read: No such file or directory"
    ]


def test_the_variables_kubernetes_makes_for_a_service_named_keyline_are_passed_over() -> None:
    """Else every pod beside such a Service would refuse to start."""
    links = {
        "KEYLINE_SERVICE_HOST": "10.0.0.1",
        "KEYLINE_SERVICE_PORT": "6660",
        "KEYLINE_SERVICE_PORT_PULSAR": "6660",
        "KEYLINE_PORT": "tcp://10.0.0.1:6660",
        "KEYLINE_PORT_6660_TCP": "tcp://10.0.0.1:6660",
        "KEYLINE_PORT_6660_TCP_ADDR": "10.0.0.1",
        "KEYLINE_ADMIN_SERVICE_HOST": "10.0.0.2",
        "KEYLINE_ADMIN_PORT": "tcp://10.0.0.2:8750",
        "KEYLINE_CONFIG": "read by the command line",
        "KEYLINE_CACHE": "read by integration",
    }
    load(None, links)
    assert "unknown variable" in mistakes_of(port="6660")[0]


_BREAKING = {
    "subscription_memory_bytes": {"subscription_memory_bytes": "1GiB"},
    "look_ahead_messages_per_worker": {"look_ahead_messages_per_worker": "20001"},
    "retry_delay_ms": {"retry_delay_ms": "600001"},
    "reconnect_backoff_initial_ms": {"reconnect_backoff_max_ms": "99"},
    "unread_low_water_bytes": {"unread_low_water_bytes": "1MiB"},
    "unread_high_water_bytes": {"unread_high_water_bytes": "64MiB"},
    "max_frame_bytes": {"max_frame_bytes": "65MiB", "unread_bytes_max": "65MiB"},
    "queued_while_connecting_bytes": {"queued_while_connecting_bytes": "10MiB"},
    "connections_per_address_max": {"connections_per_address_max": "20001"},
    "group_lease_s": {"group_lease_s": "7"},
}


@pytest.mark.parametrize("relation", RELATIONS, ids=lambda relation: f"{relation.left} {relation.right}")
def test_a_broken_relation_names_both_settings(relation: Any) -> None:
    """It is blamed on the one the operator wrote."""
    lines = mistakes_of(None, **_BREAKING[relation.left])
    said = f"must be {relation.words} {relation.right} "
    assert any(re.search(rf"\b{relation.left} \([\d.]+\) {said}\([\d.]+\): {relation.why}", line) for line in lines)
    assert all(line.startswith("KEYLINE_") for line in lines)


def test_a_token_and_a_token_file_exclude_each_other(tmp_path: Path) -> None:
    """Which of the two would hold is not to be guessed; and the token is masked in the complaint."""
    file = tmp_path / "token"
    file.write_text("from-file")
    (line,) = mistakes_of(broker_token="from-environment", broker_token_file=str(file))
    assert (
        line
        == f"KEYLINE_BROKER_TOKEN: broker_token = {MASK}: broker_token_file is set as well; set only one of the two"
    )


@pytest.fixture
def proxying(tmp_path: Path) -> dict[str, str]:
    """Settings of a gateway that speaks for clients with certificates; whatever is in the files."""
    files = {}
    for name in ("certificate", "key", "clients", "own", "token"):
        files[name] = str(tmp_path / name)
        Path(files[name]).write_text(name)
    return {
        "broker_url": "pulsar+ssl://broker",
        "broker_tls_certificate_file": files["own"],
        "broker_tls_key_file": files["key"],
        "listen_tls": "127.0.0.1:6661",
        "tls_certificate_file": files["certificate"],
        "tls_key_file": files["key"],
        "tls_client_ca_file": files["clients"],
        "proxy_role_certificate_file": files["certificate"],
        "proxy_role_key_file": files["key"],
    }


def test_a_proxy_role_is_one_of_its_own(proxying: dict[str, str], tmp_path: Path) -> None:
    """A certificate, or a token, or both."""
    loaded(**proxying)
    loaded(**proxying, proxy_role_token_file=str(tmp_path / "token"))
    (line,) = mistakes_of(None, **{**proxying, "proxy_role_certificate_file": proxying["broker_tls_certificate_file"]})
    assert "is that of broker_tls_certificate_file, but brokers let no proxy role consume by itself" in line
    token = str(tmp_path / "token")
    (line,) = mistakes_of(None, **proxying, broker_token_file=token, proxy_role_token_file=token)
    assert "is that of broker_token_file" in line


def test_a_proxy_role_goes_to_brokers_alone(proxying: dict[str, str], tmp_path: Path) -> None:
    """A Pulsar proxy would put it in the place of every client's role; and without TLS no certificate is shown."""
    (line,) = mistakes_of(None, **proxying, broker_is_proxy="true")
    assert "proxy_role_certificate_file" in line
    assert "does not go with broker_is_proxy" in line
    plain = {**proxying, "broker_url": "pulsar://broker"}
    (line,) = mistakes_of(None, **plain)
    assert "needs pulsar+ssl:// in broker_url" in line
    loaded(**plain, proxy_role_token_file=str(tmp_path / "token"))


@pytest.mark.parametrize(
    ("missing", "named"),
    [
        ("tls_client_ca_file", "proxy_role_certificate_file"),
        ("proxy_role_key_file", "proxy_role_certificate_file"),
        ("proxy_role_certificate_file", "proxy_role_key_file"),
    ],
)
def test_what_a_proxy_role_needs_is_named(proxying: dict[str, str], missing: str, named: str) -> None:
    """Somebody must have signed the clients' certificates, and a certificate needs its key."""
    del proxying[missing]
    (line,) = mistakes_of(None, **proxying)
    assert named in line
    assert f"needs {missing} too" in line


@pytest.mark.parametrize(
    ("settings", "needs"),
    [
        ({}, ["replica_secret_file"]),
        ({"listen": "10.0.0.1:6660"}, ["replica_secret_file", "replica_address"]),
        ({"listen": "0.0.0.0:6660", "replica_secret_file": "secret"}, ["replica_address"]),
        ({"replica_listen": "0.0.0.0:6670", "replica_secret_file": "secret"}, ["replica_address"]),
        ({"replica_listen": "[::]:6670", "replica_secret_file": "secret"}, ["replica_address"]),
    ],
    ids=["nothing", "no secret, no address", "default address", "all addresses", "all addresses of IPv6"],
)
def test_what_owner_mode_needs_is_named_in_one_sentence(
    settings: dict[str, str], needs: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And no more than what is missing."""
    monkeypatch.chdir(tmp_path)
    Path("secret").touch()
    (line,) = mistakes_of(None, groups_enabled="true", **settings)
    assert line.startswith("KEYLINE_GROUPS_ENABLED: groups_enabled = 'true': groups_mode owner needs ")
    assert re.findall(r"(?:needs|and) (replica_\w+),", line) == needs


@pytest.mark.parametrize(
    "settings",
    [
        {"replica_secret_file": "secret"},
        {"listen": "0.0.0.0:6660", "replica_secret_file": "secret", "replica_listen": "10.0.0.1:6670"},
        {"replica_secret_file": "secret", "replica_listen": "0.0.0.0:6670", "replica_address": "keyline-0:6670"},
        {"groups_mode": "streams"},
    ],
    ids=["one machine", "an address", "an address besides", "streams"],
)
def test_what_owner_mode_needs_is_all_it_needs(
    settings: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the default address replicas are on one machine, as their clients are; streams need neither."""
    monkeypatch.chdir(tmp_path)
    Path("secret").touch()
    loaded(groups_enabled="true", **settings)


def test_no_secret_is_ever_shown() -> None:
    """Not in what is in effect, not as JSON, not in a repr."""
    result = loaded(broker_token="hush")
    shown = [effective(result), str(effective_json(result)), repr(result), str(result.config.values())]
    assert not any("hush" in text for text in shown)
    assert effective_json(result)["settings"]["broker_token"] == {"value": MASK, "origin": "environment"}
    assert [name for name in GROUP_OF if is_secret(name)] == ["broker_token", "journal_key_secret"]


def test_what_is_in_effect_is_shown_with_its_origin() -> None:
    """One line per setting, in the documentation's order."""
    lines = effective(loaded(selector="auto_split")).splitlines()
    assert [line.split()[0] for line in lines] == list(GROUP_OF)
    assert next(line.split() for line in lines if line.startswith("selector")) == [
        "selector",
        "auto_split",
        "environment",
    ]


def test_mistakes_are_written_for_people_and_for_programs() -> None:
    """The same facts in two forms."""
    with pytest.raises(InvalidConfiguration) as caught:
        loaded(connections_max="0")
    said = "must be a whole number from 1 to 1,000,000 (connections)"
    assert mistakes(caught.value) == (
        f"the configuration has a mistake:\n  KEYLINE_CONNECTIONS_MAX: connections_max = '0': {said}"
    )
    problem = {"where": "KEYLINE_CONNECTIONS_MAX", "setting": "connections_max", "found": "'0'", "wrong": said}
    assert mistakes_json(caught.value) == {"valid": False, "problems": [problem]}


def test_every_setting_is_described_and_bounded() -> None:
    """A number without a bound or a unit is an accident waiting."""
    for group in GROUPS.values():
        for name, field in group.model_fields.items():
            assert field.description, name
            if field.annotation in (int, float):
                assert " from " in expectation(field) or " above " in expectation(field), name
                assert "(" in expectation(field), name


def test_names_are_unique_over_all_groups() -> None:
    """One setting, one variable."""
    assert len(GROUP_OF) == sum(len(group.model_fields) for group in GROUPS.values())


def test_every_limit_and_every_subscription_setting_can_be_configured() -> None:
    """Names and defaults are the same on both sides."""
    values = load(None, {}).config.values()
    for made in (Limits(), SubscriptionSettings()):
        for field in dataclasses.fields(made):
            assert field.name in values, field.name
            if field.name != "replica_name":
                assert values[field.name] == getattr(made, field.name), field.name


def test_the_documentation_is_what_the_models_say() -> None:
    """After a change: ``python -m proxy.config.show > docs/configure.md``."""
    assert DOCS.read_text() == documentation()


def test_addresses_are_taken_apart() -> None:
    """IPv6 in brackets, default ports, several hosts."""
    assert split_host_port("[::1]:6660") == ("::1", 6660)
    assert split_host_port("0.0.0.0:0") == ("0.0.0.0", 0)
    assert service_urls("pulsar://a, b:1234") == ("pulsar://a:6650", "pulsar://b:1234")
    assert service_urls("pulsar+ssl://a") == ("pulsar+ssl://a:6651",)


@pytest.mark.parametrize("address", ["", ":6660", "host", "host:", "host:x", "user@host:1", "host:1/path", "::1:6660"])
def test_what_is_no_address_is_refused(address: str) -> None:
    """Nothing is guessed."""
    with pytest.raises(ValueError, match="must be host:port"):
        split_host_port(address)


def test_sizes_are_written_with_the_largest_unit_that_divides_them() -> None:
    """As a setting takes them."""
    assert [size_text(n) for n in (0, 1000, 1024, 3 << 20, 1 << 30)] == ["0", "1000", "1KiB", "3MiB", "1GiB"]
