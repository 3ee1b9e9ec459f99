"""One replica on the made-up network: every part of a gateway in owner mode but sockets, loop and clock.

How a replica stops is `proxy.app.gateway`'s order, told with callbacks. What it asks of the others then goes the real
way, by a question on their ports, and so do operators' orders; only the words are the simulator's own, since the admin
API needs an event loop.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from proxy.app.owner_parts import OwnerParts
from proxy.groups.bundles import bundle_of
from proxy.groups.streams import GroupId
from proxy.groups.timing import GroupTiming
from proxy.net.broker.directory import Brokers
from proxy.net.broker.names import BrokerNames
from proxy.net.broker.settings import BrokerSettings
from proxy.net.countdown import after_all
from proxy.net.election.elections import ElectionSettings, ProducerElections
from proxy.net.group.groups import Groups
from proxy.net.group.streamed import StreamedSubscriptions
from proxy.net.owner.proof import NUMBER_BYTES, Secret
from proxy.net.session.services import SessionServices
from proxy.net.session.sessions import Sessions
from proxy.net.session.settings import SessionSettings
from proxy.net.subscription.directory import Subscriptions
from proxy.net.subscription.openings import Openings
from proxy.service_url import parse_service_url
from proxy.views.admin import Admin
from tests.groups.rig import deliverable
from tests.sim.background import Background
from tests.sim.gateway import heed_monitor
from tests.sim.network import Listener

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from proxy.net.owner.questions import Saying
    from proxy.net.subscription.subscription import Subscription
    from tests.sim.deployment.draw import DeploymentSwarm
    from tests.sim.machine import Process
    from tests.sim.network import Network

SECRET = Secret((b"the deployment's secret, of 32 bytes and more",))
DRAIN_S = 25.0
"""`drain_timeout_s`: how long a replica that stops waits for its workers, and for those of others."""
FAREWELL_S = 2.0
ASK_S = 0.1
ORDER = "order "
"""How the question begins that passes one on."""


def address_of(name: str) -> str:
    """Where clients find a replica."""
    return f"pulsar://{name}:6650"


class Replica:
    """One life of a replica."""

    def __init__(
        self, process: Process, network: Network, broker: str, swarm: DeploymentSwarm, dice: random.Random
    ) -> None:
        """Listens and takes part at once; it answers at the addresses that its process is named by."""
        self.process = process
        self.settings = swarm.settings
        self.stopping = self.stopped = False
        name = process.name
        self.name = f"{name}-{process.number}"
        limits = swarm.limits
        connector = network.connector(process)
        broker_settings = BrokerSettings((broker,), client_version="Keyline-sim", keep_alive_s=limits.keep_alive_s)
        session_settings = SessionSettings((parse_service_url(broker),))
        names = BrokerNames(session_settings.brokers, process)
        self.brokers = Brokers(connector, process, broker_settings, names.add)
        openings = Openings(process, Background(process, dice), swarm.openings)
        port = f"pulsar://{name}:6670"
        number = partial(dice.randbytes, NUMBER_BYTES)
        migrating = swarm.settings.migrating_subscriptions
        self.parts = OwnerParts(
            self.name, port, connector, SECRET, number, self.brokers, process, limits, swarm.groups, migrating
        )
        self.deployment = self.parts.deployment
        streamed = StreamedSubscriptions(swarm.groups)
        self._has_owners = swarm.groups.owned
        """Else nothing of what owners have is used, nor begun."""
        post = self.deployment.post if self._has_owners else None
        self.groups = Groups(self.name, self.brokers, process, swarm.groups, post) if streamed else None
        self.subscriptions = Subscriptions(self.brokers, process, swarm.settings, openings, streamed)
        if self.groups is not None:
            self.subscriptions.new_assignment = self.groups.new_assignment
        heed_monitor(self.subscriptions)
        if self._has_owners:
            self.subscriptions.ownership = self.deployment.bundles
            self.deployment.share_orders(self.subscriptions)
        self._elections = ProducerElections(process, self.subscriptions.events, ElectionSettings())
        services = SessionServices(
            connector,
            process,
            self.subscriptions,
            self._elections,
            names,
            session_settings,
            limits,
            self.subscriptions.slices,
            self.parts.ways.onward if self._has_owners else None,
        )
        self.sessions = Sessions(services)
        view = self.parts.view if self._has_owners else None
        self.admin = Admin(self.subscriptions, self._elections, lambda: (), {}, deployment=view)
        self.take_order: Callable[[int], str] = str
        """Carries out an order that another replica passed on, by its number; what the answer is."""
        self.led_here = Sessions(replace(services, make_elsewhere=self.parts.ways.here_only, of_replicas=True))
        door = self.parts.new_door(self.led_here.admit, self._answer)
        self._network = network
        network.listeners[address_of(name)] = Listener(process, self.sessions.admit)
        network.listeners[port] = Listener(process, lambda _: door.knock())
        process.call_soon(self._start)

    def _start(self) -> None:
        if self._has_owners:
            self.deployment.start()
        self._elections.start()
        if self.groups is not None:
            self.groups.start()

    def fill(self, *, full: bool) -> None:
        """Its memory is used up whatever its workers do, as if all were with others; or it has room again."""
        limit = -1 if full else self.settings.gateway_memory_bytes
        self.subscriptions.reconfigure(replace(self.settings, gateway_memory_bytes=limit))

    # ---- for those who watch

    def subscription(self, key: tuple[str, str]) -> Subscription | None:
        """The one of this topic and name, if it is served here."""
        return self.subscriptions.find(key)

    def may_deliver(self, key: tuple[str, str], *, begin: bool = False) -> bool:
        """Whether its lease lets it deliver now, by what its session says of itself.

        To `begin`, it must last long enough for the message to leave.
        """
        session = self.deployment.member.session
        count = session.streams_count
        then_s = self.process.now() + begin * GroupTiming().send_s
        return bool(count) and deliverable(session, bundle_of(*key, count), then_s)

    def consumes(self, key: tuple[str, str]) -> bool:
        """Whether its consumer stands at the broker, as far as it knows: an owner delivers nothing while it is lost."""
        subscription = self.subscription(key)
        return subscription is not None and subscription.consumers.first_ready() is not None

    def may_deliver_stream(self, key: tuple[str, str], stream: int, *, begin: bool = False) -> bool:
        """The same of a stream of a subscription that is cut into some."""
        member = None if self.groups is None else self.groups.members.find(GroupId(*key))
        then_s = self.process.now() + begin * GroupTiming().send_s
        return member is not None and deliverable(member.session, stream, then_s)

    def looked_at(self, key: tuple[str, str]) -> OneTopic:
        """The subscription as a gateway that has nothing else."""
        return OneTopic(self, key)

    # ---- SIGTERM

    def stop(self, gone: Callable[[], None]) -> None:
        """Hand everything over, and end; `gone` is called at the end."""
        if self.stopping:
            return
        self.stopping = True
        self._network.listeners.pop(address_of(self.process.name), None)
        ended = False

        def end() -> None:
            nonlocal ended
            if not ended:
                ended = True
                self._close()
                self.process.call_later(FAREWELL_S, gone)

        steps: list[Callable[[Callable[[], None]], None]] = [self.subscriptions.drain]
        if self.groups is not None:
            leave_all = self.groups.leave_all
            steps.append(lambda done: leave_all(partial(self._later, done)))
        if self._has_owners:
            steps += [self.deployment.leave, lambda done: _StandingDown(self, done).ask()]
        one_done = after_all(len(steps), end)
        for step in steps:
            step(one_done)
        self.process.call_later(DRAIN_S, end)

    def _later(self, call: Callable[[], None]) -> None:
        """In a turn of its own: a gateway that awaits it goes on so."""
        self.process.call_soon(call)

    def _close(self) -> None:
        self._elections.close()
        if self.groups is not None:
            self.groups.close()
        if self._has_owners:
            self.deployment.close()
        self.subscriptions.close()
        self.sessions.close_all()
        self.led_here.close_all()
        self.process.call_later(FAREWELL_S / 2, lambda: self.brokers.close(lambda: None))

    def _answer(self, question: bytes, saying: Saying) -> Callable[[], None]:
        """Another replica stops: how many messages its clients have of here. Or it passes an order on."""
        name, _, order = question.decode().partition(ORDER)
        answer = str(self.parts.view.stand_down(name)) if name else self.take_order(int(order))

        def say() -> None:
            saying.say(answer.encode())
            saying.end()

        self.process.call_soon(say)
        return lambda: None


class OneTopic:
    """Implements `tests.sim.gateway.Looked`."""

    def __init__(self, replica: Replica, key: tuple[str, str]) -> None:
        self._replica = replica
        self._key = key
        self.settings = replica.settings
        self.subscriptions = replica.subscriptions
        self.process = replica.process

    @property
    def subscription(self) -> Subscription | None:
        """As the protocol says."""
        return self._replica.subscription(self._key)

    def may_deliver_stream(self, stream: int) -> bool:
        """Whether it is to deliver a stream, if it is cut into some."""
        return self._replica.may_deliver_stream(self._key, stream, begin=True)


class _StandingDown:
    """Asks the others until its clients have nothing of theirs; see `admin_api.replicas.legs_drained`."""

    def __init__(self, replica: Replica, done: Callable[[], None]) -> None:
        self._replica = replica
        self._done = done
        self._left = list(replica.parts.others.names())

    def ask(self) -> None:
        if not self._left:
            self._done()
            return
        name = self._left[0]
        self._replica.parts.others.ask(name, self._replica.name.encode(), Hearer(self._heard))

    def _heard(self, answer: bytes) -> None:
        if not answer or answer == b"0":
            del self._left[0]
        else:
            self._left.append(self._left.pop(0))
        self._replica.process.call_later(ASK_S, self.ask)


class Hearer:
    """Hears a whole answer, which is empty if none came. Implements `questions.Hearer`."""

    def __init__(self, whole: Callable[[bytes], None]) -> None:
        self._whole = whole
        self._answer = b""

    def heard(self, data: bytes) -> None:
        """A part of the answer."""
        self._answer += data

    def ended(self, reason: str) -> None:
        """That was all."""
        _ = reason
        self._whole(self._answer)
