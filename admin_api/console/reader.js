// Schedules readings. The stream reports that something changed; the readings get the current state.

import * as api from "./api.js";
import { Refused } from "./api.js";

const POLL_MS = 2_000;
/** Events come in bursts; one reading covers all events within this time. */
const SETTLE_MS = 250;
/** With 300 workers an answer has half a megabyte: a slow answer is requested less often. */
const SPARE = 8;
const POLL_MAX_MS = 5_000;

export class Reader {
  #model;
  #failed;
  #poll = 0;
  #busy = false;
  #again = false;
  #ringWanted = false;
  #soon = 0;
  #tookMs = 0;

  /** `failed()` is called when the gateway does not answer. */
  constructor(model, failed) {
    this.#model = model;
    this.#failed = failed;
    document.addEventListener("visibilitychange", () => this.all());
  }

  /** Something changed; with `ring`, the owners of slots as well. */
  soon({ ring = false } = {}) {
    this.#ringWanted ||= ring;
    if (this.#soon === 0) this.#soon = setTimeout(() => this.now(), Math.min(POLL_MS, Math.max(SETTLE_MS, this.#tookMs)));
  }

  /** Everything, at once. */
  all() {
    this.#ringWanted = true;
    return this.now();
  }

  async now() {
    clearTimeout(this.#soon);
    clearTimeout(this.#poll);
    this.#soon = 0;
    if (this.#busy) {
      this.#again = true;
      return;
    }
    const { chosen, connection, away } = this.#model;
    if (chosen === null || away || connection === "broken" || document.visibilityState !== "visible") return;
    this.#busy = true;
    await this.#read(chosen);
    this.#busy = false;
    if (this.#again) {
      this.#again = false;
      this.soon();
    }
    clearTimeout(this.#poll);
    this.#poll = setTimeout(() => this.now(), Math.min(POLL_MAX_MS, Math.max(POLL_MS, this.#tookMs * SPARE)));
  }

  async #read(chosen) {
    const began = performance.now();
    const ringWanted = this.#ringWanted;
    this.#ringWanted = false;
    try {
      const [subscription, ring] = await Promise.all([api.subscription(chosen), ringWanted ? api.ring(chosen) : null]);
      if (chosen !== this.#model.chosen) return;
      this.#model.took(subscription);
      if (ring !== null) this.#model.tookRing(ring);
    } catch (error) {
      if (chosen !== this.#model.chosen) return;
      this.#ringWanted = true;
      if (!(error instanceof Refused)) this.#failed(error);
      else if (error.status === 404) this.#model.lostSubscription(error.message);
      else this.#model.refused(`Reading was refused: ${error.message}.`);
    }
    this.#tookMs = performance.now() - began;
  }
}
