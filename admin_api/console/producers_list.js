// All topics that somebody wants for himself alone, and who has them.

import { byId, el, setAttribute, setText, show, showFigures } from "./dom.js";
import { NONE, ago, counted, topicParts, whole } from "./format.js";
import { Rows } from "./rows.js";
import { countersAsFigures, epochOf, heldBytes, ownershipOf, priorityOf } from "./producers_text.js";

const NONE_YET = "No producer owns or waits for a topic through this gateway.";

/** The address of a topic's view, or of the list. */
export const addressOf = (topic) => (topic === "" ? "#producers" : `#${new URLSearchParams({ producers: topic })}`);

const COLUMNS = [
  { head: "Topic", heads: true, make: topicLink, fill: () => {} },
  { head: "Owner", make: () => [el("bdi", { class: "name" }), el("span", { class: "muted" })], fill: fillOwner },
  { head: "Priority", number: true, title: "With which the owner waited", fill: (cell, { owner }) => setText(cell, priorityOf(owner?.priority ?? null)) },
  { head: "Epoch", number: true, title: "The topic's epoch: one more with each new owner", fill: (cell, { owner }) => setText(cell, epochOf(owner?.topic_epoch ?? null)) },
  { head: "Owner since", number: true, fill: (cell, { owner, now }) => setText(cell, owner === null ? NONE : ago(now - owner.since)) },
  { head: "Waiting", number: true, title: "Producers that wait to be the owner", fill: (cell, { waiting_count }) => setText(cell, whole(waiting_count)) },
];

export class ProducersList {
  #producers;
  #rows = new Rows(byId("elections"), "Topics with an exclusive producer", COLUMNS);
  #filter = byId("elections-filter");

  /** `more()` is called for another page of topics. */
  constructor(producers, more) {
    this.#producers = producers;
    this.#filter.addEventListener("input", () => this.#show());
    byId("elections-more").addEventListener("click", more);
    producers.on("list", () => this.#show());
  }

  /** Whoever comes back from a topic goes on from it. */
  focus(topic) {
    const row = this.#rows.row(topic);
    if (row === null) return false;
    row.querySelector("a").focus();
    return true;
  }

  #show() {
    const { list } = this.#producers;
    if (list === null) return;
    const wanted = this.#filter.value.trim().toLowerCase();
    const found = list.elections.filter((election) => election.topic.toLowerCase().includes(wanted));
    this.#rows.show(found.map((election) => ({ ...election, key: election.topic })));
    byId("elections").hidden = found.length === 0;
    byId("elections-pager").hidden = !list.more;
    this.#showCounts(list, found.length, wanted);
    showFigures(byId("producers-figures"), figuresOf(list.summary));
  }

  #showCounts({ summary, elections, more }, found, wanted) {
    const all = summary.topics_count;
    setText(byId("elections-count"), found === all ? counted(all, "topic") : `${whole(found)} of ${counted(all, "topic")}`);
    const covered = more && wanted ? "The filter covers those shown so far." : "";
    show(byId("elections-note"), elections.length === 0 ? NONE_YET : found === 0 ? `Nothing matches. ${covered}` : covered);
  }
}

function figuresOf({ topics_count, owners_count, waiting_count, waiting_bytes, counters }) {
  const others = topics_count - owners_count;
  return [
    ["Topics", whole(topics_count), ""],
    ["Owners", whole(owners_count), others > 0 ? `${counted(others, "topic")} without one here` : ""],
    ["Waiting", whole(waiting_count), heldBytes(waiting_bytes)],
    ...countersAsFigures(counters),
  ];
}

function topicLink({ topic }) {
  const { domain, tenant, namespace, name } = topicParts(topic);
  const place = `${domain === "persistent" ? "" : "non-persistent · "}${tenant}/${namespace}`;
  return [el("a", { href: addressOf(topic), title: topic }, el("bdi", { class: "name" }, name)), el("bdi", { class: "muted place" }, place)];
}

function fillOwner(cell, election) {
  const { text, more, tone } = ownershipOf(election);
  const [name, note] = cell.children;
  setText(name, text);
  setAttribute(name, "data-tone", tone === "good" ? null : tone);
  setAttribute(name, "class", tone === "good" ? "name" : "badge");
  setText(note, more);
}
