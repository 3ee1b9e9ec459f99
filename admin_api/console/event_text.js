// Events in words.

import { counted, duration, listed, percent, topicParts, whole } from "./format.js";
import { modeOf } from "./producers_text.js";

const HASHES = 65_536;

const TELLERS = {
  worker_joined: ({ consumer, address, ...moved }) => `${consumer} joined from ${address}${gained(moved)}`,
  worker_left: ({ consumer, reason, ...moved }) => `${consumer} left: ${reason}${lost(moved)}`,
  drains_began: ({ began_count, draining_hashes_count }) =>
    `${counted(began_count, "slot")} began to drain; ${whole(draining_hashes_count)} drain now`,
  drains_ended: handedOver,
  upstream_lost: ({ reason, ...of }) => `connection to the broker${ofStreams(of)} lost: ${reason}`,
  upstream_ready: ({ connects, ...of }) => `connected to the broker${ofStreams(of)} (connection ${whole(connects)})`,
  subscription_began: () => "first worker of the subscription came",
  subscription_ended: () => "last worker of the subscription went",
  producer_queued: ({ priority, address, waiting_count, producer_name }) =>
    `${producer(producer_name)} at ${address} came to wait, priority ${whole(priority)}; ${whole(waiting_count)} ${waiting_count === 1 ? "waits" : "wait"} now`,
  producer_promoted: (facts) => `${producer(facts.producer_name)} became the owner${ownership(facts)}`,
  producer_resumed: (facts) => `${producer(facts.producer_name)} came back and owns the topic again${ownership(facts)}`,
  producer_took_topic: ({ producer_name, access_mode, topic_epoch, address }) =>
    `${producer(producer_name)} at ${address} took the topic without waiting (${modeOf(access_mode)}${epoch(topic_epoch)})`,
  producer_left: ({ producer_name, reason }) => `${producer(producer_name)} owns the topic no more: ${reason}`,
  producer_promotion_failed: ({ producer_name, priority, address, reason }) =>
    `${producer(producer_name)} at ${address}, priority ${whole(priority)}, did not become the owner: ${reason}`,
  producer_left_queue: ({ producer_name, priority, address, reason }) =>
    `${producer(producer_name)} at ${address}, priority ${whole(priority)}, waits no more: ${reason}`,
  group_joined: () => "this replica takes part in the group",
  group_session: ({ state, leader, epoch, streams, reason }) =>
    state === "connecting"
      ? `this replica has no lease: nothing of the subscription is delivered here${reason ? ` (${reason})` : ""}`
      : `leases of ${counted(streams.length, "stream")}${streams.length > 0 ? ` (${runsOf(streams)})` : ""} from ${leader}, epoch ${whole(epoch)}`,
  group_leader: ({ leads, epoch }) => (leads ? `this replica leads the group, epoch ${whole(epoch)}` : "this replica leads the group no more"),
  group_replayed: ({ problem }) =>
    problem === null ? "the group delivers again from another place" : `the group could not be moved: ${problem}`,
  group_stream_given_back: ({ stream, streams = [stream], duration_s, overdue }) =>
    `${streamsNamed(streams)} given back ${duration_s < 0.001 ? "at once" : `after ${streams.length > 1 ? "up to " : ""}${duration(duration_s)}`}${overdue ? `; workers had messages of ${streams.length > 1 ? "them" : "it"} still` : ""}`,
  group_left: () => "this replica left the group",
  ordered: ({ order, consumer, mode }) => `ordered: ${order}${consumer ? ` of ${consumer}` : ""}${mode ? `, ${mode}` : ""}`,
};

/** "0 to 3, 7", as far as there is room for it. */
function runsOf(streams) {
  const runs = [];
  for (const stream of streams.toSorted((a, b) => a - b)) {
    if (runs.at(-1)?.last === stream - 1) runs.at(-1).last = stream;
    else runs.push({ first: stream, last: stream });
  }
  return listed(runs.map(({ first, last }) => (first === last ? whole(first) : `${whole(first)} to ${whole(last)}`)), 8);
}

const streamsNamed = (streams) => `stream${streams.length === 1 ? "" : "s"} ${runsOf(streams)}`;
/** Only what a group shares has streams; events of several are told as one. */
const ofStreams = ({ stream, streams = [stream] }) => (streams[0] === undefined ? "" : ` for ${streamsNamed(streams)}`);

/** One sentence; of a kind that this page does not know, its name. */
export function told(event) {
  const teller = TELLERS[event.kind];
  return teller === undefined ? event.kind.replaceAll("_", " ") : teller(event.facts, topicParts(event.topic));
}

/** One that waits has no name until the broker gives it one, unless its client chose it. */
const producer = (name) => name || "a producer";
const epoch = (number) => (number === null ? "" : `, epoch ${whole(number)}`);

function ownership({ priority, topic_epoch, address, vacant_s, waiting_count }) {
  const known = `, priority ${whole(priority)}${epoch(topic_epoch)}, from ${address}`;
  const vacant = vacant_s > 0 ? `, after ${duration(vacant_s)} without an owner` : "";
  const others = waiting_count === 0 ? "nobody waits now" : `${counted(waiting_count, "other")} still ${waiting_count === 1 ? "waits" : "wait"}`;
  return `${known}${vacant}; ${others}`;
}

const whom = (names) => (names.length > 3 ? counted(names.length, "worker") : listed(names, 3));

function part({ moves, moves_count }) {
  if (moves_count > moves.length) return counted(moves_count, "range");
  const slots = moves.reduce((sum, move) => sum + move.end - move.start + 1, 0);
  return percent(slots / HASHES);
}

function gained(moved) {
  if (moved.moves_count === 0) return "; no hashes moved";
  const sources = [...new Set(moved.moves.map((move) => move.source))].filter((name) => name !== null);
  return `; took ${part(moved)} of the hashes${sources.length > 0 ? ` from ${whom(sources)}` : ""}`;
}

function lost(moved) {
  if (moved.moves_count === 0) return "";
  const targets = [...new Set(moved.moves.map((move) => move.target))].filter((name) => name !== null);
  const whither = targets.length > 0 ? ` went to ${whom(targets)}` : " have no owner now";
  return `; its ${part(moved)} of the hashes${whither}`;
}

function handedOver({ hand_overs_count, hand_overs, draining_hashes_count }) {
  const still = draining_hashes_count > 0 ? `${whole(draining_hashes_count)} still drain` : "none drains now";
  const longest = hand_overs.reduce((most, item) => Math.max(most, item.duration_s), 0);
  const sources = [...new Set(hand_overs.map((item) => item.source))];
  const targets = [...new Set(hand_overs.map((item) => item.target ?? "nobody"))];
  const what = hand_overs_count === 1 ? `slot ${whole(hand_overs[0].hash)} handed over` : `${whole(hand_overs_count)} slots handed over`;
  return `${what} from ${whom(sources)} to ${whom(targets)} after ${hand_overs_count === 1 ? "" : "up to "}${duration(longest)}; ${still}`;
}

/** Two events as one, the later second; null if they are better told apart. */
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

/** What happened alike to several streams of a group. */
function joinedStreams(old, event) {
  const { facts } = event;
  const alike = ["reason", "connects", "overdue"].every((name) => old[name] === facts[name]);
  if (!alike || old.stream === undefined) return null;
  const longest = facts.duration_s === undefined ? {} : { duration_s: Math.max(old.duration_s, facts.duration_s) };
  return { ...event, facts: { ...facts, ...longest, streams: [...new Set([...(old.streams ?? [old.stream]), facts.stream])] } };
}
