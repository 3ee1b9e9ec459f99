// Replicas in owner mode, and the owner of each subscription: the same at every replica.

import { ListOf } from "./list_of.js";
import { ListedTable, topicLink } from "./listed_table.js";
import { Rows } from "./rows.js";
import { byId, el, named, setAttribute, setText, showFigures } from "./dom.js";
import { clockTime, duration, whole } from "./format.js";
import { NOTHING_OWNED, groupAddress, groupEpoch, streamsOfAll } from "./groups_text.js";
import { idOf } from "./subscriptions.js";

const subscriptionAddress = ({ topic, subscription }) => `#${new URLSearchParams({ topic, subscription })}`;
const isShared = ({ groups_mode: mode }) => mode === "streams";
const addressOf = (item) => (isShared(item) ? groupAddress(item) : subscriptionAddress(item));

/** Or a replica that has a part, where there is no owner. */
const ownerOf = (item) => (isShared(item) ? `${item.served_by}: ${item.group === null ? "no" : streamsOfAll(item.group)} streams` : item.served_by);

const REPLICAS = [
  { head: "Replica", heads: true, make: ({ replica }) => [named(replica)], fill: () => {} },
  { head: "Role", make: () => [el("span", { class: "badge" })], fill: fillRole },
  { head: "Bundles", number: true, title: "Parts of all subscriptions", fill: (cell, { bundles }) => setText(cell, whole(bundles)) },
  { head: "Share", number: true, fill: (cell, { share }) => setText(cell, share === null ? "–" : `${Math.round(share * 100)} %`) },
  { head: "Replicas' port", make: () => [named("")], fill: (cell, { address }) => setText(cell.firstElementChild, address) },
];

const SUBSCRIPTIONS = [
  { head: "Topic", heads: true, make: (item) => topicLink(addressOf(item), item.topic), fill: () => {} },
  { head: "Subscription", make: ({ subscription }) => [named(subscription)], fill: () => {} },
  { head: "Owner", make: () => [named("")], fill: (cell, item) => setText(cell.firstElementChild, ownerOf(item)) },
  { head: "Workers", number: true, fill: (cell, { dispatcher }) => setText(cell, whole(dispatcher.workers_count)) },
];

/** `more()` is called for another page of subscriptions. */
export function ownersTables(model, more) {
  const replicas = new Rows(byId("replica-table"), "All replicas", REPLICAS);
  model.on("list", () => {
    const { mode, deployment, unanswered } = model.list;
    for (const part of document.querySelectorAll("[data-mode]")) part.hidden = (part.dataset.mode === "owner") !== (mode === "owner");
    if (mode !== "owner") return;
    showFigures(byId("owners-figures"), figuresOf(deployment, unanswered));
    setText(byId("replica-table-count"), deployment.replicas.length === 0 ? "none known yet" : whole(deployment.replicas.length));
    replicas.show(deployment.replicas.map((each) => ({ ...each, ...placeOf(each, deployment), key: each.replica })));
  });
  return new ListedTable(new ListOf(model, (mode) => mode === "owner"), {
    id: "owned-table",
    name: "Subscriptions of all replicas",
    columns: SUBSCRIPTIONS,
    keyOf: idOf,
    noun: "subscription",
    none: () => NOTHING_OWNED,
    totalOf: ({ items, more: others }) => (others ? null : items.length),
    more,
  });
}

function placeOf({ replica, bundles }, { leader, replica: here, bundles_count }) {
  const roles = [replica === leader ? "leads" : "", replica === here ? "this replica" : ""].filter(Boolean);
  return { roles: roles.join(", "), leads: replica === leader, share: bundles_count === 0 ? null : bundles / bundles_count };
}

function fillRole(cell, { roles, leads }) {
  const badge = cell.firstElementChild;
  badge.hidden = roles === "";
  setText(badge, roles);
  setAttribute(badge, "data-tone", leads ? "good" : "idle");
}

function figuresOf(told, unanswered) {
  const { replica, state, leader, epoch, lease_left_s: left, bundles_count: count, bundles_without_owner: without } = told;
  const delivers = left > 0 && (state === "replaying" || state === "updating");
  const until = left > 0 ? `lease until ${clockTime(new Date(Date.now() + left * 1000))}, ${duration(left)} left` : "no lease";
  const silent = unanswered.map((each) => each.replica).join(", ");
  return [
    ["This replica", delivers ? "delivers what it owns" : "delivers nothing", `${replica}, ${until}`, delivers ? "good" : "bad"],
    ["Leader", leader ?? "not found", leader === replica ? "this replica" : ""],
    ["Epoch", groupEpoch(epoch), "one more with each leader"],
    ["Bundles here", `${whole(told.bundles_here)} of ${whole(count)}`, told.bundles_leaving > 0 ? `${whole(told.bundles_leaving)} being handed over` : ""],
    ["Without an owner", whole(without), without > 0 ? "their subscriptions wait" : "", without > 0 ? "bad" : ""],
    ["Subscriptions here", whole(told.subscriptions_here), `${whole(told.handed_over_total)} handed over so far`],
    ["Replicas that answer", silent === "" ? "all" : "not all", silent === "" ? "" : `no answer from ${silent}`, silent === "" ? "" : "bad"],
  ];
}
