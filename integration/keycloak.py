"""Keycloak: a real identity provider (OAuth2, OpenID Connect), from its Maven artifact, on loopback.

One realm, whose clients are programs that get tokens by their own secrets (the grant `client_credentials`).
"""

from __future__ import annotations

import json
import secrets
import shutil
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

import httpx

from integration import artifacts
from integration.java import java
from integration.lifetime import Lifetime
from integration.ports import LOOPBACK, free_ports
from integration.processes import OwnedProcess

if TYPE_CHECKING:
    from collections.abc import Mapping

VERSION: Final = "26.4.0"
REALM: Final = "team"
AUDIENCE: Final = "pulsar"
CLAIM: Final = "azp"
"""Of a token: the client that it was given to."""
BOOTSTRAP: Final = "bootstrap"
START_S_MAX: Final = 240.0
ANSWER_S_MAX: Final = 30.0
NOTHING_ELSE: Final = (
    "<type>zip</type><exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"
)


@dataclass(frozen=True, slots=True)
class Distribution(artifacts.Bundle):
    """The archive."""

    def pom(self) -> str:
        """Return a project that depends on it alone."""
        return artifacts.project(
            self.name, [artifacts.dependency("org.keycloak", self.artifacts[0], self.version, NOTHING_ELSE)]
        )


def ensure_keycloak() -> Path:
    """Return the archive, fetched first if need be; raises as `artifacts.ensure`."""
    (archive,) = artifacts.ensure(Distribution("keycloak", VERSION, ("keycloak-quarkus-dist",), jar_count=1)).iterdir()
    return archive


class Keycloak(Lifetime):
    """One server."""

    def __init__(self, clients: Mapping[str, int]) -> None:
        """Describe it.

        Args:
            clients: how many seconds a token of each lives, by its name.
        """
        (self._port,) = free_ports(1)
        self._directory = Path(tempfile.mkdtemp(prefix="keyline-keycloak-"))
        self._password = secrets.token_hex(16)
        self._clients = dict(clients)
        self._secrets = {name: secrets.token_hex(16) for name in clients}
        self._keys = 0
        self._process: OwnedProcess | None = None
        self._http = httpx.Client(base_url=f"http://{LOOPBACK}:{self._port}", timeout=ANSWER_S_MAX, trust_env=False)

    @property
    def issuer(self) -> str:
        """As tokens name it."""
        return f"http://{LOOPBACK}:{self._port}/realms/{REALM}"

    @property
    def keys_url(self) -> str:
        """Where it publishes its keys (JWKS)."""
        return f"{self.issuer}/protocol/openid-connect/certs"

    def start(self) -> Self:
        """Return when it gives tokens.

        Raises:
            StartError: it does not; the text has the end of its log.
        """
        try:
            self._run()
        except BaseException:
            self.close()
            raise
        return self

    def close(self) -> None:
        """End it."""
        if self._process is not None:
            self._process.stop()
        self._http.close()
        shutil.rmtree(self._directory, ignore_errors=True)

    def token(self, client: str) -> str:
        """A new one."""
        form = {"grant_type": "client_credentials", "client_id": client, "client_secret": self._secrets[client]}
        return self._asked_for_token(REALM, form)

    def credentials(self, client: str) -> str:
        """What Pulsar's clients take as the parameters of their OAuth2 authentication."""
        file = self._directory / f"{client}.json"
        file.write_text(json.dumps({"client_id": client, "client_secret": self._secrets[client]}))
        private = f"file://{file}"
        asked = {"type": "client_credentials", "issuer_url": self.issuer, "private_key": private, "audience": AUDIENCE}
        return json.dumps(asked)

    def public_key(self) -> str:
        """Of those that it signs tokens with, the one in use: as brokers want it (`tokenPublicKey`)."""
        found: dict[str, Any] = self._http.get(self.issuer).raise_for_status().json()
        return f"data:;base64,{found['public_key']}"

    def new_keys(self) -> None:
        """Sign with another key from now on; those of before are still published."""
        self._keys += 1
        realm = self._administer("GET", "").json()
        settings = {"priority": [f"{200 + self._keys}"], "enabled": ["true"], "active": ["true"], "keySize": ["2048"]}
        component = {"providerId": "rsa-generated", "providerType": "org.keycloak.keys.KeyProvider"}
        named = {"name": f"newer-{self._keys}", "parentId": realm["id"], "config": settings}
        self._administer("POST", "/components", {**component, **named})

    def enable(self, client: str, *, whether: bool) -> None:
        """Give it tokens, or no more."""
        (found,) = self._administer("GET", f"/clients?clientId={client}").json()
        self._administer("PUT", f"/clients/{found['id']}", {**found, "enabled": whether})

    def _run(self) -> None:
        with zipfile.ZipFile(ensure_keycloak()) as archive:
            archive.extractall(self._directory)
        home = self._directory / f"keycloak-{VERSION}"
        (home / "data" / "import").mkdir(parents=True)
        (home / "data" / "import" / f"{REALM}.json").write_text(json.dumps(self._realm()))
        command = ["sh", str(home / "bin" / "kc.sh"), "start-dev", "--import-realm"]
        self._process = OwnedProcess(
            [*command, "--http-host", LOOPBACK, "--http-port", f"{self._port}"],
            self._directory / "log",
            environment={
                "JAVA": str(java()),
                "JAVA_OPTS_APPEND": "-Xmx512m",
                "KC_BOOTSTRAP_ADMIN_USERNAME": BOOTSTRAP,
                "KC_BOOTSTRAP_ADMIN_PASSWORD": self._password,
            },
        )
        self._process.wait_until(self._answers, f"waiting for Keycloak {VERSION}", START_S_MAX)

    def _administer(self, method: str, path: str, body: dict[str, Any] | None = None) -> httpx.Response:
        form = {"grant_type": "password", "client_id": "admin-cli", "username": BOOTSTRAP, "password": self._password}
        headers = {"Authorization": f"Bearer {self._asked_for_token('master', form)}"}
        return self._http.request(method, f"/admin/realms/{REALM}{path}", json=body, headers=headers).raise_for_status()

    def _asked_for_token(self, realm: str, form: dict[str, str]) -> str:
        answer = self._http.post(f"/realms/{realm}/protocol/openid-connect/token", data=form).raise_for_status()
        return str(answer.json()["access_token"])

    def _answers(self) -> bool:
        try:
            return self._http.get(f"{self.issuer}/.well-known/openid-configuration").is_success
        except httpx.TransportError:
            return False

    def _realm(self) -> dict[str, Any]:
        return {
            "realm": REALM,
            "enabled": True,
            "sslRequired": "none",
            "clients": [self._client(name, lives_s) for name, lives_s in self._clients.items()],
        }

    def _client(self, name: str, lives_s: int) -> dict[str, Any]:
        audience = {"included.custom.audience": AUDIENCE, "access.token.claim": "true"}
        mapper = {"name": "audience", "protocol": "openid-connect", "protocolMapper": "oidc-audience-mapper"}
        return {
            "clientId": name,
            "secret": self._secrets[name],
            "enabled": True,
            "publicClient": False,
            "serviceAccountsEnabled": True,
            "standardFlowEnabled": False,
            "attributes": {"access.token.lifespan": f"{lives_s}"},
            "protocolMappers": [{**mapper, "config": audience}],
        }
