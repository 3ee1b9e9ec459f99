"""A request for a subscription that has just moved: the replica that was asked knows less than the former owner."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from admin_api import replicas
from admin_api.ports import Hearer
from proxy.groups.memory import GroupMemory
from proxy.groups.messages import SessionId
from tests.admin_api.rig import SUBSCRIPTION
from tests.admin_api.test_replicas import BUNDLES, Carried, Rig


class Deployed:
    """Replicas `here`, `there` and `third`. Implements `admin_api.ports.OtherReplicas` for `here`."""

    here = "here"

    def __init__(self) -> None:
        self.rigs: dict[str, Rig] = {}
        self.asked: list[str] = []
        self.then: Callable[[], None] = lambda: None
        """What happens after the first question."""
        self.looked: Callable[[], None] = lambda: None
        """What happens when this replica has looked for the owner."""
        for name in ("here", "there", "third"):
            self.rigs[name] = Rig(name, self if name == "here" else None)

    def moved(self, owner: str, *knowing: str) -> None:
        """Let some replicas know a new owner of everything."""
        owners = tuple((bundle, SessionId(owner, 1)) for bundle in range(BUNDLES))
        addresses = tuple((name, f"pulsar://{name}:6670") for name in sorted(self.rigs))
        for name in knowing:
            learned = GroupMemory(9, "there", 1, BUNDLES, owners, addresses=addresses)
            self.rigs[name].deployment.owners.learn(learned)

    def serving(self, key: tuple[str, str]) -> str | None:
        """As the port says."""
        found = self.rigs["here"].new_view().owner_of(*key)
        self.looked()
        self.looked = lambda: None
        return found

    def find(self, replica: str) -> str:
        """As the port says."""
        return replica

    def names(self) -> Sequence[str]:
        """As the port says."""
        return ("there", "third")

    def ask(self, replica: str, question: bytes, hearer: Hearer) -> Callable[[], None]:
        """As the port says."""
        self.asked.append(replica)
        give_up = self.rigs[replica].answers.answer(question, Carried(hearer, None))
        self.then()
        self.then = lambda: None
        return give_up


@pytest.fixture
def deployed(monkeypatch: pytest.MonkeyPatch) -> Deployed:
    """A subscription has moved away from `there`, which alone knows."""
    monkeypatch.setattr(replicas, "MOVE_LOOKS_S", (0.0,) * 4)
    return Deployed()


def test_who_has_it_now_is_asked(deployed: Deployed) -> None:
    """As soon as this replica knows."""
    deployed.moved("third", "there", "third")
    deployed.rigs["third"].worker("a")
    deployed.then = lambda: deployed.moved("third", "here")
    deployed.rigs["here"].order("POST", "/pause")
    assert deployed.asked == ["there", "third"]
    assert deployed.rigs["third"].get("")["dispatcher"]["paused"]


@pytest.mark.parametrize("here", [False, True])
def test_it_may_move_between_the_look_at_the_path_and_the_order(deployed: Deployed, *, here: bool) -> None:
    """It is carried out where it has moved to, body and all, unless this replica alone is asked."""
    deployed.moved("here", "here", "there", "third")
    deployed.rigs["third"].worker("a")
    deployed.looked = lambda: deployed.moved("third", "here", "third")
    if here:  # then it does not look
        deployed.looked()
    path, body = f"{SUBSCRIPTION}/limits", {"max_unacked_messages_per_worker": 7}
    answer = deployed.rigs["here"].ask("PUT", path, json=body, params={"here": str(here).lower()})
    assert (answer.status_code, deployed.asked) == ((404, []) if here else (200, ["third"])), answer.text


def test_it_may_have_moved_to_the_one_that_is_asked(deployed: Deployed) -> None:
    """Which answers itself, body and all."""
    deployed.moved("here", "there", "third")
    deployed.rigs["here"].worker("a")
    deployed.then = lambda: deployed.moved("here", "here")
    told = deployed.rigs["here"].order("PUT", "/limits", {"max_unacked_messages_per_worker": 7})
    assert told["max_unacked_messages_per_worker"] == 7
    assert deployed.rigs["here"].get("")["dispatcher"]["workers"][0]["name"] == "a"
    assert deployed.asked == ["there"]


def test_what_is_refused_where_it_moved_to_is_told(deployed: Deployed) -> None:
    """By the route itself, as if nothing had moved."""
    deployed.moved("here", "there", "third")
    deployed.rigs["here"].worker("a")
    deployed.then = lambda: deployed.moved("here", "here")
    refused = deployed.rigs["here"].ask("POST", SUBSCRIPTION + "/workers/b/evict")
    assert (refused.status_code, refused.json()["detail"]) == (404, "subscription s has no worker b here; it has: a")


def test_a_move_that_does_not_become_known_is_told(deployed: Deployed) -> None:
    """After a while: who asks again is led there."""
    deployed.moved("third", "there", "third")
    answer = deployed.rigs["here"].ask("POST", SUBSCRIPTION + "/pause")
    assert answer.status_code == 503
    assert (
        "another replica owns this now than there, which this one does not know yet: ask again"
        in answer.json()["detail"]
    )
    assert deployed.asked == ["there"] * 5
