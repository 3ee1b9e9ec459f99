// All groups of this replica.

import { ListedTable, topicLink } from "./listed_table.js";
import { NONE, whole } from "./format.js";
import { NOTHING_SHARED, NOT_ENABLED, groupAddress, groupEpoch, groupState, leaderOf, streamsOfAll } from "./groups_text.js";
import { ListOf } from "./list_of.js";
import { byId, el, named, setAttribute, setText, showFigures } from "./dom.js";

const COLUMNS = [
  { head: "Topic", heads: true, make: (group) => topicLink(groupAddress(group), group.topic), fill: () => {} },
  { head: "Subscription", make: ({ subscription }) => [named(subscription)], fill: () => {} },
  { head: "This replica", make: () => [el("span", { class: "badge" })], fill: fillBadge(groupState) },
  { head: "Leader", make: () => [named("")], fill: (cell, group) => setText(cell.firstElementChild, leaderOf(group)) },
  { head: "Epoch", number: true, title: "One more with each leader", fill: (cell, { epoch }) => setText(cell, groupEpoch(epoch)) },
  { head: "Streams here", number: true, fill: (cell, group) => setText(cell, group.streams_count === 0 ? NONE : streamsOfAll(group)) },
  { head: "Workers here", number: true, fill: (cell, { workers_count }) => setText(cell, whole(workers_count)) },
];

export const groupKey = ({ topic, subscription }) => JSON.stringify([topic, subscription]);

/** `more()` is called for another page of groups. */
export function groupsTable(model, more) {
  model.on("list", () => {
    byId("groups-figures").hidden = model.list.mode !== "streams";
    if (model.list.mode === "streams") showFigures(byId("groups-figures"), figuresOf(model.list));
  });
  return new ListedTable(new ListOf(model, (mode) => mode !== "owner"), {
    id: "group-table",
    name: "Groups that this replica takes part in",
    columns: COLUMNS,
    keyOf: groupKey,
    noun: "group",
    none: ({ mode }) => (mode === null ? NOT_ENABLED : NOTHING_SHARED),
    totalOf: ({ items, more: others }) => (others ? null : items.length),
    more,
  });
}

function figuresOf({ replica, items, more }) {
  const sum = (of) => items.reduce((all, item) => all + of(item), 0);
  const releasing = sum((item) => item.streams_releasing);
  const still = sum((item) => Number(item.lease_left_s <= 0));
  return [
    ["This replica", replica, ""],
    ["Groups", whole(items.length), more ? "and more" : ""],
    ["Led here", whole(sum((item) => Number(item.leads))), ""],
    ["Streams here", whole(sum((item) => item.streams_here)), releasing > 0 ? `${whole(releasing)} to be released` : ""],
    ["Without a lease", whole(still), still > 0 ? "not delivered here" : "", still > 0 ? "bad" : ""],
  ];
}

/** A cell whose badge shows `stateOf(item)`. */
export function fillBadge(stateOf) {
  return (cell, item) => {
    const { text, tone } = stateOf(item);
    setText(cell.firstElementChild, text);
    setAttribute(cell.firstElementChild, "data-tone", tone);
  };
}
