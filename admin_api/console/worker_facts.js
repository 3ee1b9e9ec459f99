// Derives the workers of an answer, with values from its other parts.

import { stillState } from "./groups_text.js";

/** The reason that blocks a worker, the strongest first; `tone` selects a colour, the text alone is sufficient. */
function stateOf(worker) {
  if (worker.drained_by_operator) return { text: "drained by operator", tone: "held" };
  if (!worker.writable) return { text: "not reading", tone: "bad" };
  if (worker.blocked_on_unacked_messages) return { text: "unacked limit", tone: "bad" };
  if (worker.waits_for_join_position) return { text: "waits for join position", tone: "held" };
  if (worker.draining_hashes_count > 0) return { text: "handing over", tone: "held" };
  if (worker.available_permits <= 0) return { text: "no permits", tone: "idle" };
  return { text: "ready", tone: "good" };
}

/**
 * In join order. Names need not be unique: the n-th of a name has the n-th address, and `name#n` is its key here, which
 * is also what the ring's list of names leads to.
 */
export function workersOf(subscription, rates = new Map()) {
  const addresses = new Map();
  for (const [name, address] of subscription.addresses) {
    addresses.set(name, [...(addresses.get(name) ?? []), address]);
  }
  const keys = keysOf(subscription.dispatcher.workers.map((worker) => worker.name));
  return subscription.dispatcher.workers.map((worker, place) => {
    const { acked = null, sent = null } = rates.get(keys[place]) ?? {};
    return {
      ...worker,
      key: keys[place],
      address: addresses.get(worker.name)?.shift() ?? "",
      state: stateOf(worker),
      acked_rate: acked,
      sent_rate: sent,
    };
  });
}

/** A key for each name in a list, the same for the same list elsewhere. */
export function keysOf(names) {
  const seen = new Map();
  return names.map((name) => {
    const number = (seen.get(name) ?? 0) + 1;
    seen.set(name, number);
    return `${name}#${number}`;
  });
}

/** The reason that blocks a whole subscription, or its normal state. */
export function subscriptionState(subscription) {
  if (subscription.dispatcher.paused) return { text: "paused", tone: "held" };
  if (subscription.upstream_state !== "ready") {
    return { text: `broker: ${subscription.upstream_state.replaceAll("_", " ")}`, tone: "bad" };
  }
  const still = subscription.group === null ? null : stillState(subscription.group);
  if (still !== null) return still;
  if (subscription.dispatcher.draining_hashes_count > 0) return { text: "handing over", tone: "held" };
  return { text: "delivering", tone: "good" };
}
