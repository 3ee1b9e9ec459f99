// Derives the workers of an answer, with values from its other parts.

import { stateOf } from "./verdict.js";

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
      state: stateOf(worker.health),
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

/** What is wrong with a subscription, or its normal state. */
export const subscriptionState = ({ dispatcher }) => stateOf(dispatcher.verdict);
