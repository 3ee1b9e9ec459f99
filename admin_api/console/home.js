// The home page: all subscriptions, those in trouble first, before anything is chosen.

import { Rows } from "./rows.js";
import { byId, el, named, setAttribute, setText, show, showFigures } from "./dom.js";
import { NONE, counted, lasted, rate, topicParts, whole } from "./format.js";
import { Sparkline } from "./sparkline.js";
import { subscriptionState } from "./worker_facts.js";
import { idOf, partOf } from "./subscriptions.js";

const PAGE = 50;
const BY_NAME = new Intl.Collator("en", { numeric: true });
const waitedOf = ({ now, dispatcher }) => (dispatcher.oldest_wait_since === null ? -1 : now - dispatcher.oldest_wait_since);
const nameOf = ({ topic, subscription }) => `${topic} ${subscription}`;

const COLUMNS = [
  { id: "state", head: "State", make: () => [el("span", { class: "badge" })], fill: fillState },
  { id: "name", head: "Subscription", heads: true, make: makeName, fill: fillName },
  { id: "waiting", head: "Waiting", number: true, fill: (cell, { dispatcher }) => setText(cell, whole(dispatcher.waiting_messages)) },
  { id: "trend", head: "Last minutes", make: () => [new Sparkline().element], fill: (cell, { history }) => Sparkline.of(cell).show(history) },
  { id: "oldest", head: "Oldest", number: true, fill: (cell, item) => setText(cell, waitedOf(item) < 0 ? NONE : lasted(waitedOf(item))) },
  { id: "rate", head: "Acked/s", number: true, fill: (cell, { acked_rate }) => setText(cell, rate(acked_rate)) },
  { id: "workers", head: "Workers", number: true, fill: (cell, { dispatcher }) => setText(cell, whole(dispatcher.workers_count)) },
];

/** Each: value to sort by; trouble is first, then the larger, then by name. */
const SORTS = {
  state: (item) => [subscriptionState(item).rank, -waitedOf(item)],
  name: () => [],
  waiting: (item) => [-item.dispatcher.waiting_messages],
  oldest: (item) => [-waitedOf(item)],
  rate: (item) => [-(item.acked_rate ?? -1)],
  workers: (item) => [-item.dispatcher.workers_count],
};

export class Home {
  #model;
  #subscriptions;
  #rows;
  #filter = byId("home-filter");
  #sort = byId("home-sort");
  #only = byId("home-only");
  #most = PAGE;
  #order = [];

  constructor(model, subscriptions) {
    this.#model = model;
    this.#subscriptions = subscriptions;
    this.#rows = new Rows(byId("home-table"), "All subscriptions", COLUMNS);
    for (const input of [this.#filter, this.#sort, this.#only]) input.addEventListener("input", () => this.#anew());
    byId("home-more").addEventListener("click", () => {
      this.#most += PAGE;
      this.#show();
    });
    subscriptions.on("read", () => this.#show());
    model.on("chosen", () => this.#visible());
    this.#visible();
  }

  /** Another order or choice: rows may move, also under the mouse. */
  #anew() {
    this.#most = PAGE;
    this.#order = [];
    this.#show();
  }

  #visible() {
    byId("home").hidden = this.#model.chosen !== null;
    byId("empty").hidden = this.#model.chosen === null;
    this.#show();
  }

  #show() {
    if (this.#model.chosen !== null || !this.#subscriptions.known) return;
    const { items: all, count } = this.#subscriptions;
    const items = all.map((item) => ({ ...item, key: idOf(item), history: this.#subscriptions.history(item), acked_rate: this.#subscriptions.rate(item) }));
    byId("first").hidden = all.length > 0;
    byId("home-card").hidden = all.length === 0;
    showFigures(byId("home-figures"), figuresOf(items, count));
    const found = this.#arranged(items.filter((item) => this.#wanted(item)));
    this.#rows.show(found.slice(0, this.#most));
    byId("home-table").hidden = found.length === 0;
    byId("home-pager").hidden = found.length <= this.#most;
    setText(byId("home-count"), found.length === count ? counted(count, "subscription") : `${whole(found.length)} of ${counted(count, "subscription")}`);
    show(byId("home-note"), found.length > 0 ? "" : this.#only.checked ? "No subscription is in trouble." : "No match.");
  }

  #wanted(item) {
    const words = this.#filter.value.trim().toLowerCase().split(/\s+/);
    const { worker, state } = item.dispatcher.verdict;
    const text = `${nameOf(item)} ${worker ?? ""} ${state.replaceAll("_", " ")} ${item.served_by ?? ""}`.toLowerCase();
    return words.every((word) => text.includes(word)) && (!this.#only.checked || subscriptionState(item).rank < 2);
  }

  /** While the mouse or the focus is in the table, rows keep their places. */
  #arranged(items) {
    const keysOf = SORTS[this.#sort.value];
    const sorted = items
      .map((item) => ({ item, keys: keysOf(item) }))
      .toSorted((one, other) => compared(one.keys, other.keys) || BY_NAME.compare(nameOf(one.item), nameOf(other.item)))
      .map(({ item }) => item);
    const body = byId("home-table").tBodies[0];
    if (body.matches(":hover") || body.contains(document.activeElement)) {
      const places = new Map(this.#order.map((key, place) => [key, place]));
      sorted.sort((one, other) => (places.get(one.key) ?? Infinity) - (places.get(other.key) ?? Infinity) || 0);
    }
    this.#order = sorted.map((item) => item.key);
    return sorted;
  }
}

function compared(one, other) {
  for (let place = 0; place < one.length; place += 1) if (one[place] !== other[place]) return one[place] - other[place];
  return 0;
}

function makeName(item) {
  const { topic, subscription } = item;
  const { tenant, namespace, name } = topicParts(topic);
  const link = el("a", { href: `#${new URLSearchParams({ topic, subscription })}`, title: topic },
    el("bdi", {}, name), el("span", { class: "slash", "aria-hidden": "true" }), el("bdi", {}, subscription),
  );
  return [link, el("bdi", { class: "muted place" }, `${tenant}/${namespace}${partOf(item)}`), el("span", { class: "why" })];
}

function fillName(cell, { dispatcher }) {
  const { urgency, says } = dispatcher.verdict;
  setText(cell.lastElementChild, urgency === "none" ? "" : says);
}

function fillState(cell, item) {
  const { text, tone } = subscriptionState(item);
  setText(cell.firstElementChild, text);
  setAttribute(cell.firstElementChild, "data-tone", tone);
}

function figuresOf(items, count) {
  const ranks = items.map((item) => subscriptionState(item).rank);
  const [act, watch] = [0, 1].map((rank) => ranks.filter((each) => each === rank).length);
  const sum = (of) => items.reduce((all, item) => all + (of(item) ?? 0), 0);
  const oldest = Math.max(-1, ...items.map(waitedOf));
  return [
    ["Subscriptions", whole(count), counted(sum((item) => item.dispatcher.workers_count), "worker")],
    ["Need an operator", whole(act), act > 0 ? "they do not recover alone" : "", act > 0 ? "bad" : "good"],
    ["To be watched", whole(watch), "", watch > 0 ? "held" : ""],
    ["Waiting", whole(sum((item) => item.dispatcher.waiting_messages)), oldest < 0 ? "" : `oldest ${lasted(oldest)}`],
    ["Acked per second", rate(sum((item) => item.acked_rate)), ""],
  ];
}

/** How to connect the first client: `listen` is the gateway's setting. */
export function showFirst(listen) {
  const port = listen.slice(listen.lastIndexOf(":") + 1);
  const url = `pulsar://${location.hostname.includes(":") ? `[${location.hostname}]` : location.hostname}:${port}`;
  byId("first-code").replaceChildren(
    `client = pulsar.Client("${url}")\n`,
    'consumer = client.subscribe("orders", "billing",\n    consumer_type=pulsar.ConsumerType.KeyShared)\n',
  );
  byId("first-url").replaceChildren(named(url));
}
