// The list of subscriptions beside the one that is open; small screens have the home page instead.

import { arrange, byId, el, setAttribute, setText, show } from "./dom.js";
import { counted, topicParts, whole } from "./format.js";
import { idOf, partOf } from "./subscriptions.js";
import { subscriptionState } from "./worker_facts.js";

const PAGE = 50;

export class Picker {
  #model;
  #subscriptions;
  #choose;
  #list = byId("picker-list");
  #filter = byId("picker-filter");
  #most = PAGE;
  #rows = new Map();

  /** `choose({topic, subscription})` is called when a person does. */
  constructor(model, subscriptions, choose) {
    this.#model = model;
    this.#subscriptions = subscriptions;
    this.#choose = choose;
    this.#filter.addEventListener("input", () => this.#show());
    byId("picker-more").addEventListener("click", () => {
      this.#most += PAGE;
      this.#show();
    });
    model.on("chosen", () => this.#show());
    subscriptions.on("read", () => this.#show());
  }

  #show() {
    const { items, count } = this.#subscriptions;
    const wanted = this.#filter.value.trim().toLowerCase();
    const found = items
      .filter((item) => `${item.topic} ${item.subscription}`.toLowerCase().includes(wanted))
      .toSorted((one, other) => subscriptionState(one).rank - subscriptionState(other).rank);
    arrange(this.#list, found.slice(0, this.#most).map((item) => this.#row(item)));
    setText(byId("picker-count"), whole(count));
    byId("picker-more").hidden = found.length <= this.#most;
    const none = items.length === 0 ? "No worker consumes a Key_Shared subscription through this gateway." : "No match.";
    show(byId("picker-note"), this.#subscriptions.known && found.length === 0 ? none : "");
  }

  /** Kept per subscription and updated in place, so that the focus stays. */
  #row(item) {
    const id = idOf(item);
    const row = this.#rows.get(id) ?? this.#makeRow(id, item);
    const button = row.firstElementChild;
    const { chosen } = this.#model;
    const current = chosen !== null && chosen.topic === item.topic && chosen.subscription === item.subscription;
    setAttribute(button, "aria-current", current ? "true" : null);
    const state = subscriptionState(item);
    const badge = button.querySelector(".badge");
    setText(badge, state.text);
    setAttribute(badge, "data-tone", state.tone);
    const { workers_count, waiting_messages, draining_hashes_count } = item.dispatcher;
    const figures = [counted(workers_count, "worker"), `${whole(waiting_messages)} waiting`, `${whole(draining_hashes_count)} draining`];
    setText(button.querySelector(".item-figures"), figures.join(" · ") + partOf(item));
    return row;
  }

  #makeRow(id, item) {
    const choose = () => this.#choose({ topic: item.topic, subscription: item.subscription });
    const row = el("li", {}, el("button", { type: "button", title: item.topic, onclick: choose },
      el("span", { class: "item-name" }, el("bdi", {}, topicParts(item.topic).name)),
      el("bdi", { class: "item-sub" }, item.subscription),
      el("span", { class: "badge" }),
      el("span", { class: "item-figures muted" }),
    ));
    this.#rows.set(id, row);
    return row;
  }
}
