"""How long a message waits at most while something is wrong with a replica in owner mode, or one is gone; audited."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Final

from integration.gateway import KeylineGateway
from integration.load.lives import Cause
from integration.load.options import Batching
from integration.load.records import Event
from tests.integration.busy_replicas import note_standstills
from tests.integration.conftest import explain
from tests.integration.faults.client_waits import Hung, Span, counted_ns, reached
from tests.integration.faults.line import bug_reports, last
from tests.integration.owner_rig import KEYS, MESSAGES, REPLICAS, WORKERS, Owned

RATE_PER_S: Final = 500.0
RATE_BESIDE_PER_S: Final = 250.0
"""Where deployments run beside each other."""
RATE_OF_TWO_PER_S: Final = 65.0
"""Likewise, of each of two subscriptions, for minutes."""
WAIT_S_MAX: Final = 13.0
"""The time until a replica is dropped, 7 s, and 3 s until all goes on; and 3 s for a busy machine."""
WAIT_BESIDE_S_MAX: Final = 20.0
"""Likewise, and 10 s for a machine on which deployments beside each other leave little to each: 12.6 s were seen on one
that three others had besides. A rule that fails keeps keys for as long as a broker's keep-alive, 26 to 65 s. What it
was is printed."""
GONE_S_MAX: Final = 60.0
"""The time until a replica that is gone is dropped, 7 s, and 1 s until all goes on; and the rest for a machine on which
others leave little to the replicas: 28 s were seen there. What it was is printed."""
SILENCE_ALLOWED: Final = {"keepAliveIntervalSeconds": "3600"}
"""A broker with this closes no connection for silence alone in any test."""
AROUND_S: Final = 4.0
"""So long a load is acknowledged as it comes before anything happens, and again when it is over."""


@contextmanager
def frozen(gateway: KeylineGateway) -> Iterator[None]:
    """It stands still in this block."""
    gateway.pause()
    try:
        yield
    finally:
        gateway.resume()


@contextmanager
def killed(owned: Owned, gateway: KeylineGateway) -> Iterator[None]:
    """It is, and does not come back. At the end another serves all workers.

    Again may come what workers had of an owner, and of another replica what its own workers had.
    """
    workers = frozenset(WORKERS) if owned.owner() is gateway else owned.workers_at(gateway)
    assert workers, "it has no workers: this proves nothing"
    owned.run.interruption(Cause.GATEWAY_KILLED, workers=workers)
    gateway.kill()
    yield
    assert owned.owner() is not gateway


class WatchedLoad:
    """A load in whose course things go wrong; how long messages wait meanwhile is measured."""

    def __init__(self, owned: Owned, rate_per_s: float, batching: Batching = Batching.DEFAULT) -> None:
        """Begin it, and return when it has gone on for a while."""
        self.owned = owned
        self._messages_around = int(rate_per_s * AROUND_S)
        self._producer = owned.run.produce(keys=KEYS, rate_per_s=rate_per_s, batching=batching, batch_messages_max=100)
        self._spans: list[tuple[str, int, int]] = []
        self._hung: Hung | None = None
        owned.run.wait_acknowledged(self._messages_around)

    @contextmanager
    def watched(self, what: str) -> Iterator[None]:
        """A fault is over at the end of this block, and all has gone on for a while since."""
        run, since_ns = self.owned.run, time.monotonic_ns()
        yield
        run.progress.update()  # its files were not read meanwhile
        run.wait_acknowledged(run.progress.acknowledged + self._messages_around)
        self._spans.append((what, since_ns, time.monotonic_ns()))

    def suffer(
        self, fault: AbstractContextManager[object], seconds: float, what: str, hung: KeylineGateway | None = None
    ) -> None:
        """Let the fault last so long.

        `hung` is a replica that clients may go to though it hangs: while all do, no message's wait counts.
        """
        with self.watched(what):
            since_ns = time.monotonic_ns()
            with fault:
                last(seconds)
            if hung is not None:
                self._hung = Hung(hung.port, Span(since_ns, time.monotonic_ns()))

    def end(self, *causes: Cause, wait_s_max: float, messages_min: int = 0) -> str:
        """The contract was kept, nothing but these came in the way, and no message waited too long; how long each.

        The load goes on until it has so many messages.
        """
        run, gateways = self.owned.run, self.owned.gateways
        run.wait_acknowledged(messages_min)
        self._producer.stop()
        allowed = {*causes, Cause.CLIENT_QUEUE, *note_standstills(run, *self.owned.logs)}
        result = run.finish()
        waits_s = {
            what: max(run.longest_waits(since_ns, until_ns).values()) / 1e9 for what, since_ns, until_ns in self._spans
        }
        each = [f"{what}: longest wait {waited_s:.1f} s" for what, waited_s in waits_s.items()]
        if self._hung is not None:
            waits_s = {what: self._counted_s(self._hung, since, until) for what, since, until in self._spans}
            each += [f"{what}: {waited_s:.1f} s while a client asked elsewhere" for what, waited_s in waits_s.items()]
        found = "\n".join([*each, f"{result.delivered} messages, {len(result.duplicates)} again"])
        told = f"{found}\n{explain(result, *gateways)}"
        assert result.ok, told
        assert set(result.duplicates_by_cause) <= allowed, told
        for gateway in gateways:
            assert not bug_reports(gateway.log), told
        assert max(waits_s.values()) < wait_s_max, told
        return found

    def _counted_s(self, hung: Hung, since_ns: int, until_ns: int) -> float:
        """The longest wait while the client of some worker was at a replica that does not hang."""
        run = self.owned.run
        found = reached(run.client_logs, hung, until_ns)
        return max(counted_ns(way, found) for way in run.ways(since_ns, until_ns)) / 1e9


@contextmanager
def told(owned: Owned, fault: AbstractContextManager[object], workers: Collection[str] = WORKERS) -> Iterator[None]:
    """A fault with which workers' connections stay, as the audit has to know."""
    with owned.run.paused(Cause.GATEWAY_PAUSED, workers), fault:
        yield


def check_waits(
    owned: Owned,
    fault: AbstractContextManager[object],
    seconds: float,
    *,
    workers: Collection[str] = WORKERS,
    batching: Batching = Batching.DEFAULT,
    rate_per_s: float = RATE_PER_S,
    wait_s_max: float = WAIT_S_MAX,
    hung: KeylineGateway | None = None,
) -> str:
    """Let the fault last so long under load: the contract is kept, and no message that is sent since waits too long.

    `workers` are all there are; `hung` as `WatchedLoad.suffer` says. Returns what it was.
    """
    load = WatchedLoad(owned, rate_per_s, batching)
    load.suffer(told(owned, fault, workers), seconds, f"{seconds:g} s", hung)
    return load.end(Cause.GATEWAY_PAUSED, wait_s_max=wait_s_max)


class Victims:
    """Two subscriptions of one deployment with a load on each; a replica that has trouble owns the first of them.

    Of each subscription every replica has workers, whose clients know of no other.
    """

    def __init__(self, owns: Owned, beside: Owned, *, leads: bool) -> None:
        """`leads` says whether that replica is also the leader."""
        self._owned = owns, beside
        self._leads = leads
        self._roles = ("owner and leader", "leader") if leads else ("owner", "side")
        self._loads = [WatchedLoad(each, RATE_OF_TWO_PER_S) for each in self._owned]

    def suffer(self, fault: Callable[[KeylineGateway], AbstractContextManager[object]], seconds: float) -> int:
        """Let it happen to the one for so long; how many messages its own workers got in the second half of it."""
        owns, beside = self._owned
        leader = owns.leader()
        victim = next(each for each in owns.gateways if (each is leader) == self._leads)
        beside.place(next(each for each in beside.gateways if each not in (victim, leader)))
        owns.place(victim)
        with ExitStack() as stack:
            for load, role in zip(self._loads, self._roles, strict=True):
                stack.enter_context(load.watched(f"{role}, {seconds:g} s"))
            for each in self._owned:
                stack.enter_context(told(each, nullcontext()))
            stack.enter_context(fault(victim))
            last(seconds / 2)
            before = self._received_at(victim)
            last(seconds / 2)
            return self._received_at(victim) - before

    def _received_at(self, gateway: KeylineGateway) -> int:
        names = WORKERS[self._owned[0].gateways.index(gateway) :: REPLICAS]
        lives = [each.run.workers[name].life() for each in self._owned for name in names]
        return sum(record.event == Event.RECEIVED for life in lives for record in life.records)

    def end(self) -> str:
        """As `WatchedLoad` says, of both; and every worker has come back."""
        for each in self._owned:
            each.owner()
        causes = Cause.GATEWAY_PAUSED, Cause.CONNECTION_LOST  # clients give a silent connection up, after a minute
        return "\n".join(
            load.end(*causes, wait_s_max=WAIT_BESIDE_S_MAX, messages_min=MESSAGES // len(self._loads))
            for load in self._loads
        )


def check_waits_for_the_dead(owned: Owned, gateway: KeylineGateway) -> str:
    """As above, of a replica that is killed and does not come back."""
    load = WatchedLoad(owned, RATE_BESIDE_PER_S)
    load.suffer(killed(owned, gateway), 0, "killed")
    return load.end(Cause.GATEWAY_KILLED, wait_s_max=GONE_S_MAX)
