"""The other replicas as the admin API asks them. Implements `admin_api.ports.OtherReplicas`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.net.owner.proof import Told
from proxy.net.owner.questions import Asking

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from proxy.net.owner.dialling import ReplicaDialler
    from proxy.net.owner.questions import Hearer
    from proxy.views.deployment import DeploymentView

ASKER = "an operator"
"""What the other replica's log shows as the client's address."""


class OtherReplicas:
    """By the last record of the deployment."""

    def __init__(self, deployment: DeploymentView, dialler: ReplicaDialler) -> None:
        """`dialler` opens connections to their ports."""
        self._deployment = deployment
        self._dialler = dialler

    @property
    def here(self) -> str:
        """As the port says."""
        return self._deployment.replica

    def serving(self, key: tuple[str, str]) -> str | None:
        """As the port says."""
        return self._deployment.owner_of(*key)

    def find(self, replica: str) -> str:
        """As the port says."""
        return self._deployment.find(replica)

    def names(self) -> Sequence[str]:
        """As the port says."""
        return tuple(self._deployment.addresses())

    def ask(self, replica: str, question: bytes, hearer: Hearer) -> Callable[[], None]:
        """As the port says."""
        asking = Asking(question, hearer)
        address = self._deployment.addresses().get(replica, "")
        if address:
            told = Told(replica, self._deployment.replica, ASKER, purpose="question")
            self._dialler.dial(address, told, asking)
        else:
            asking.closed("it has gone")
        return asking.give_up
