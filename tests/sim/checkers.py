"""The guarantees, held against every byte that enters or leaves the gateway on the workers' side.

Outside the code under test: they read frames at the network's edge and keep a model that is as plain as can be: of each
message, who has acknowledged it and who holds it now. A message is held from the moment the gateway writes it until
the gateway is told otherwise (an ack, a request for redelivery, the end of the consumer or of its connection).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from proxy.core.key_policy import NO_POLICY, KeyPolicy
from proxy.wire import frames
from proxy.wire import pulsar_pb2 as pb
from tests.sim.forbidden import Forbidden
from tests.sim.seats import ABOUT_CONSUMER, Connection, Holdings, Seat, Violation, numbers_in
from tests.sim.storage import bits_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from tests.sim.attempts import Attempts
    from tests.sim.claims import Claims
    from tests.sim.connection import End
    from tests.sim.dead_letters import DeadLetters
    from tests.sim.deletion import Deletion
    from tests.sim.lot import Lot
    from tests.sim.storage import Entry, Storage

T = pb.BaseCommand


class Model(Holdings):
    """Who holds what, and what is done."""

    def __init__(self, storage: Storage, now: Callable[[], float], *, ordered: bool, mixed: bool) -> None:
        """`ordered` False where the subscription's mode promises no order; `mixed` where batches have several keys."""
        super().__init__(storage, now)
        self.keys: KeyPolicy = NO_POLICY
        """The policy in force; its delays are all the same."""
        self.retry_at: dict[int, float] = {}
        """Messages that were given back, to when they may come again."""
        self.leases_since_s = 0.0
        """When an operator changed the lease last."""
        self.given_back: set[int] = set()
        """Messages that were given back and have not come again, in this life."""
        self._excused = storage.astray if mixed else frozenset[int]()
        self.forbidden = Forbidden()
        self.dead_letters: DeadLetters | None = None
        """Where messages go that have used their attempts, if they do."""
        self.lot: Lot | None = None
        """Where keys are parked, if they may be."""
        self._had_at: dict[tuple[int, int], list[int]] = {}
        """Message id to the numbers that some worker got with it."""
        self.late: set[int] = set()
        """Messages that a worker acknowledged when it had asked for them again: that counts if they are on their way to
        it once more, and have not left the gateway yet."""
        self.deletion: Deletion | None = None
        """What is owed when a worker deletes the subscription."""
        self._asked_to_delete: dict[Seat, tuple[list[Seat], bool]] = {}
        """Who was there besides, and whether by force."""
        self.attempts: Attempts | None = None
        """Of messages, where they are counted."""
        self.claims: Claims | None = None
        """What is acknowledged in transactions, if workers use them."""
        self._ordered = ordered
        self._moves = 0
        self.seek_asked = False
        self._reset_asked = False
        """The same, or that the subscription was to be deleted."""
        self.acked_in_life: set[int] = set()
        """Those acknowledged in the life of the subscription at the gateway: they may not come again."""
        self.forgotten: set[int] = set()
        """Messages whose acknowledgement a broker confirmed and forgot."""
        self._excused_acks: set[int] = set()
        """Those of them that the gateway has a right to deliver again."""
        self.opaque_in_life: set[tuple[int, int]] = set()
        """Entries delivered, in the same life, that the gateway could not open."""
        self.deliveries = 0
        self.duplicates = 0
        storage.on_acked = self.acked_at_broker

    # ---- what the world tells

    def new_life(self) -> None:
        """The gateway has a new memory: what it knew of acknowledgements is gone with the old one (G3, not G4)."""
        self.acked_in_life.clear()
        self.opaque_in_life.clear()
        self.retry_at.clear()
        self.given_back.clear()
        if self.attempts is not None:
            self.attempts.new_life()
        if self.dead_letters is not None:
            self.dead_letters.new_life()
        if self.lot is not None:
            self.lot.new_life()
        if self.claims is not None:
            self.claims.new_life()
        if self._moves:
            self._moves -= 1
            entries = self._storage.entries
            self.acked = {
                n for entry in entries for place, n in enumerate(entry.numbers) if not entry.owed >> place & 1
            }
            if self.lot is not None:
                self.acked.difference_update(self.lot.left)  # a seek moves the cursor of the original topic alone
            self._open.clear()
            self._known = 0

    def policy_changed(self, policy: KeyPolicy) -> None:
        """An operator has ordered another. Delays that have begun end when they were to, or now if there are none."""
        self.keys, self.leases_since_s = policy, self._now()
        if not policy.retry_delay_s:
            self.retry_at.clear()

    def cursor_moved(self) -> None:
        """A seek was carried out: until the gateway begins anew because of it, what it sends may be old or new."""
        self._moves += 1

    @property
    def unsettled(self) -> bool:
        """Whether a seek was carried out that the gateway has not begun anew after."""
        return self._moves > 0

    def forgot(self, numbers: Iterable[int]) -> None:
        """A killed broker forgot these acknowledgements: the gateway, which lives, has not."""
        self.forgotten.update(numbers)
        if self._reset_asked:
            self._excused_acks.update(numbers)

    def consumer_closed(self) -> None:
        """A broker closed the gateway's consumer by itself: it means what it sends from now on (see `Outstanding`)."""
        self._excused_acks |= self.forgotten

    def acked_at_broker(self, entry: Entry, bits: int) -> None:
        """G3: nothing is acknowledged at the broker that no worker acknowledged, but for what another topic has."""
        for place, number in enumerate(entry.numbers):
            if bits >> place & 1:
                if not (self.was_acked(number) or self._is_dead_letter(number)):
                    if self._kept_elsewhere(number):
                        continue
                    if self.counts_late(number):
                        continue
                    raise Violation(f"G3: message {number} was acknowledged at the broker, by no worker")
                self.forgotten.discard(number)
                self._excused_acks.discard(number)
                self.no_longer_open(number)  # an ack that was on its way while a seek was carried out

    def committed(self, numbers: list[int]) -> None:
        """The transaction in which workers acknowledged these is."""
        assert self.claims is not None
        known = self.claims.committed(numbers)
        for number in numbers:
            self.done(number)
            if number not in known:
                # A seek had the broker send it again, though its transaction was open. Who got it knows of none.
                self.acked_in_life.discard(number)

    def _is_dead_letter(self, number: int) -> bool:
        """Whether the dead letter topic has the message; one that this life sent there is acknowledged by it now."""
        topic = self.dead_letters
        if topic is None or not topic.has(number):
            return False
        if topic.gave_up(number):
            self.acked_in_life.add(number)
        return True

    def is_done(self, number: int) -> bool:
        """Whether a worker acknowledged the message, an operator had it deleted, or it was given up."""
        return (
            self.was_acked(number)
            or (self.lot is not None and number in self.lot.dropped)
            or (self.dead_letters is not None and self.dead_letters.has(number))
        )

    def counts_late(self, number: int) -> bool:
        """Whether it is an ack of what was asked for again that the message's end is owed to; then it is done."""
        if not (number in self.late and number in self.meant):
            return False
        self.done(number)
        return True

    def _may_come_again(self, number: int) -> bool:
        """One that was parked out of a batch: the original topic has it still, and may send it during a redrive.

        Or whose acknowledgement the original topic forgot: it may be parked once more.
        """
        if self.lot is None or not self.lot.had(number):
            return False
        return number in self.lot.again or self.is_owed(number)

    def is_owed(self, number: int) -> bool:
        """Whether the original topic has it still."""
        entry = self._storage.messages[number].entry
        return bool(entry.unacked >> entry.numbers.index(number) & 1)

    def is_redriven(self, number: int) -> bool:
        """Whether what a worker has of it is the parking topic's copy.

        Of what both have, the original is first, unless a broker forgot that it was acknowledged for its copy's sake.
        """
        return self._is_parked(number) and (not self.is_owed(number) or number in self.forgotten)

    def _is_parked(self, number: int) -> bool:
        """Whether the parking topic has the message."""
        return self.lot is not None and self.lot.has(number)

    def _kept_elsewhere(self, number: int) -> bool:
        """Whether the parking topic had the message."""
        return self.lot is not None and self.lot.had(number)

    # ---- towards the worker

    def wrote(self, end: End, data: bytes) -> None:
        """The gateway sends this to a worker."""
        connection = self.connections[end]
        for frame in connection.outgoing.feed(data):
            kind = frames.frame_type(frame)
            if kind == T.MESSAGE:
                self._delivered(connection, frame)
            elif kind in {T.SUCCESS, T.ERROR, T.CLOSE_CONSUMER}:
                self._answered(connection, frames.parse_command(frame))
            elif kind == T.ACK_RESPONSE:
                self._receipt(connection, frames.parse_command(frame).ackResponse)
            elif kind == T.END_TXN_RESPONSE:
                self._transaction_ended(frames.parse_command(frame).endTxnResponse)

    def _transaction_ended(self, answer: pb.CommandEndTxnResponse) -> None:
        """A worker is told so: the gateway knows."""
        if self.claims is not None and not answer.HasField("error"):
            self.claims.told(answer.txnid_least_bits)

    def _answered(self, connection: Connection, command: pb.BaseCommand) -> None:
        if command.type == T.CLOSE_CONSUMER:
            seat = connection.seats.get(command.close_consumer.consumer_id)
            if seat is not None:
                self._end(connection, seat)
            return
        success = command.type == T.SUCCESS
        request_id = command.success.request_id if success else command.error.request_id
        asker = connection.deletions.pop(request_id, None)
        if asker is not None and success:
            self._end(connection, asker)
            asked = self._asked_to_delete.pop(asker, None)
            if asked is not None and self.deletion is not None:
                self.deletion.is_told(asker, asked[0], force=asked[1])
        for seat in list(connection.seats.values()):
            if seat.request_id == request_id and not seat.joined:
                seat.joined = success
                if not success:
                    self._end(connection, seat)

    def _receipt(self, connection: Connection, body: pb.CommandAckResponse) -> None:
        """G3: who is told that an ack is done may let go of it, so the broker must have it."""
        promised = connection.receipts.pop(body.request_id, [])
        acked = connection.acked.pop(body.request_id, [])
        if self.lot is not None and not body.HasField("error"):
            left = [number for number in acked if self.lot.owes(number)]
            if left:
                raise Violation(f"G3: a receipt for {left}, which the parking topic has not heard of")
        if self.claims is not None:
            self.claims.answered(connection, body.request_id, refused=body.HasField("error"))
        if body.HasField("error") or self.unsettled:
            return
        for entry in promised:
            missing = [n for place, n in enumerate(entry.numbers) if entry.unacked >> place & 1]
            # Of what is redriven the parking topic has it. The original's may be on its way: it comes twice then.
            if any(number not in self.forgotten and not self._kept_elsewhere(number) for number in missing):
                raise Violation(f"G3: a receipt for {entry.ledger}:{entry.entry}, of which the broker lacks {missing}")

    def _delivered(self, connection: Connection, frame: bytes) -> None:
        message = frames.parse_command(frame).message
        seat = connection.seats.get(message.consumer_id)
        if seat is None or not seat.joined:
            raise Violation(f"a message for consumer {message.consumer_id}, which has not joined or has ended")
        numbers, opaque = numbers_in(frame[frames.payload_start(frame) :])
        place = message.message_id.ledgerId, message.message_id.entryId
        if any(number >= 0 for number in seat.held.get(place, ())):
            raise Violation(f"G4: {place} is at {seat.name} already")
        if seat.permits < (1 if opaque else len(numbers)):
            raise Violation(f"G5: {len(numbers)} messages for {seat.name}, which granted {seat.permits}")
        order = self.forbidden.forbids(seat, continues=self._goes_on_at(seat, max(numbers)))
        if order:
            raise Violation(f"operators: {numbers} for {seat.name}, but {order}")
        if not (self.keys.neutral or self.unsettled):
            self._check_policy(seat, numbers, opaque=opaque)
        seat.received += len(numbers)
        self._had_at[place] = list(numbers)
        for number in numbers:
            anew = self.unsettled or number in self._excused_acks
            anew |= self.claims is not None and self.claims.is_blind(number)
            self._check_delivery(seat, number, opaque=opaque)
            if self.attempts is not None:
                self.attempts.delivered(seat, number, anew=anew, parked=self._is_parked(number))
            self._hold(seat, number)
            self.given_back.discard(number)
            self.late.discard(number)
        seat.held[place] = list(numbers)
        if not self.goes_further(max(numbers)):
            seat.sent_at[place] = self._now()
        if opaque and not self._kept_elsewhere(max(numbers)):  # what is redriven did not come from the topic
            self.opaque_in_life.add(place)
        self.deliveries += len(numbers)

    def _check_policy(self, seat: Seat, numbers: list[int], *, opaque: bool) -> None:
        """A delivery is of one key, within the key's window, and no message comes again before its delay is over.

        At a window of 1 that is: nothing is delivered while anything of the key is out, so nothing can overtake.
        """
        for number in numbers:
            if self.retry_at.pop(number, 0.0) > self._now():
                raise Violation(f"retry: message {number} for {seat.name} comes again before its delay is over")
        keys = {self._storage.messages[number].key for number in numbers}
        if opaque or self._goes_on(seat, max(numbers)):
            return  # what cannot be cut, and the rest of a message that the worker has begun
        if len(keys) > 1 and not any(number in self._excused for number in numbers):
            raise Violation(f"window: {numbers} for {seat.name} are of several keys: {sorted(keys)}")
        for key in keys:
            there = len(self.by_key.get(key, ())) + (0 if self.claims is None else self.claims.open_in(key))
            if self.keys.window and there + len(numbers) > self.keys.window:
                raise Violation(f"window: {key}: {numbers} for {seat.name}, of which {there} are out already")

    def _check_delivery(self, seat: Seat, number: int, *, opaque: bool) -> None:
        key = self._storage.messages[number].key
        if number in self.holder:
            raise Violation(f"G4: message {number} for {seat.name} is at {self.holder[number].name} already")
        if number in self.acked:
            # A batch that cannot be opened goes whole again while any message of it is not acknowledged.
            excused = opaque or self.unsettled or number in self._excused_acks or self._may_come_again(number)
            if number in self.acked_in_life and not excused:
                raise Violation(f"G4: message {number} for {seat.name} was acknowledged already")
            self.duplicates += 1
        self._check_pieces(seat, number)
        if self.lot is not None and self.is_redriven(number) and not self.unsettled:
            self._check_whole(seat, number)
        if self.claims is not None:
            self.claims.check(seat, number, ordered=self._ordered and not self.unsettled)
        if not self._ordered or self.unsettled:
            return
        for other in self.by_key.get(key, ()):
            if self.holder[other] is not seat:
                raise Violation(f"G1: {key}: message {number} for {seat.name}, {other} is at {self.holder[other].name}")
        self._check_order(seat, key, number)

    def _check_whole(self, seat: Seat, number: int) -> None:
        """What is redriven of a chunked message is all of it: no client could read a part, or acknowledge it."""
        message = self._storage.messages[number].chunked
        for piece in () if message is None else message.numbers:
            if not (self._is_parked(piece) or piece in self.acked_in_life):
                raise Violation(f"parked: {number} for {seat.name}, but {piece} of its message is not parked")
        if message is not None and not message.is_published:
            raise Violation(f"parked: {number} for {seat.name}, and the rest of its message is not published")

    def _check_order(self, seat: Seat, key: str, number: int) -> None:
        pieces = self.pieces_of(number) if self._goes_on_at(seat, number) else None
        for earlier in self.open_of(key):
            if earlier >= number:
                break
            if pieces is not None and earlier not in pieces:
                continue
            if self.holder.get(earlier) is not seat and earlier not in self._excused:
                if self.claims is not None and self.claims.excuse(seat, earlier):
                    continue
                if earlier in self.late:
                    continue
                raise Violation(f"G2: {key}: message {number} for {seat.name} overtakes {earlier}")

    # ---- from the worker

    def arrives(self, end: End, data: bytes) -> None:
        """The gateway is given this by a worker."""
        connection = self.connections[end]
        for frame in connection.incoming.feed(data):
            kind = frames.frame_type(frame)
            command = frames.parse_command(frame)
            if kind == T.SUBSCRIBE:
                body = command.subscribe
                seat = Seat(body.consumer_name, end, body.consumer_id, body.request_id)
                connection.seats[body.consumer_id] = seat
                self._subscribes()
                continue
            if kind in {T.SEEK, T.UNSUBSCRIBE}:
                # While its outcome is not known the gateway may take nothing for confirmed.
                self.seek_asked |= kind == T.SEEK
                self._reset_asked = True
                self._excused_acks |= self.forgotten
            if kind == T.END_TXN:
                self._end_asked(command.endTxn.txnid_least_bits)
            if kind not in ABOUT_CONSUMER:
                continue
            about: Any = getattr(command, ABOUT_CONSUMER[kind])
            found = connection.seats.get(about.consumer_id)
            if found is not None:
                self._said(connection, found, kind, about)

    def _said(self, connection: Connection, seat: Seat, kind: int, body: Any) -> None:
        if kind == T.FLOW:
            seat.granted += body.messagePermits
        elif kind == T.GET_LAST_MESSAGE_ID:
            seat.extended_at = self._now()
        elif kind == T.CLOSE_CONSUMER:
            self._end(connection, seat)
        elif kind == T.UNSUBSCRIBE:
            connection.deletions[body.request_id] = seat
            others = self._others_than(seat)
            if others is not None:
                self._asked_to_delete[seat] = others, body.force
        elif kind == T.ACK:
            self._acks(connection, seat, body)
        else:
            wanted = [(place.ledgerId, place.entryId) for place in body.message_ids] or list(seat.held)
            for given_back in wanted:
                self._note_retry(seat, seat.held.get(given_back, ()))
            for given_back in wanted:
                self.given_back.update(self._give_back(seat, given_back))

    def _acks(self, connection: Connection, seat: Seat, body: pb.CommandAck) -> None:
        if body.HasField("txnid_least_bits"):
            assert self.claims is not None
            for claimed, taken in self.claims.claim(connection, seat, body).items():
                self._take_from(seat, claimed, taken)
                if self.attempts is not None:
                    self.attempts.claimed(taken, set(filter(self._is_parked, taken)))
            return
        touched: list[int] = []
        for place in body.message_id:
            touched += self._acked(seat, (place.ledgerId, place.entryId), list(place.ack_set))
        if body.HasField("request_id"):
            entries = [self._storage.messages[number].entry for number in touched]
            connection.receipts[body.request_id] = [entry for entry in entries if self._complete(entry)]
            connection.acked[body.request_id] = touched

    def _subscribes(self) -> None:
        """A worker does."""
        if self.deletion is not None:
            self.deletion.subscribes()

    def _others_than(self, seat: Seat) -> list[Seat] | None:
        """Who is here besides; None if that is not for this gateway to know."""
        return [other for other in self.seats() if other.joined and other is not seat]

    def _end_asked(self, number: int) -> None:
        """A transaction is to end."""

    def _complete(self, entry: Entry) -> bool:
        """Whether everything in it is acknowledged, to this life of the subscription or at the broker."""
        done = self.acked_in_life
        return all(number in done or not entry.unacked >> place & 1 for place, number in enumerate(entry.numbers))

    def _acked(self, seat: Seat, place: tuple[int, int], ack_set: list[int]) -> list[int]:
        """Numbers that this id of an ack acknowledges."""
        numbers, left = seat.held.get(place), bits_of(ack_set)
        if numbers is None:
            # What it asked for again, or had in an earlier life: it may be on its way to the worker just now.
            had = seat.returned.get(place) or [n if n in self.meant else -1 for n in self._had_at.get(place, ())]
            self.late.update(
                n for index, n in enumerate(had) if n >= 0 and n not in self.holder and not left >> index & 1
            )
            return []
        done = [number for index, number in enumerate(numbers) if number >= 0 and not left >> index & 1]
        self._take_from(seat, place, set(done))
        for number in done:
            self.done(number)
        return done

    def done(self, number: int) -> None:
        """A worker acknowledged it."""
        self.no_longer_open(number)
        self._acked_ever.add(number)
        self.acked_in_life.add(number)

    def _note_retry(self, seat: Seat, numbers: Sequence[int]) -> None:
        """These are given back by a worker that wants them again."""
        self.given_back.update(numbers)
        if self.keys.retry_delay_s:
            self.retry_at.update((number, self._now() + self.keys.retry_delay_s) for number in numbers if number >= 0)
        if self.attempts is not None:
            self.attempts.given_back(seat, numbers)
        if self.lot is not None:
            self.lot.given_back(numbers)

    # ---- ends

    def ended(self, end: End) -> None:
        """A client's connection is over at the gateway's end."""
        connection = self.connections.pop(end, None)
        if connection is not None:
            for seat in list(connection.seats.values()):
                self._end(connection, seat)

    def _end(self, connection: Connection, seat: Seat) -> None:
        if self.claims is not None:
            self.claims.left(seat)
        if self.attempts is not None:
            self.attempts.left_behind(seat.held.values())
        for place in list(seat.held):
            self._release(seat, place)
        if connection.seats.get(seat.consumer_id) is seat:
            del connection.seats[seat.consumer_id]
