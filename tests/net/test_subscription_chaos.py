"""Every command at any moment, in any order: random walks through a subscription's life, each from its seed."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from tests.net.subscription_chaos import BrokerModel, Checker, Client
from tests.net.subscription_rig import Delivered, SubscriptionRig, schema

STEPS = 400
WORKERS_MAX = 5
NAMES = ["a", "b", "c", "d"]


class Walk:
    """One random walk."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)  # noqa: S311 - a walk, no secret
        self.rig = self.new_rig()
        self.broker = BrokerModel(self.rig, self.dice)
        self.checker = Checker(self.rig, self.broker)
        self._request_ids = 5_000
        self.trace: list[str] = []

    def new_rig(self) -> SubscriptionRig:
        """With settings that are drawn."""
        return SubscriptionRig(
            look_ahead_messages_per_worker=self.dice.choice((3, 30)),
            upstream_batch_index_ack=self.dice.random() < 0.7,
        )

    # ---- what workers do

    @property
    def live(self) -> list[Client]:
        """Clients whose connection stands and whose consumer has not ended."""
        return [client for client in self.checker.clients if not client.ended and not client.worker.gone]

    def request_id(self, client: Client) -> int:
        """A new one, to be answered."""
        self._request_ids += 1
        client.asked.add(self._request_ids)
        return self._request_ids

    def subscribe(self) -> None:
        """One more worker, now and then with another schema."""
        if len(self.live) < WORKERS_MAX:
            fields = {"schema": schema("other")} if self.dice.random() < 0.15 else {}
            worker = self.rig.subscribe(self.dice.choice(NAMES), settle=self.dice.random() < 0.5, **fields)
            self.checker.clients.append(Client(worker, asked={worker.consumer_id + 1_000}))

    def flow(self, client: Client) -> None:
        """Some permits."""
        permits = self.dice.choice((1, 5, 40))
        client.granted += permits
        client.worker.flow(permits)

    def ack(self, client: Client) -> None:
        """A delivery that the worker holds, whole or some of its messages, with or without a receipt."""
        if not client.held:
            return
        chosen = client.held[self.dice.choice(list(client.held))]
        numbers = [int(body) for body in chosen.payloads]
        left = [number for number in numbers if client.held.get(number) is chosen]
        request_id = self.request_id(client) if self.dice.random() < 0.3 else None
        if len(numbers) > 1 and self.dice.random() < 0.5:
            done = self.dice.sample(left, self.dice.randint(1, len(left)))
            remaining = [number for number in left if number not in done]
            bits = sum(1 << place for place, number in enumerate(numbers) if number in remaining)
            self.checker.acked(client, done)
            client.worker.ack(chosen, request_id=request_id, ack_set=[bits])
        else:
            self.checker.acked(client, left)
            client.worker.ack(chosen, request_id=request_id)

    def redeliver(self, client: Client) -> None:
        """A delivery again, or everything."""
        if client.held and self.dice.random() < 0.7:
            chosen = client.held[self.dice.choice(list(client.held))]
            self._give_back(client, chosen)
            client.worker.redeliver(chosen)
        else:
            client.held.clear()
            client.worker.redeliver()

    def _give_back(self, client: Client, chosen: Delivered) -> None:
        for number in [int(body) for body in chosen.payloads]:
            if client.held.get(number) is chosen:
                del client.held[number]

    def close(self, client: Client) -> None:
        """Close the consumer."""
        client.ended = True
        client.held.clear()
        client.asked.discard(client.worker.consumer_id + 1_000)
        client.worker.close(self.request_id(client))

    def lose(self, client: Client) -> None:
        """The client dies."""
        client.ended = True
        client.held.clear()
        client.asked.clear()
        client.worker.lose()

    def stop_or_read(self, client: Client) -> None:
        """The socket fills up, or empties."""
        if client.worker.writable:
            client.worker.stop_reading()
        else:
            client.worker.read_again()

    def fill_soon(self, client: Client) -> None:
        """The socket will be full after the next write; its session is told then."""
        client.worker.room = 1
        client.worker.port.writability_changed(writable=True)

    def seek(self, client: Client) -> None:
        """Back to the beginning."""
        if self.dice.random() < 0.2:
            self.checker.may_repeat = True
            client.worker.seek(0, self.request_id(client))

    def unsubscribe(self, client: Client) -> None:
        """Delete the subscription, by force if need be."""
        if self.dice.random() < 0.2:
            self.checker.may_repeat = True
            request_id = self.request_id(client)
            client.unsubscribes.add(request_id)
            client.worker.unsubscribe(request_id, force=self.dice.random() < 0.5)

    def ask(self, client: Client) -> None:
        """For the last message id."""
        client.worker.ask_last_message_id(self.request_id(client))

    # ---- what the broker does

    def answer(self) -> None:
        """Carry requests out, nearly always well."""
        for _ in range(self.dice.choice((1, 3))):
            self.broker.process()

    def fail(self) -> None:
        """Refuse one, or lose an answer."""
        lost = self.dice.random() < 0.5
        if lost:
            self.checker.may_repeat = True
        self.broker.process(lose_answer=lost, refuse=not lost)

    def unload(self) -> None:
        """Close our consumer."""
        self.checker.may_repeat = True
        self.broker.disconnect_all()

    def break_off(self) -> None:
        """Lose the connection, and perhaps the latest acknowledgements."""
        self.broker.lose(forget=self.dice.choice((0, 3)))

    def step(self) -> None:
        """Anything."""
        of_workers: list[tuple[int, Callable[[Client], None]]] = [
            (20, self.flow),
            (40, self.ack),
            (5, self.redeliver),
            (2, self.close),
            (2, self.lose),
            (3, self.stop_or_read),
            (2, self.fill_soon),
            (1, self.seek),
            (1, self.unsubscribe),
            (1, self.ask),
        ]
        others: list[tuple[int, Callable[[], None]]] = [
            (5, self.subscribe),
            (16, self.broker.publish),
            (16, lambda: self.broker.dispatch(4)),
            (25, self.answer),
            (2, self.fail),
            (1, self.unload),
            (1, self.break_off),
            (6, lambda: self.rig.clock.advance(self.dice.choice((0, 0.05, 1)))),
        ]
        if self.live and self.dice.random() < 0.5:
            (act,) = self.dice.choices([item for _, item in of_workers], [weight for weight, _ in of_workers])
            client = self.dice.choice(self.live)
            self.trace.append(f"{act.__name__} {client.worker.consumer_id}")
            act(client)
        else:
            (do,) = self.dice.choices([item for _, item in others], [weight for weight, _ in others])
            self.trace.append(do.__name__)
            do()
        self.checker.look()

    # ---- the end

    def heal(self) -> None:
        """No more faults: every message must get through, with whoever is there."""
        self._request_ids += 1_000
        if not self.live:
            self.subscribe()
        for _ in range(400):
            self.rig.clock.advance(0.5)
            for _ in range(10):
                self.broker.process()
            self.broker.dispatch(50)
            self.checker.look()
            if not self.live:
                self.subscribe()
            for client in self.live:
                self._do_everything(client)
            if not any(entry.unacked for entry in self.broker.entries):
                return
        left = [number for number in range(len(self.broker.key_of)) if not self.broker.is_acked(number)]
        pytest.fail(f"messages {left} never got through")

    def _do_everything(self, client: Client) -> None:
        if not client.worker.writable or client.worker.room is not None:
            client.worker.read_again()
        client.granted += 100
        client.worker.flow(100)
        self.checker.look()
        for delivered in dict.fromkeys(client.held.values()):
            numbers = [int(body) for body in delivered.payloads]
            self.checker.acked(client, [number for number in numbers if client.held.get(number) is delivered])
            client.worker.ack(delivered)

    def part(self) -> None:
        """Everybody leaves: nothing remains, here or at the broker, and every request has had its answer."""
        for client in self.live:
            self.close(client)
        for _ in range(20):
            self.broker.process()
            self.rig.clock.advance(1)
        self.checker.look()
        assert self.rig.count == 0
        assert self.rig.statistics().held_bytes == 0
        assert self.rig.link.consumers == {}
        assert self.broker.consumers == [], "a consumer was left behind at the broker"
        assert not [client.asked for client in self.checker.clients if client.asked and not client.worker.gone]


def walked(walk: Walk, seed: int) -> None:
    """Walk to the end, where all gets through; a failure prints the last steps."""
    try:
        for _ in range(STEPS):
            walk.step()
        walk.heal()
        walk.part()
    except BaseException:
        print(f"seed {seed}, the last of {len(walk.trace)} steps:", *walk.trace[-40:], sep="\n")
        raise


@pytest.mark.parametrize("seed", range(40))
def test_a_random_walk_keeps_the_guarantees_and_ends_with_nothing_left(seed: int) -> None:
    """One holder a key, nothing overtaken or repeated without cause, no more than granted; then all gets through."""
    walked(Walk(seed), seed)
