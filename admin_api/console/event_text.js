// Events in words.

import { counted, duration, listed, percent, topicParts, whole } from "./format.js";
import { modeOf } from "./producers_text.js";

const SLOTS = 65_536;

const TELLERS = {
  worker_joined: ({ worker, address, ...moved }) => `${worker} joined from ${address}${gained(moved)}`,
  worker_left: ({ worker, reason, ...moved }) => `${worker} left: ${reason}${lost(moved)}`,
  drains_began: ({ began_count, draining_hashes_count }) =>
    `${counted(began_count, "slot")} began to drain; ${whole(draining_hashes_count)} drain now`,
  drains_ended: handedOver,
  upstream_lost: ({ reason, ...of }) => `connection to the broker${ofStreams(of)} lost: ${reason}`,
  upstream_ready: ({ connects, ...of }) => `connected to the broker${ofStreams(of)} (connection ${whole(connects)})`,
  transactions_open: ({ transactions_count }) =>
    `waits for ${counted(transactions_count, "transaction")} that ${transactions_count === 1 ? "was" : "were"} open when the gateway took over`,
  transactions_left_open: ({ transactions_count, reason }) =>
    `goes on although ${counted(transactions_count, "transaction")} ${transactions_count === 1 ? "is" : "are"} open: ${reason}`,
  consumer_beside: () => "goes on beside another consumer at the broker: its own former one, a direct worker or another gateway",
  subscription_began: () => "the subscription's first worker joined",
  subscription_ended: () => "the subscription's last worker left",
  producer_queued: ({ priority, address, waiting_count, producer_name }) =>
    `${producer(producer_name)} at ${address} queued, priority ${whole(priority)}; ${whole(waiting_count)} ${waiting_count === 1 ? "waits" : "wait"} now`,
  producer_promoted: (facts) => `${producer(facts.producer_name)} became the owner${ownership(facts)}`,
  producer_resumed: (facts) => `${producer(facts.producer_name)} returned and owns the topic again${ownership(facts)}`,
  producer_took_topic: ({ producer_name, access_mode, topic_epoch, address }) =>
    `${producer(producer_name)} at ${address} took the topic without waiting (${modeOf(access_mode)}${epoch(topic_epoch)})`,
  producer_left: ({ producer_name, reason }) => `${producer(producer_name)} no longer owns the topic: ${reason}`,
  producer_promotion_failed: ({ producer_name, priority, address, reason }) =>
    `${producer(producer_name)} at ${address}, priority ${whole(priority)}, did not become the owner: ${reason}`,
  producer_left_queue: ({ producer_name, priority, address, reason }) =>
    `${producer(producer_name)} at ${address}, priority ${whole(priority)}, left the queue: ${reason}`,
  group_joined: () => "this replica joined the group",
  group_session: ({ state, leader, epoch, streams, reason }) =>
    state === "connecting"
      ? `this replica has no lease: nothing of the subscription is delivered here${reason ? ` (${reason})` : ""}`
      : `leases of ${counted(streams.length, "stream")}${streams.length > 0 ? ` (${runsOf(streams)})` : ""} from ${leader}, epoch ${epoch}`,
  group_leader: ({ leads, epoch }) => (leads ? `this replica leads the group, epoch ${epoch}` : "this replica no longer leads the group"),
  group_replayed: ({ problem }) =>
    problem === null ? "the group replays from another position" : `the group's replay failed: ${problem}`,
  group_stream_released: ({ stream, streams = [stream], duration_s, overdue }) =>
    `${streamsNamed(streams)} released ${duration_s < 0.001 ? "at once" : `after ${streams.length > 1 ? "up to " : ""}${duration(duration_s)}`}${overdue ? `; workers still had messages of ${streams.length > 1 ? "them" : "it"}` : ""}`,
  group_left: () => "this replica left the group",
  dead_letters: ({ dead_letter_topic, messages_count, messages }) =>
    `${counted(messages_count, "message")} went to ${topicParts(dead_letter_topic).name} after ${counted(Math.max(...messages.map(({ attempts }) => attempts)), "attempt")}`,
  parked: ({ dead_letter_topic, messages_count }) =>
    `${counted(messages_count, "message")} parked in ${topicParts(dead_letter_topic).name}`,
  parked_wait: ({ dead_letter_topic, messages_count, reason }) =>
    `${topicParts(dead_letter_topic).name} does not take ${counted(messages_count, "message")}, whose keys wait: ${reason}`,
  keys_parked: ({ slots, parking_topic }) =>
    `${counted(slots.length, "slot")} parked (${runsOf(slots)}): ${slots.length === 1 ? "its" : "their"} messages go to ${topicParts(parking_topic).name}`,
  key_policy: (facts) =>
    `key policy: ${Object.entries(facts)
      .map(([name, value]) => `${name} ${value}`)
      .join(", ")}`,
  redriven: ({ slot }) => `slot ${whole(slot)} is not parked any more: all that was parked is acknowledged`,
  parked_dropped: ({ slot }) => `slot ${whole(slot)} is not parked any more: what was parked was deleted`,
  redrive_failed: ({ slot, reason }) => `the redrive of slot ${whole(slot)} ended, and the rest is still parked: ${reason}`,
  parked_gone: ({ slot, messages, first, parking_topic }) =>
    `${topicParts(parking_topic).name} does not have ${counted(messages, "message")} of slot ${whole(slot)} any more, the first at ${first}: the broker deleted them`,
  dead_letters_wait: ({ dead_letter_topic, messages_count, reason }) =>
    `${topicParts(dead_letter_topic).name} does not take ${counted(messages_count, "message")}, whose keys wait: ${reason}`,
  ack_lease_lost: ({ worker, messages, position, held_s }) =>
    `${worker} loses ${counted(messages, "message")}: it held ${position} for ${duration(held_s)}`,
  contract_violated: ({ violation, message, worker, other_message, other_worker }) =>
    violation === "overtaken"
      ? `CONTRACT BROKEN: ${message} went to ${worker} before ${other_message}`
      : violation === "sent_twice"
        ? `CONTRACT BROKEN: ${message} went to ${worker} twice`
        : `CONTRACT BROKEN: ${message} went to ${worker} while ${other_worker} has ${other_message}`,
  worker_quarantined: ({ worker, lasts_s }) =>
    `${worker} lost its ack lease too often, and gets no keys for ${duration(lasts_s)}`,
  quarantine_ended: ({ worker }) => `the quarantine of ${worker} is over`,
  operator_order: ({ order, worker, mode, by }) =>
    `${by ? `ordered by ${by}` : "operator's order"}: ${order}${worker ? ` of ${worker}` : ""}${mode ? `, ${mode}` : ""}`,
};

/** "0 to 3, 7", cut to the available length. */
function runsOf(streams) {
  const runs = [];
  for (const stream of streams.toSorted((a, b) => a - b)) {
    if (runs.at(-1)?.last === stream - 1) runs.at(-1).last = stream;
    else runs.push({ first: stream, last: stream });
  }
  return listed(runs.map(({ first, last }) => (first === last ? whole(first) : `${whole(first)} to ${whole(last)}`)), 8);
}

const streamsNamed = (streams) => `stream${streams.length === 1 ? "" : "s"} ${runsOf(streams)}`;
/** Only shared subscriptions have streams; events of several streams are merged. */
const ofStreams = ({ stream, streams = [stream] }) => (streams[0] === undefined ? "" : ` for ${streamsNamed(streams)}`);

/** One sentence; for an unknown kind, its name. */
export function told(event) {
  const teller = TELLERS[event.kind];
  return teller === undefined ? event.kind.replaceAll("_", " ") : teller(event.facts, topicParts(event.topic));
}

/** A waiting producer has no name until the broker assigns one, unless its client chose it. */
const producer = (name) => name || "a producer";
const epoch = (number) => (number === null ? "" : `, epoch ${whole(number)}`);

function ownership({ priority, topic_epoch, address, vacant_s, waiting_count }) {
  const known = `, priority ${whole(priority)}${epoch(topic_epoch)}, from ${address}`;
  const vacant = vacant_s > 0 ? `, after ${duration(vacant_s)} without an owner` : "";
  const others = waiting_count === 0 ? "the queue is empty" : `${counted(waiting_count, "other")} still ${waiting_count === 1 ? "waits" : "wait"}`;
  return `${known}${vacant}; ${others}`;
}

const some = (names) => (names.length > 3 ? counted(names.length, "worker") : listed(names, 3));

function part({ moves, moves_count }) {
  if (moves_count > moves.length) return counted(moves_count, "range");
  const slots = moves.reduce((sum, move) => sum + move.end - move.start + 1, 0);
  return percent(slots / SLOTS);
}

function gained(moved) {
  if (moved.moves_count === 0) return "; no slots moved";
  const sources = [...new Set(moved.moves.map((move) => move.source))].filter((name) => name !== null);
  return `; took ${part(moved)} of the slots${sources.length > 0 ? ` from ${some(sources)}` : ""}`;
}

function lost(moved) {
  if (moved.moves_count === 0) return "";
  const targets = [...new Set(moved.moves.map((move) => move.target))].filter((name) => name !== null);
  const destination = targets.length > 0 ? ` went to ${some(targets)}` : " have no owner now";
  return `; its ${part(moved)} of the slots${destination}`;
}

function handedOver({ hand_overs_count, hand_overs, draining_hashes_count }) {
  const still = draining_hashes_count > 0 ? `${whole(draining_hashes_count)} still drain` : "none drains now";
  const longest = hand_overs.reduce((most, item) => Math.max(most, item.duration_s), 0);
  const sources = [...new Set(hand_overs.map((item) => item.source))];
  const targets = [...new Set(hand_overs.map((item) => item.target ?? "no worker"))];
  const what = hand_overs_count === 1 ? `slot ${whole(hand_overs[0].slot)} handed over` : `${whole(hand_overs_count)} slots handed over`;
  return `${what} from ${some(sources)} to ${some(targets)} after ${hand_overs_count === 1 ? "" : "up to "}${duration(longest)}; ${still}`;
}

/** Merges two events, the later one second; null if they stay separate. */
export function joined(before, event) {
  const [old, facts] = [before.facts, event.facts];
  if (event.kind === "drains_ended") {
    const both = {
      hand_overs_count: old.hand_overs_count + facts.hand_overs_count,
      hand_overs: [...old.hand_overs, ...facts.hand_overs].slice(-300),
      draining_hashes_count: facts.draining_hashes_count,
    };
    return { ...event, facts: both };
  }
  if (event.kind === "drains_began") {
    return { ...event, facts: { ...facts, began_count: old.began_count + facts.began_count } };
  }
  return facts.stream === undefined ? null : joinedStreams(old, event);
}

/** Merges equal events of several streams of a group. */
function joinedStreams(old, event) {
  const { facts } = event;
  const alike = ["reason", "connects", "overdue"].every((name) => old[name] === facts[name]);
  if (!alike || old.stream === undefined) return null;
  const longest = facts.duration_s === undefined ? {} : { duration_s: Math.max(old.duration_s, facts.duration_s) };
  return { ...event, facts: { ...facts, ...longest, streams: [...new Set([...(old.streams ?? [old.stream]), facts.stream])] } };
}
