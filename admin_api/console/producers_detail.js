// One topic: its owner, its queue in order, and its counters.

import { byId, el, fact, named, setAttribute, setText, show, showFigures } from "./dom.js";
import { NONE, clockTime, counted, lasted, topicParts, whole } from "./format.js";
import { Pager } from "./pager.js";
import { Rows } from "./rows.js";
import { WAITING } from "./api.js";
import { countersAsFigures, epochOf, holdOf, modeOf, ownershipOf, priorityOf, stageOf } from "./producers_text.js";

const UNNAMED = "not named yet";
const STATES = { owned: "owned", vacant: "no owner", elsewhere: "owned elsewhere", free: "no owner" };
const ABSENT = "No producer at this gateway owns the topic or waits for it.";
const ELSEWHERE =
  "A producer that is not connected to this gateway owns the topic. The first of the queue waits at the broker behind it.";

const COLUMNS = [
  { head: "Turn", number: true, heads: true, fill: (cell, { position }) => setText(cell, whole(position + 1)) },
  { head: "Priority", number: true, fill: (cell, { priority }) => setText(cell, whole(priority)) },
  { head: "Producer", make: () => [el("bdi", { class: "name" })], fill: fillName },
  { head: "Stage", make: () => [el("span", { class: "badge" })], fill: fillStage },
  { head: "Waits for", number: true, fill: (cell, { now, since }) => setText(cell, lasted(now - since)) },
  { head: "Address", fill: (cell, { address }) => setText(cell, address || NONE) },
  { head: "Client", fill: (cell, { client_version }) => setText(cell, client_version || NONE) },
];

export class ProducersDetail {
  #producers;
  #pager;
  #queue = new Rows(byId("queue"), "Producers that wait, in the order of their promotion", COLUMNS);

  /** `turned()` is called when another page of the queue is shown. */
  constructor(producers, turned) {
    this.#producers = producers;
    this.#pager = new Pager("queue", (first) => (producers.turn(first), turned()));
    for (const what of ["chosen", "one"]) producers.on(what, () => this.#show());
  }

  #show() {
    const { chosen, one: page, absent } = this.#producers;
    if (chosen === null) return;
    this.#showNames(chosen.topic);
    show(byId("election-absent"), page !== null ? "" : absent ? ABSENT : "Reading…");
    for (const id of ["election-figures", "owner-card", "queue-card"]) byId(id).hidden = page === null;
    show(byId("election-held"), page === null ? "" : holdOf(page.summary.held));
    if (page === null) return;
    showFigures(byId("election-figures"), figuresOf(page.summary));
    this.#showOwner(page.summary);
    this.#showQueue(page);
  }

  #showNames(topic) {
    const { domain, tenant, namespace, name } = topicParts(topic);
    setText(byId("election-title").firstElementChild, name);
    setText(byId("election-subtitle"), `${tenant}/${namespace} · ${domain}`);
  }

  #showOwner(summary) {
    const { state } = ownershipOf(summary);
    const { owner } = summary;
    byId("owner-facts").hidden = owner === null;
    show(byId("owner-none"), owner !== null ? "" : state === "elsewhere" ? ELSEWHERE : noOwner(summary));
    if (owner !== null) writeFacts(byId("owner-facts"), ownerFacts(owner, summary.now));
  }

  #showQueue({ summary, waiting, next }) {
    const { first } = this.#producers;
    this.#queue.show(waiting.map((item) => ({ ...item, now: summary.now, key: item.position - first })));
    byId("queue").hidden = waiting.length === 0;
    setText(byId("queue-count"), counted(summary.waiting_count, "producer"));
    show(byId("queue-none"), waiting.length === 0 ? "The queue is empty." : "");
    const place = `${whole(first + 1)} to ${whole(first + waiting.length)} of ${whole(summary.waiting_count)}`;
    this.#pager.show(place, first === 0 ? null : Math.max(0, first - WAITING), next);
  }
}

function figuresOf(summary) {
  const { state, more, tone } = ownershipOf(summary);
  return [
    ["State", STATES[state], more, tone],
    ["Waiting", whole(summary.waiting_count), ""],
    ["Arrivals", whole(summary.counters.arrivals_total), "queued so far"],
    ...countersAsFigures(summary.counters),
  ];
}

function noOwner({ waiting_count, vacant_s }) {
  if (waiting_count === 0) return "The topic has no owner, and the queue is empty.";
  return `The topic has had no owner for ${lasted(vacant_s)}, though ${counted(waiting_count, "producer")} wait${waiting_count === 1 ? "s" : ""}.`;
}

function ownerFacts(owner, now) {
  const seconds = now - owner.since;
  const since = new Date(Date.now() - Math.max(0, seconds) * 1000);
  return [
    ["Name", owner.producer_name],
    ["Access mode", modeOf(owner.access_mode)],
    ["Priority", owner.priority === null ? "none, it did not wait" : priorityOf(owner.priority)],
    ["Epoch", epochOf(owner.topic_epoch)],
    ["Owner for", `${lasted(seconds)}, since ${clockTime(since)}`],
    ["Address", owner.address || NONE],
    ["Client", owner.client_version || NONE],
  ];
}

/** In place, as tables are. */
function writeFacts(list, facts) {
  if (list.children.length === 0) list.append(...facts.map(([term]) => fact(term, named(""))));
  facts.forEach(([, text], place) => setText(list.children[place].lastElementChild.firstElementChild, text));
}

function fillName(cell, { producer_name }) {
  setText(cell.firstElementChild, producer_name || UNNAMED);
  setAttribute(cell.firstElementChild, "data-unnamed", producer_name ? null : "");
}

function fillStage(cell, item) {
  const { text, tone } = stageOf(item);
  setText(cell.firstElementChild, text);
  setAttribute(cell.firstElementChild, "data-tone", tone);
}
