// Reads a view's list or item: every second while the page is visible, and after events.

import { Refused } from "./api.js";

const POLL_MS = 1_000;
/** An absent item is announced by an event; polling is for pages without a stream. */
const ABSENT_MS = 5_000;
const RETRY_MS = 2_000;
/** Events come in bursts; one reading covers all events within this time. */
const SETTLE_MS = 250;
/** A slow answer is requested less often. */
const SPARE = 8;
const POLL_MAX_MS = 10_000;

export class ListedReader {
  #model;
  #source;
  #handlers;
  #on = false;
  #busy = false;
  #again = false;
  #timer = 0;
  #soon = 0;

  /**
   * `source`: page(after) gives an answer with `items` and `next`, one(chosen) another. `handlers`: read(),
   * refused(sentence), failed(error) after each reading.
   */
  constructor(model, source, handlers) {
    this.#model = model;
    this.#source = source;
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

  /** Reads now and then repeatedly; not while the page is hidden. */
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

  /** Reads the chosen item; returns the pause until the next reading. */
  async #read() {
    const { chosen, choices } = this.#model;
    const wanted = () => this.#on && choices === this.#model.choices;
    const began = performance.now();
    try {
      const answer = chosen === null ? await this.#pages() : await this.#source.one(chosen);
      if (!wanted()) return 0;
      if (chosen === null) this.#model.tookList(answer);
      else if (!this.#model.tookOne(answer)) return 0;
    } catch (error) {
      if (!wanted()) return 0;
      return this.#missed(error);
    }
    this.#handlers.read();
    return Math.min(POLL_MAX_MS, Math.max(POLL_MS, (performance.now() - began) * SPARE));
  }

  async #pages() {
    const items = [];
    let answer = { next: null };
    for (let page = 0; page < this.#model.pages; page += 1) {
      answer = await this.#source.page(answer.next);
      items.push(...answer.items);
      if (answer.next === null) break;
    }
    return { ...answer, items, more: answer.next !== null };
  }

  #missed(error) {
    if (!(error instanceof Refused)) {
      this.#handlers.failed(error);
      return RETRY_MS;
    }
    if (this.#model.chosen === null || error.status !== 404) {
      this.#handlers.refused(`Reading was refused: ${error.message}.`);
      return RETRY_MS;
    }
    this.#model.lost();
    this.#handlers.read();
    return ABSENT_MS;
  }
}
