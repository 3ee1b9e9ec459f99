// The state of the page: changed by `main.js` and `reader.js`, read by every view.

import { Telling } from "./telling.js";
import { workersOf } from "./worker_facts.js";

/** With a shorter time, a rate would jump at every reading that an event causes. */
const RATE_WINDOW_S = 1.5;

export class Model extends Telling {
  /** {topic, subscription}, or null. */
  chosen = null;
  /** {by: "key" | "slot", value}, or null. */
  asked = null;
  /** Another visible view, or null: this one then reads nothing and does not set the page's title. */
  away = null;
  subscription = null;
  ring = null;
  workers = [];
  /** Key of the worker that is highlighted on the ring, or null. */
  picked = null;
  /** The reason why orders are disabled; empty if they are not. */
  readOnly = "";
  /** "connecting", "live", "broken"; with `problem` in words. */
  connection = "connecting";
  problem = "";
  /** No worker consumes the chosen subscription now; the gateway's sentence. */
  absent = "";
  /** The reason why the last reading was refused; empty if it was not. */
  refusal = "";
  /** A warning about the whole gateway; empty if there is none. */
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

  /** The subscription has ended here; clears what was shown. */
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

  /** The chosen subscription was read, or does not exist. */
  get settled() {
    return this.subscription !== null || this.absent !== "" || this.connection === "broken";
  }

  /** The gateway's clock now; 0 before the first reading. */
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

  /** Per worker, the difference to a reading that is old enough; a counter that fell belongs to another worker. */
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
