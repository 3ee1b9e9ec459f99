"""Reading the configuration: one file, then the environment over it, then every check at once.

An operator who made three mistakes is told of three, each with where it stands, what was found and what would be
right. Unknown settings are mistakes as well: a setting that is misspelt and silently ignored is worse than a refusal
to start. (Kubernetes puts ``KEYLINE_PORT=tcp://...`` and the like into every pod beside a Service named ``keyline``;
those are known by their form and left alone.)
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import SecretStr, ValidationError

from proxy.config.processes import mistakes_of_processes
from proxy.config.relations import RELATIONS
from proxy.config.settings import ENVIRONMENT_PREFIX, GROUP_OF, GROUPS, Config
from proxy.config.types import expectation, split_host_port
from proxy.errors import ConfigurationError

CONFIG_FILE_VARIABLE = "KEYLINE_CONFIG"
"""Names the file; read by the command line."""

_NO_SETTINGS = frozenset(
    {CONFIG_FILE_VARIABLE, "KEYLINE_ADMIN_URL", "KEYLINE_ADMIN_TOKEN", "KEYLINE_ADMIN_CA_FILE", "KEYLINE_CACHE"}
)
"""Variables of the commands, and where `integration` keeps Pulsar's artifacts."""

MASK = "********"

ADMIN_KEYS: Final = ("admin_token_secret_file", "admin_token_public_key_file", "admin_token_jwks_url")
ADMIN_ROLES: Final = ("admin_viewers", "admin_operators", "admin_admins")
ADMIN_CLAIMS: Final = ("admin_token_audience", "admin_token_issuer")
PROXY_ROLE: Final = ("proxy_role_token_file", "proxy_role_certificate_file")
FILES: Final = (
    "admin_token_secret_file",
    "admin_token_public_key_file",
    "broker_token_file",
    "broker_tls_ca_file",
    "broker_tls_certificate_file",
    "broker_tls_key_file",
    "tls_certificate_file",
    "tls_key_file",
    "tls_client_ca_file",
    "proxy_role_token_file",
    "proxy_role_certificate_file",
    "proxy_role_key_file",
    "replica_secret_file",
    "replica_tls_certificate_file",
    "replica_tls_key_file",
    "replica_tls_ca_file",
)
"""Settings that name a file which must be there."""
TOGETHER: Final = (
    ("broker_tls_certificate_file", "broker_tls_key_file", "a certificate is of no use without its key"),
    ("broker_tls_key_file", "broker_tls_certificate_file", "it is the key of that"),
    ("tls_certificate_file", "tls_key_file", "a certificate is of no use without its key"),
    ("tls_key_file", "tls_certificate_file", "it is the key of that"),
    ("listen_tls", "tls_certificate_file", "TLS needs a certificate"),
    ("admin_tls", "tls_certificate_file", "TLS needs a certificate"),
    ("tls_client_ca_file", "listen_tls", "only clients with TLS can present a certificate"),
    ("proxy_role_certificate_file", "proxy_role_key_file", "a certificate is of no use without its key"),
    ("proxy_role_key_file", "proxy_role_certificate_file", "it is the key of that"),
    ("replica_tls_certificate_file", "replica_tls_key_file", "a certificate is of no use without its key"),
    ("replica_tls_key_file", "replica_tls_certificate_file", "it is the key of that"),
    ("replica_tls_certificate_file", "replica_tls_ca_file", "both ends verify each other"),
    ("replica_tls_ca_file", "replica_tls_certificate_file", "both ends verify each other"),
    ("proxy_role_token_file", "tls_client_ca_file", "an authority must have signed the clients' certificates"),
    ("proxy_role_certificate_file", "tls_client_ca_file", "an authority must have signed the clients' certificates"),
)
"""A setting, one that must be set with it, and why."""
HOW_TO_MAKE_ONE: Final = "head -c 32 /dev/urandom | base64 > replica-secret"
"""A shell's command for 32 random bytes as a line of text."""
_ALL_ADDRESSES: Final = ("0.0.0.0", "::")  # noqa: S104 - not listened at: refused as an address for others
_THIS_MACHINE: Final = ("127.0.0.1", "::1", "localhost")
_BEFORE_HOST = re.compile(r"^(\W*(?:[a-z][a-z0-9+.-]*://)?).*@", re.IGNORECASE)
"""User and password of an address, in its repr; with several addresses everything before the last such host."""

Origin = Literal["default", "file", "environment", "command line"]

_SERVICE_LINK = re.compile(
    r"^KEYLINE(_[A-Z0-9_]+)?_(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)$"
)
_SERVICE_LINK_PORT = re.compile(r"^KEYLINE(_[A-Z0-9_]+)?_PORT$")
_SERVICE_LINK_URL = re.compile(r"^(tcp|udp|sctp)://")


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake in the configuration."""

    where: str
    """The file or variable, as the operator knows it."""

    setting: str
    found: str | None
    """The value as it was written; masked if secret, None if there is none to show."""

    wrong: str
    """The error and the valid values."""

    def __str__(self) -> str:
        """As one line."""
        found = f" = {self.found}" if self.found is not None else ""
        subject = f"{self.setting}{found}" if self.setting else ""
        return ": ".join(part for part in (self.where, subject, self.wrong) if part)


class InvalidConfiguration(ConfigurationError):
    """The configuration is invalid; `problems` are all its errors."""

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        """Never without a problem."""
        assert problems
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = problems


@dataclass(frozen=True, slots=True)
class Loaded:
    """A valid configuration, with the origin of each value."""

    config: Config
    origins: Mapping[str, Origin]


@dataclass(frozen=True, slots=True)
class _Given:
    """A value as it was written."""

    value: Any
    origin: Origin
    where: str


def load(file: Path | None, environment: Mapping[str, str], options: Mapping[str, Any] | None = None) -> Loaded:
    """Read and check everything; `options` of the command line override the rest.

    Raises:
        InvalidConfiguration: with all problems found.
    """
    problems: list[Problem] = []
    given = {**_from_file(file, problems), **_from_environment(environment, problems)}
    for name, value in (options or {}).items():
        given[name] = _Given(value, "command line", f"--{name.replace('_', '-')}")
    groups: dict[str, Any] = {}
    for attribute, group in GROUPS.items():
        raw = {name: given[name].value for name in group.model_fields if name in given}
        try:
            groups[attribute] = group.model_validate(raw)
        except ValidationError as error:
            problems += [_problem(dict(detail), given) for detail in error.errors()]
    if not problems:
        config = Config(**groups)
        problems += _related(config, given)
        if not problems:
            origins: dict[str, Origin] = {name: given[name].origin if name in given else "default" for name in GROUP_OF}
            return Loaded(config, origins)
    raise InvalidConfiguration(tuple(problems))


def is_secret(name: str) -> bool:
    """Say whether a setting's value may never be shown."""
    return "SecretStr" in str(GROUP_OF[name][1].model_fields[name].annotation)


def _is_path(name: str) -> bool:
    return "Path" in str(GROUP_OF[name][1].model_fields[name].annotation)


def _from_file(file: Path | None, problems: list[Problem]) -> dict[str, _Given]:
    if file is None:
        return {}
    where = str(file)
    try:
        content = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        problems.append(Problem(where, "", None, f"cannot be read: {error.strerror}"))
        return {}
    except UnicodeDecodeError:
        problems.append(Problem(where, "", None, "is not UTF-8 text"))
        return {}
    except tomllib.TOMLDecodeError as error:
        problems.append(Problem(where, "", None, f"is not TOML: {error}"))
        return {}
    given: dict[str, _Given] = {}
    for name, value in content.items():
        if isinstance(value, dict):
            problems.append(
                Problem(where, f"[{name}]", None, "tables are not used; write each setting at the top level")
            )
        elif name not in GROUP_OF:
            problems.append(Problem(where, name, None, "unknown setting" + _did_you_mean(name)))
        else:
            given[name] = _Given(value, "file", where)
    return given


def _from_environment(environment: Mapping[str, str], problems: list[Problem]) -> dict[str, _Given]:
    given: dict[str, _Given] = {}
    for variable in sorted(environment):
        if not variable.startswith(ENVIRONMENT_PREFIX) or variable in _NO_SETTINGS:
            continue
        name = variable.removeprefix(ENVIRONMENT_PREFIX).lower()
        if name in GROUP_OF:
            given[name] = _Given(environment[variable], "environment", variable)
        elif not _is_service_link(variable, environment[variable]):
            wrong = "unknown variable" + _did_you_mean(name, ENVIRONMENT_PREFIX)
            problems.append(Problem(variable, "", None, wrong))
    return given


def _is_service_link(variable: str, value: str) -> bool:
    if _SERVICE_LINK.match(variable):
        return True
    return bool(_SERVICE_LINK_PORT.match(variable) and _SERVICE_LINK_URL.match(value))


def _did_you_mean(name: str, prefix: str = "") -> str:
    for cutoff in (0.75, 0.55):
        close = difflib.get_close_matches(name, GROUP_OF, n=1, cutoff=cutoff)
        if close:
            suggestion = prefix + close[0].upper() if prefix else close[0]
            return f"; did you mean {suggestion}?"
    return "; `keyline check-config` lists all"


def _problem(detail: dict[str, Any], given: Mapping[str, _Given]) -> Problem:
    """Turn pydantic's finding into one an operator can act on."""
    name = str(detail["loc"][0])
    cause = detail.get("ctx", {}).get("error")
    wrong = str(cause) if cause is not None else "must be " + expectation(GROUP_OF[name][1].model_fields[name])
    return _problem_with(name, given, wrong)


def _problem_with(name: str, given: Mapping[str, _Given], wrong: str) -> Problem:
    if name not in given:
        return Problem("the default", name, None, wrong)
    return Problem(given[name].where, name, _found(name, given[name].value), wrong)


def _found(name: str, value: Any) -> str:
    """Give a value as it was written, less what may be a secret: a wrong address may have a password in it."""
    if is_secret(name):
        return MASK
    return repr(value) if _is_path(name) else _BEFORE_HOST.sub(rf"\1{MASK}@", repr(value))


def _related(config: Config, given: Mapping[str, _Given]) -> list[Problem]:
    values = config.values()
    problems = [
        _problem_with(
            relation.left if relation.left in given or relation.right not in given else relation.right,
            given,
            relation.broken(values),
        )
        for relation in RELATIONS
        if not relation.holds_in(values)
    ]
    if values["broker_token"] is not None and values["broker_token_file"] is not None:
        problems.append(
            _problem_with("broker_token", given, "broker_token_file is set as well; set only one of the two")
        )
    problems += list(_of_admin_tokens(values, given))
    problems += list(_of_proxy_role(values, given))
    problems += list(_of_owner_mode(values, given))
    problems += [_problem_with(name, given, wrong) for name, wrong in mistakes_of_processes(values)]
    problems += [
        _problem_with(name, given, f"needs {other} too: {why}")
        for name, other, why in TOGETHER
        if values[name] and not values[other]
    ]
    problems += [
        _problem_with(name, given, "there is no such file")
        for name in FILES
        if values[name] is not None and not values[name].is_file()
    ]
    return problems


def _of_proxy_role(values: Mapping[str, Any], given: Mapping[str, _Given]) -> Iterator[Problem]:
    """The proxy role differs from the gateway's own, and connects to brokers only."""
    named = [name for name in PROXY_ROLE if values[name] is not None]
    if not named:
        return
    if values["broker_is_proxy"]:
        wrong = "a Pulsar proxy would see the gateway's role for every client; name brokers in broker_url"
        yield _problem_with(named[0], given, f"does not go with broker_is_proxy: {wrong}")
    if named == [PROXY_ROLE[1]] and not values["broker_url"].startswith("pulsar+ssl://"):
        yield _problem_with(named[0], given, "needs pulsar+ssl:// in broker_url: a certificate requires TLS")
    for name, own in zip(PROXY_ROLE, ("broker_token_file", "broker_tls_certificate_file"), strict=True):
        if values[name] is not None and values[name] == values[own]:
            wrong = f"is that of {own}, but brokers let no proxy role consume by itself; use another role"
            yield _problem_with(name, given, wrong)


def _of_owner_mode(values: Mapping[str, Any], given: Mapping[str, _Given]) -> Iterator[Problem]:
    """Replicas prove a secret to each other, and tell each other where they are reached."""
    if not values["groups_enabled"] or values["groups_mode"] != "owner":
        return
    needs = []
    if values["replica_secret_file"] is None:
        needs.append(f"replica_secret_file, a file that all replicas have (make it with: {HOW_TO_MAKE_ONE})")
    if not _is_reached(values, given):
        needs.append("replica_address, host:port where the other replicas reach this one's replica_listen")
    if needs:
        yield _problem_with("groups_enabled", given, f"groups_mode owner needs {'; and '.join(needs)}")


def _is_reached(values: Mapping[str, Any], given: Mapping[str, _Given]) -> bool:
    """A wildcard is no address, and the default is only for replicas on this machine, whose clients are there too."""
    host, _ = split_host_port(values["replica_address"] or values["replica_listen"])
    if "replica_address" in given or "replica_listen" in given:
        return host not in _ALL_ADDRESSES
    return split_host_port(values["listen"])[0] in _THIS_MACHINE


def _of_admin_tokens(values: Mapping[str, Any], given: Mapping[str, _Given]) -> Iterator[Problem]:
    """One kind of key, and at least one role with it."""
    keys = [name for name in ADMIN_KEYS if values[name] is not None]
    for name in keys[1:]:
        yield _problem_with(name, given, f"{keys[0]} is set as well; set only one of them")
    named = [name for name in ADMIN_ROLES if values[name]]
    if keys and not named:
        yield _problem_with(keys[0], given, f"no caller has a role; name one in {ADMIN_ROLES[-1]}")
    if not keys:
        for name in (*named, *(name for name in ADMIN_CLAIMS if values[name] is not None)):
            yield _problem_with(name, given, f"has no effect without one of {', '.join(ADMIN_KEYS)}")


def shown(value: Any) -> Any:
    """Give a value as it may be shown, and as JSON can hold it."""
    if isinstance(value, SecretStr):
        return MASK
    return str(value) if isinstance(value, Path) else list(value) if isinstance(value, tuple) else value
