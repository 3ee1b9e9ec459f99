"""What the table's page says in words: how to read it, and what to do where something is not simply served."""

from __future__ import annotations

from typing import Final

PAGE: Final = """\
# Compatibility

What official clients do through the gateway, unmodified, with token authentication. Every cell was observed: a small
program in the client's language tries the feature directly at a broker and through a gateway in front of that broker.
`python -m integration.compatibility --write` does so and writes this page; `tests/integration/test_compatibility.py`
does the same for Python, Java and Go, and fails when this page does not say what it finds. Brokers: {brokers}.
A cell that names no broker is true with each of them. Through three replicas in
[owner mode](groups.md#owner-mode) Python, Java and Go find the same in every cell: the same test compares, with the
first broker (`--replicas 3`).

On 3.0.7, of the long-term line before, [the contract](concepts.md#the-contract) holds too: through one gateway, while
workers come, leave and are killed and the gateway is killed, and through three replicas, one of which is killed. Both
are shown with default batching by `tests/integration/test_line_before.py`; the cells below were not tried there.

{clients}

{left_out}

## How to read it

| cell | |
|---|---|
| {yes} | it works, directly and through the gateway |
| {only_here} | it works through the gateway and not directly |
| {refused} | it works directly and not through the gateway |
| {own_limit} | it does not work directly either: the client's or the broker's own limit |
| {not_offered} | this client does not offer it, or the program does not try it (see the notes) |

Served, by what the gateway tells of the topics (its [events](admin.md#events)):

| served | |
|---|---|
| {dispatched} | the gateway deals the messages to the workers and answers their requests |
| {queued} | the gateway keeps the line of those that wait ([exclusive producers](producers.md)); the rest passes |
| {passes} | relayed to the broker and back, unchanged |

"Two workers" means: every key came whole, in order, to one of two workers, and each of them got some. The rows from
there to "acknowledgement in a transaction" are about a Key_Shared subscription.

## Table

{table}

## Notes

{notes}

What else is refused, and when: [concepts](concepts.md#what-is-refused). Clients that authenticate by a TLS certificate
are served where the gateway has a proxy role: [security](security.md#clients-that-authenticate-by-a-certificate).

## The clients' own tests

The Go client's module and the Rust client's crate carry the clients' own tests. `make suites` fetches and compiles
them. It runs each test in a process of its own, once at a {newest} broker and once through a gateway in front of such
a broker. The brokers have transactions, tokens, passwords and TLS. On the second way
admin calls go to the gateway, too, which passes them on; those by TLS go to the broker on both ways. A test that ends
differently on the two ways is repeated at new brokers; a difference that stays is one.

| tests | number | pass on both | fail on both | skip on both | unsteady | pass directly only |
|---|---|---|---|---|---|---|
| Go client v0.21.0, package `pulsar` | 343 | 331 | 7 | 1 | 2 | 2 |
| Go client v0.21.0, package `pulsaradmin/pkg/admin` | 84 | 83 | 0 | 1 | 0 | 0 |
| Rust client 6.9.1 | 51 | 49 | 1 | 0 | 1 | 0 |

- The two that pass directly only are `TestTLSAuth` and `TestTLSAuthWithCertSupplier`. They need a gateway with a
  [proxy role](security.md#clients-that-authenticate-by-a-certificate), which asks every client for a certificate.
- Of the seven, six start a broker in a container of their own, and `TestNegativeAckPrecisionBitCnt` measures some
  milliseconds, and fails on a busy machine. Rust's `reader` passes only after other tests in the same process.
- Unsteady are tests that measure time, on a busy machine: Go's `TestBatchMessageFlushing` and
  `TestTimedTrackerCumulativeAck`. Rust's `test_round_robin_routing_policy` fails at times on either way.
- This run took 25 minutes on two cores, with other work beside it, and compiling took longer the first time.
  `make suites ARGS="--suites go --only Reader"` runs some; `tests/integration/test_suites.py` runs a selection.
- Python is left out: `pulsar-client` is published as wheels only, without its tests. Java is left out: its tests
  start a broker within their own process.

## After Pulsar's own Key_Shared tests

What Java's tests of Key_Shared do and see from outside (`KeySharedSubscriptionTest`) is played by 72 scenarios
with the Java client, at a {newest} broker: keys to workers, STICKY ranges, workers that come, leave, stand still and
come back, modes that change, expiry, delays and limits; most without batches, with batches by key and with the default
batching of many keys. All end well through one gateway and, with workers at all of them, through three replicas.
`tests/integration/test_key_shared_suite.py` runs them, and names the test of Pulsar's that each follows. Those without
default batching also run directly at the broker.
"""

NOTES: Final = {
    "mixed_batches": "A broker sees one key per batch and sends all of it to that key's worker; without the gateway, "
    "producers have to batch by key. The gateway [opens such batches](concepts.md#batches).",
    "partitioned": "Rust heeds keys with `RoutingPolicy::RoundRobin`, and does not when nothing is said.",
    "ack_timeout": "Python's least is 10 s; Go has none.",
    "retry_letter": "Python and Rust have no reconsume later: acknowledge the message and send it again, later, "
    "yourself. In Go leave `AckWithResponse` off: with it the client waits for an answer that it keeps itself from "
    "reading.",
    "delayed": "A broker, with the gateway or without, may leave a delayed message lying at the end of a topic until "
    "something new is sent (apache/pulsar issue 21554).",
    "seek_id": "Go itself refuses to seek to `EarliestMessageID()`; it seeks to ids of messages and to times.",
    "schema_string": "Rust declares schemas, and leaves it to the program to encode.",
    "schema_avro": "Python needs `pulsar-client[avro]`, which is not installed where this page is made.",
    "cumulative_ack": "It would acknowledge other workers' messages, so most clients refuse before they send anything. "
    "Rust's sends it, and nothing is acknowledged, with the gateway or without. Acknowledge each message; clients "
    "group that by themselves.",
    "transactional_ack": "Directly, a broker goes on with a key whose first message is in a transaction, and sends "
    "that one behind later ones after an abort; the gateway [keeps the order](concepts.md#transactions). Go's client "
    "acknowledges a batch as a whole, with its last message.",
    "non_persistent": "Nothing of such a topic is stored or sent again; the gateway leaves it to the broker.",
    "reader": "Python's program does not seek with its reader: on a busy machine one that did waited in vain for a "
    "message, once directly and once through the gateway. The cause was not found.",
    "transactions": "Go 0.19.0 marks the command that sends a message, not the message, so consumers are shown what an "
    "aborted transaction wrote (apache/pulsar-client-go issue 1498). Its acknowledgements in transactions work.",
}
"""By feature. A feature that is neither served nor simply not offered needs one."""
