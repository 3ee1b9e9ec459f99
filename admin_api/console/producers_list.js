// All topics with exclusive producers, and their owners.

import { ListedTable, topicLink } from "./listed_table.js";
import { byId, el, setAttribute, setText, showFigures } from "./dom.js";
import { NONE, ago, counted, whole } from "./format.js";
import { countersAsFigures, epochOf, heldBytes, ownershipOf, priorityOf } from "./producers_text.js";

const NONE_YET = "No producer owns or waits for a topic through this gateway.";

const COLUMNS = [
  { head: "Topic", heads: true, make: linkOf, fill: () => {} },
  { head: "Owner", make: () => [el("bdi", { class: "name" }), el("span", { class: "muted" })], fill: fillOwner },
  { head: "Priority", number: true, title: "Priority of the owner", fill: (cell, { owner }) => setText(cell, priorityOf(owner?.priority ?? null)) },
  { head: "Epoch", number: true, title: "The topic's epoch: one more with each new owner", fill: (cell, { owner }) => setText(cell, epochOf(owner?.topic_epoch ?? null)) },
  { head: "Owner since", number: true, fill: (cell, { owner, now }) => setText(cell, owner === null ? NONE : ago(now - owner.since)) },
  { head: "Waiting", number: true, title: "Producers that wait to be the owner", fill: (cell, { waiting_count }) => setText(cell, whole(waiting_count)) },
];

/** `more()` is called for another page of topics. */
export function producersTable(model, more) {
  model.on("list", () => showFigures(byId("producers-figures"), figuresOf(model.list.summary)));
  return new ListedTable(model, {
    id: "elections",
    name: "Topics with an exclusive producer",
    columns: COLUMNS,
    keyOf: ({ topic }) => topic,
    noun: "topic",
    none: () => NONE_YET,
    totalOf: ({ summary }) => summary.topics_count,
    more,
  });
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

function linkOf({ topic }) {
  return topicLink(`#${new URLSearchParams({ producers: topic })}`, topic);
}

function fillOwner(cell, election) {
  const { text, more, tone } = ownershipOf(election);
  const [name, note] = cell.children;
  setText(name, text);
  setAttribute(name, "data-tone", tone === "good" ? null : tone);
  setAttribute(name, "class", tone === "good" ? "name" : "badge");
  setText(note, more);
}
