// What the page knows: one place, changed by `main.js` and `reader.js`, read by every view.

import { Telling } from "./telling.js";
import { workersOf } from "./worker_facts.js";

/** Shorter, and a rate would jump with every re-read that an event asks for. */
const RATE_WINDOW_S = 1.5;

export class Model extends Telling {
  /** {topic, subscription}, or null. */
  chosen = null;
  /** {by: "key" | "hash", value}, or null. */
  asked = null;
  /** Another view that is looked at, or null: nothing is read for this one then, and the page's title is not its. */
  away = null;
  subscription = null;
  ring = null;
  workers = [];
  /** Key of the worker that is picked out on the ring, or null. */
  picked = null;
  /** Why no order is taken; empty if they are. */
  readOnly = "";
  /** "connecting", "live", "broken"; with `problem` in words. */
  connection = "connecting";
  problem = "";
  /** Nobody consumes the chosen subscription now; the gateway's sentence. */
  absent = "";
  /** Why the last reading was refused; empty if it was not. */
  refusal = "";
  /** What the gateway as a whole is short of, in words; empty if nothing. */
  warning = "";
  #readAt = 0;
  #before = null;

  choose(chosen) {
    this.chosen = chosen;
    this.subscription = this.ring = this.picked = this.#before = null;
    this.workers = [];
    this.absent = "";
    this.tell("chosen");
  }

  took(subscription) {
    this.absent = "";
    this.refused("");
    this.subscription = subscription;
    this.#readAt = performance.now();
    this.workers = workersOf(subscription, this.#rates(subscription));
    if (this.picked !== null && !this.workers.some((worker) => worker.key === this.picked)) this.picked = null;
    this.tell("subscription");
  }

  tookRing(ring) {
    this.ring = ring;
    this.tell("ring");
  }

  /** Nothing of it is here any more; what was is shown no longer. */
  lostSubscription(sentence) {
    this.absent = sentence;
    this.subscription = this.ring = this.#before = null;
    this.workers = [];
    this.tell("subscription");
    this.tell("ring");
  }

  pick(key) {
    this.picked = this.picked === key ? null : key;
    this.tell("picked");
  }

  connected(state, problem = "") {
    if (state === this.connection && problem === this.problem) return;
    this.connection = state;
    this.problem = problem;
    this.tell("connection");
  }

  refused(refusal) {
    if (refusal === this.refusal) return;
    this.refusal = refusal;
    this.tell("connection");
  }

  warn(warning) {
    if (warning === this.warning) return;
    this.warning = warning;
    this.tell("connection");
  }

  /** What there is to know of the chosen subscription was read, or is not to be had. */
  get settled() {
    return this.subscription !== null || this.absent !== "" || this.connection === "broken";
  }

  /** The gateway's clock now, as far as it was read; 0 if it was not. */
  now() {
    return this.subscription === null ? 0 : this.subscription.now + this.readAge();
  }

  /** Seconds since the values were read. */
  readAge() {
    return (performance.now() - this.#readAt) / 1000;
  }

  /** Likewise, or null if there are none. */
  age() {
    return this.subscription === null ? null : this.readAge();
  }

  /** Per worker, by difference to a reading that is old enough; a counter that fell is another worker's. */
  #rates(subscription) {
    const counts = new Map(workersOf(subscription).map((worker) => [worker.key, worker]));
    const before = this.#before;
    if (before === null || subscription.now < before.now) {
      this.#before = { now: subscription.now, counts, rates: new Map() };
      return new Map();
    }
    const seconds = subscription.now - before.now;
    if (seconds < RATE_WINDOW_S) return before.rates;
    const rates = new Map();
    for (const [key, worker] of counts) {
      const old = before.counts.get(key);
      if (old === undefined || old.joined_at !== worker.joined_at) continue;
      rates.set(key, {
        acked: (worker.acked_messages - old.acked_messages) / seconds,
        sent: (worker.sent_messages - old.sent_messages) / seconds,
      });
    }
    this.#before = { now: subscription.now, counts, rates };
    return rates;
  }
}
