// All subscriptions, read again and again: what the home page and the list beside a subscription show.

import * as api from "./api.js";
import { Telling } from "./telling.js";

const PAGE = 500;
/** More are not shown: find them by topic and name in the address, or with `keyline stats`. */
const MOST = 5_000;
const HOME_MS = 2_000;
const ASIDE_MS = 10_000;
/** A slow answer is requested less often. */
const SPARE = 8;
/** Readings kept of each for its line: about five minutes at home. */
const KEPT = 150;

/** One that replicas share by streams is listed once for each of them. */
export const idOf = ({ topic, subscription, groups_mode: mode, served_by: replica }) =>
  JSON.stringify([topic, subscription, ...(mode === "streams" ? [replica] : [])]);
/** Whose part it is, where it is listed more than once. */
export const partOf = ({ groups_mode: mode, served_by: replica }) => (mode === "streams" && replica !== null ? ` · at ${replica}` : "");

export class Subscriptions extends Telling {
  items = [];
  /** Number of all, also of those that are not shown. */
  count = 0;
  /** They were read once. */
  known = false;
  #model;
  #timer = 0;
  #reading = false;
  #histories = new Map();

  constructor(model) {
    super();
    this.#model = model;
    document.addEventListener("visibilitychange", () => this.read());
    model.on("chosen", () => model.chosen === null && this.read());
  }

  /** Reads now and then repeatedly; not while the page is hidden. */
  async read() {
    clearTimeout(this.#timer);
    if (this.#reading || document.visibilityState !== "visible") return;
    this.#reading = true;
    const began = performance.now();
    const atHome = () => this.#model.chosen === null && this.#model.away === null;
    try {
      await this.#pages();
      this.known = true;
      this.tell("read");
      if (atHome()) this.#model.connected("live");
    } catch (error) {
      if (atHome()) this.#model.connected("broken", error.message);
    }
    this.#reading = false;
    const pause = atHome() ? Math.max(HOME_MS, (performance.now() - began) * SPARE) : ASIDE_MS;
    this.#timer = setTimeout(() => this.read(), pause);
  }

  /** Waiting messages at the last readings, the oldest first. */
  history(item) {
    return this.#histories.get(idOf(item))?.waiting ?? [];
  }

  /** Acknowledged per second between the last two readings; null before there are two. */
  rate(item) {
    return this.#histories.get(idOf(item))?.rate ?? null;
  }

  async #pages() {
    const items = [];
    let after = null;
    let warning = "";
    do {
      const answer = await api.subscriptions(after, PAGE);
      items.push(...answer.subscriptions);
      after = answer.next;
      this.count = answer.subscriptions_count;
      warning = warningOf(answer);
    } while (after !== null && items.length < MOST);
    this.items = items;
    this.#remember();
    this.#model.warn(warning);
  }

  #remember() {
    const here = new Map();
    for (const item of this.items) {
      const { now, dispatcher } = item;
      const before = this.#histories.get(idOf(item)) ?? { waiting: [], rate: null, now: null, acked: 0 };
      const seconds = now - before.now;
      const rate = before.now === null || seconds <= 0 ? before.rate : Math.max(0, dispatcher.acked_messages - before.acked) / seconds;
      const waiting = [...before.waiting.slice(1 - KEPT), dispatcher.waiting_messages];
      here.set(idOf(item), { waiting, rate, now, acked: dispatcher.acked_messages });
    }
    this.#histories = here;
  }
}

function warningOf({ shutting_down, reading_stopped, unanswered }) {
  if (unanswered.length > 0) {
    return `${unanswered.map(({ replica }) => replica).join(", ")} did not answer: subscriptions are missing here.`;
  }
  if (shutting_down) return "The gateway is shutting down: it delivers nothing new.";
  if (reading_stopped) return "The gateway's memory budget is used up: it reads nothing from brokers until workers acknowledge.";
  return "";
}
