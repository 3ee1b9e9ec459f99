// The list of subscriptions: the opened pages are read every ten seconds.

import * as api from "./api.js";
import { arrange, byId, el, setAttribute, setText, show } from "./dom.js";
import { counted, topicParts, whole } from "./format.js";
import { subscriptionState } from "./worker_facts.js";

const PAGE = 50;
const PAUSE_MS = 10_000;

export class Picker {
  #model;
  #choose;
  #list = byId("picker-list");
  #toggle = byId("picker-toggle");
  #filter = byId("picker-filter");
  #pages = 1;
  #items = [];
  #rows = new Map();
  #more = false;
  #timer = 0;
  #reading = false;

  /** `choose({topic, subscription})` is called when a person does. */
  constructor(model, choose) {
    this.#model = model;
    this.#choose = choose;
    this.#filter.addEventListener("input", () => this.#show());
    byId("picker-more").addEventListener("click", () => {
      this.#pages += 1;
      this.read();
    });
    this.#toggle.addEventListener("click", () => this.#open(this.#toggle.getAttribute("aria-expanded") !== "true"));
    model.on("chosen", () => this.#show());
    document.addEventListener("visibilitychange", () => this.read());
  }

  /** On a small screen the list is behind a button; without a choice it is open. */
  open() {
    this.#open(true);
  }

  /** Reads now and then repeatedly; not while the page is hidden. */
  async read() {
    clearTimeout(this.#timer);
    if (this.#reading || document.visibilityState !== "visible") return;
    this.#reading = true;
    try {
      await this.#readPages();
      this.#show();
      if (this.#model.chosen === null) this.#model.connected("live");
    } catch (error) {
      if (this.#model.chosen === null) this.#model.connected("broken", error.message);
    }
    this.#reading = false;
    const pause = this.#model.connection === "broken" ? PAUSE_MS / 5 : PAUSE_MS;
    this.#timer = setTimeout(() => this.read(), pause);
  }

  get items() {
    return this.#items;
  }

  async #readPages() {
    const items = [];
    let after = null;
    let warning = "";
    for (let page = 0; page < this.#pages; page += 1) {
      const answer = await api.subscriptions(after, PAGE);
      items.push(...answer.subscriptions);
      after = answer.next;
      setText(byId("picker-count"), whole(answer.subscriptions_count));
      warning = warningOf(answer);
      if (after === null) break;
    }
    this.#items = items;
    this.#more = after !== null;
    this.#model.warn(warning);
  }

  #open(open) {
    setAttribute(this.#toggle, "aria-expanded", String(open));
    setAttribute(byId("picker"), "data-open", open ? "" : null);
  }

  #show() {
    const wanted = this.#filter.value.trim().toLowerCase();
    const found = this.#items.filter((item) => `${item.topic} ${item.subscription}`.toLowerCase().includes(wanted));
    const rows = found.map((item) => this.#row(item));
    arrange(this.#list, rows);
    byId("picker-more").hidden = !this.#more;
    const none = this.#items.length === 0 ? "No worker consumes a Key_Shared subscription through this gateway." : "No match.";
    show(byId("picker-note"), rows.length === 0 ? none : this.#more && wanted ? "The filter covers the subscriptions shown so far." : "");
  }

  /** Kept per subscription and updated in place, so that the focus stays. */
  #row(item) {
    const id = JSON.stringify([item.topic, item.subscription]);
    const row = this.#rows.get(id) ?? this.#makeRow(id, item);
    const button = row.firstElementChild;
    const { chosen } = this.#model;
    const current = chosen !== null && chosen.topic === item.topic && chosen.subscription === item.subscription;
    setAttribute(button, "aria-current", current ? "true" : null);
    const state = subscriptionState(item);
    const badge = button.querySelector(".badge");
    setText(badge, state.text);
    setAttribute(badge, "data-tone", state.tone);
    const { workers, waiting_messages, draining_hashes_count } = item.dispatcher;
    const figures = [counted(workers.length, "worker"), `${whole(waiting_messages)} waiting`, `${whole(draining_hashes_count)} draining`];
    setText(button.querySelector(".item-figures"), figures.join(" · "));
    return row;
  }

  #makeRow(id, item) {
    const choose = () => {
      this.#open(false);
      this.#choose({ topic: item.topic, subscription: item.subscription });
    };
    const row = el("li", {}, el("button", { type: "button", title: item.topic, onclick: choose },
      el("span", { class: "item-name" }, el("bdi", {}, topicParts(item.topic).name)),
      el("span", { class: "badge" }),
      el("bdi", { class: "item-sub" }, item.subscription),
      el("span", { class: "item-figures muted" }),
    ));
    this.#rows.set(id, row);
    return row;
  }
}

function warningOf({ shutting_down, reading_stopped }) {
  if (shutting_down) return "The gateway is shutting down: it delivers nothing new.";
  if (reading_stopped) return "The gateway's memory budget is used up: it reads nothing from brokers until workers acknowledge.";
  return "";
}
