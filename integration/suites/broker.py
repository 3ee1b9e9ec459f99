"""A broker as the clients' tests expect it, on the ports that they have written into them.

Tests without credentials come as `anonymous` and may use `public`; those with a token may use `private/auth`. All
credentials are the Go module's own, and public. With a gateway the broker is on other ports, and the gateway takes
those of clients and of the admin API, which it passes on to the broker; the admin API by TLS is the broker's on both
ways.
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Final, Self

from integration.gateway import KeylineGateway
from integration.lifetime import Lifetime
from integration.standalone import PulsarStandalone
from integration.suites.outcomes import Way

PORT: Final = 6650
TLS_PORT: Final = 6651
WEB_PORT: Final = 8080
WEB_TLS_PORT: Final = 8443
BEHIND: Final = 10
"""How far above them the broker's ports are when the gateway has them."""
MESSAGE_BYTES_MAX: Final = 1024 * 1024
_PROVIDER: Final = "org.apache.pulsar.broker.authentication.AuthenticationProvider"


class SuiteBroker(Lifetime):
    """A broker, and a gateway in front of it on one of two ways. Use it as a context manager."""

    def __init__(self, version: str, way: Way, credentials: Path, directory: Path) -> None:
        """Describe it.

        Args:
            version: of Pulsar.
            way: of the tests.
            credentials: the Go module's `integration-tests`.
            directory: where logs and data go.
        """
        behind = BEHIND if way is Way.THROUGH else 0
        token_file = credentials / "tokens" / "admin-token"
        settings = _settings(credentials, TLS_PORT + behind)
        self._broker = PulsarStandalone(
            version,
            data=directory / "broker",
            port=PORT + behind,
            web_port=WEB_PORT + behind,
            settings=settings,
            transactions=True,
            token=token_file.read_text().strip(),
            options=(f"-Dpulsar.auth.basic.conf={credentials / 'conf' / '.htpasswd'}",),
        )
        self._gateway: KeylineGateway | None = None
        if way is Way.THROUGH:
            tls = {
                "listen_tls": f"127.0.0.1:{TLS_PORT}",
                "tls_certificate_file": str(credentials / "certs" / "broker-cert.pem"),
                "tls_key_file": str(credentials / "certs" / "broker-key.pem"),
            }
            self._gateway = KeylineGateway(
                self._broker.service_url,
                self._broker.admin_url,
                directory / "gateway",
                port=PORT,
                admin_port=WEB_PORT,
                settings={
                    "broker_token_file": str(token_file),
                    "selector": "auto_split",
                    "admin_writes_to_broker": "true",
                    **tls,
                },
            )
        self._parts = ExitStack()

    def start(self) -> Self:
        """Start it, and permit what tests do."""
        with ExitStack() as parts:
            parts.enter_context(self._broker)
            self._permit()
            if self._gateway is not None:
                parts.enter_context(self._gateway)
            self._parts = parts.pop_all()
        return self

    def close(self) -> None:
        """Stop it."""
        self._parts.close()

    def _permit(self) -> None:
        roles = {"adminRoles": ["anonymous"], "allowedClusters": ["standalone"]}
        both = ["produce", "consume"]
        with self._broker.admin() as http:
            http.post("/admin/v2/tenants/public", json=roles).raise_for_status()
            http.post("/admin/v2/namespaces/public/default/permissions/anonymous", json=both).raise_for_status()
            http.put("/admin/v2/tenants/private", json={**roles, "adminRoles": []}).raise_for_status()
            http.put("/admin/v2/namespaces/private/auth").raise_for_status()
            permissions = "/admin/v2/namespaces/private/auth/permissions/token-principal"
            http.post(permissions, json=both).raise_for_status()


def _settings(credentials: Path, tls_port: int) -> dict[str, str]:
    """What these tests need beside transactions, as the module's own configuration of a broker has it."""
    certificates = credentials / "certs"
    return {
        "advertisedAddress": "localhost",
        "brokerServicePortTls": str(tls_port),
        "webServicePortTls": str(WEB_TLS_PORT),
        "tlsEnabled": "true",
        "tlsCertificateFilePath": str(certificates / "broker-cert.pem"),
        "tlsKeyFilePath": str(certificates / "broker-key.pem"),
        "tlsTrustCertsFilePath": str(certificates / "cacert.pem"),
        "authenticationEnabled": "true",
        "authenticationProviders": ",".join(f"{_PROVIDER}{kind}" for kind in ("Tls", "Token", "Basic")),
        "anonymousUserRole": "anonymous",
        "authorizationEnabled": "true",
        "tokenSecretKey": f"file://{credentials / 'tokens' / 'secret.key'}",
        "superUserRoles": "localhost,superUser,admin",
        "brokerClientAuthenticationPlugin": "org.apache.pulsar.client.impl.auth.AuthenticationToken",
        "brokerClientAuthenticationParameters": f"file://{credentials / 'tokens' / 'admin-token'}",
        # With the ring, where two workers have 3 keys, one of them has none in a quarter of all runs.
        "subscriptionKeySharedUseConsistentHashing": "false",
        "maxMessageSize": str(MESSAGE_BYTES_MAX),
        "topicLevelPoliciesEnabled": "true",
        "backlogQuotaCheckIntervalInSeconds": "5",
        "brokerShutdownTimeoutMs": "3000",
    }
