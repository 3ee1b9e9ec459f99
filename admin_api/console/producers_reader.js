// When exclusive producers are read: each second while somebody looks, and at events.

import * as api from "./api.js";
import { Refused } from "./api.js";

const POLL_MS = 1_000;
/** A topic that nobody wants says by an event when somebody does; asking is for those without a stream. */
const ABSENT_MS = 5_000;
const RETRY_MS = 2_000;
/** Events come in swarms; one reading is for all that come within it. */
const SETTLE_MS = 250;
/** The gateway is asked less often where an answer takes long. */
const SPARE = 8;
const POLL_MAX_MS = 10_000;
const TOPICS = 100;
export const WAITING = 100;

export class ProducersReader {
  #producers;
  #handlers;
  #on = false;
  #busy = false;
  #again = false;
  #timer = 0;
  #soon = 0;

  /** `handlers`: read(), refused(sentence), failed(error) after each reading. */
  constructor(producers, handlers) {
    this.#producers = producers;
    this.#handlers = handlers;
    document.addEventListener("visibilitychange", () => this.now());
  }

  start() {
    this.#on = true;
    this.now();
  }

  stop() {
    this.#on = false;
    clearTimeout(this.#timer);
  }

  /** Something changed. */
  soon() {
    if (this.#soon !== 0) return;
    this.#soon = setTimeout(() => {
      this.#soon = 0;
      this.now();
    }, SETTLE_MS);
  }

  /** Now, and again after a while; not while nobody looks. */
  async now() {
    clearTimeout(this.#timer);
    if (!this.#on || document.visibilityState !== "visible") return;
    if (this.#busy) {
      this.#again = true;
      return;
    }
    this.#busy = true;
    const pause = await this.#read();
    this.#busy = false;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.now(), this.#again ? 0 : pause);
    this.#again = false;
  }

  /** Reads what is chosen; gives the pause until the next time. */
  async #read() {
    const { topic, first } = this.#producers;
    const chosen = () => this.#on && topic === this.#producers.topic && first === this.#producers.first;
    const began = performance.now();
    try {
      const answer = topic === "" ? await this.#pages() : await api.election(topic, first, WAITING);
      if (!chosen()) return 0;
      this.#take(answer);
    } catch (error) {
      if (!chosen()) return 0;
      return this.#missed(error);
    }
    this.#handlers.read();
    return Math.min(POLL_MAX_MS, Math.max(POLL_MS, (performance.now() - began) * SPARE));
  }

  async #pages() {
    const elections = [];
    let answer = { next: null };
    for (let page = 0; page < this.#producers.pages; page += 1) {
      answer = await api.elections(answer.next, TOPICS);
      elections.push(...answer.elections);
      if (answer.next === null) break;
    }
    return { summary: answer.summary, elections, more: answer.next !== null };
  }

  #take(answer) {
    const { topic, first } = this.#producers;
    if (topic === "") {
      this.#producers.tookList(answer);
    } else if (first > 0 && answer.waiting.length === 0) {
      // The queue got so short that this page of it is gone; the first one never is.
      this.#producers.first = 0;
      this.#again = true;
    } else {
      this.#producers.tookPage(answer);
    }
  }

  #missed(error) {
    if (!(error instanceof Refused)) {
      this.#handlers.failed(error);
      return RETRY_MS;
    }
    if (this.#producers.topic === "" || error.status !== 404) {
      this.#handlers.refused(`Reading was refused: ${error.message}.`);
      return RETRY_MS;
    }
    this.#producers.lost();
    this.#handlers.read();
    return ABSENT_MS;
  }
}
