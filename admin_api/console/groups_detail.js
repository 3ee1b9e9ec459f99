// One group: its leader, the replica and progress of each stream, and its counters.

import { absentBecause, groupFigures, groupState, orNone, sessionState, streamState } from "./groups_text.js";
import { Colours, themeNow } from "./colours.js";
import { GroupsStrip } from "./groups_strip.js";
import { Legend } from "./legend.js";
import { NONE, ago, counted, lasted, rate, topicParts, whole } from "./format.js";
import { Pager } from "./pager.js";
import { Rows } from "./rows.js";
import { byId, el, named, setAttribute, setText, show, showFigures } from "./dom.js";
import { fillBadge } from "./groups_list.js";
import { placesOf, replicasOf, streamsOf } from "./groups_facts.js";

/** A group may have 1,024 streams. */
const PAGE = 64;
/** A session reports each second; a longer silence means that several reports were lost. */
const SILENT_S = 3;

export class GroupsDetail {
  #model;
  #colours = new Colours();
  #picked = null;
  #first = 0;
  #known = [];
  #legend = new Legend(byId("strip-legend"), (name) => this.#pick(name));
  #strip = new GroupsStrip((place) => this.#go(place));
  #pager = new Pager("streams", (first) => this.#turn(first));
  #streams = new Rows(byId("streams"), "Streams", [
    { head: "Stream", heads: true, number: true, fill: (cell, { stream }) => setText(cell, whole(stream)) },
    { head: "Slots", fill: (cell, { first_slot, last_slot }) => setText(cell, `${whole(first_slot)} to ${whole(last_slot)}`) },
    { head: "Replica", make: replicaCell, fill: (cell, { owner }) => this.#fillReplica(cell, owner) },
    { head: "State", make: () => [el("span", { class: "badge" }), el("span", { class: "muted" })], fill: fillState },
    { head: "Lease", title: "When the leader last heard from the replica; at a replica that does not lead, how long its leases last", fill: (cell, stream) => setText(cell, leaseOf(stream)) },
    { head: "Version", number: true, title: "Version of the replica's set of streams", fill: (cell, { version }) => setText(cell, orNone(version)) },
    { head: "Acknowledged", title: "Everything of the stream up to this position, ledger:entry", make: () => [el("span", { class: "position" })], fill: (cell, { acknowledged }) => setText(cell.firstElementChild, acknowledged ?? NONE) },
    { head: "Pending", number: true, title: "Messages that workers have not acknowledged", fill: (cell, { unacked_messages }) => setText(cell, whole(unacked_messages)) },
    { head: "Messages/s", number: true, fill: (cell, stream) => setText(cell, rate(stream.rate)) },
  ]);
  #sessions = new Rows(byId("sessions"), "Sessions of replicas", [
    { head: "Replica", heads: true, make: replicaCell, fill: (cell, { replica }) => this.#fillReplica(cell, replica) },
    { head: "State", make: () => [el("span", { class: "badge" })], fill: fillBadge(({ state }) => sessionState(state)) },
    { head: "Workers", number: true, fill: (cell, { workers_count }) => setText(cell, whole(workers_count)) },
    { head: "Streams", number: true, fill: (cell, { streams }) => setText(cell, whole(streams.length)) },
    { head: "To be released", number: true, fill: (cell, { streams_releasing }) => setText(cell, whole(streams_releasing.length)) },
    { head: "Version", number: true, title: "Version of its set of streams", fill: (cell, { version }) => setText(cell, orNone(version)) },
    { head: "Last heard", number: true, fill: fillHeard },
  ]);

  constructor(model) {
    this.#model = model;
    model.on("chosen", () => this.#begin());
    model.on("one", () => this.#show());
    document.addEventListener("themechange", () => this.#show());
  }

  #begin() {
    this.#picked = null;
    this.#first = 0;
    this.#show();
  }

  #pick(name) {
    this.#picked = this.#picked === name ? null : name;
    this.#show();
  }

  #turn(first) {
    this.#first = first;
    this.#show();
  }

  /** From the strip to the stream's row. */
  #go({ key }) {
    const number = this.#known.findIndex((stream) => stream.key === key);
    if (number < 0) return;
    this.#turn(number - (number % PAGE));
    const row = this.#streams.row(key);
    setAttribute(row.firstElementChild, "tabindex", "-1");
    row.firstElementChild.focus();
  }

  // ---- shown

  #show() {
    const { chosen, one, absent } = this.#model;
    if (chosen === null) return;
    this.#showNames(chosen);
    show(byId("group-absent"), one !== null ? "" : !absent ? "Reading…" : absentBecause(this.#model.mode));
    for (const id of ["group-figures", "strip-card", "streams-card", "sessions-card"]) byId(id).hidden = one === null;
    show(byId("group-held"), one === null ? "" : warningOf(one.summary));
    if (one === null) return;
    showFigures(byId("group-figures"), groupFigures(one.summary, one.leading));
    this.#known = streamsOf(one).map((stream) => ({ ...stream, lease_left_s: one.summary.lease_left_s }));
    this.#showStrip(one);
    this.#showStreams(one);
    this.#showSessions(one);
  }

  #showNames({ topic, subscription }) {
    const { tenant, namespace, name } = topicParts(topic);
    const title = byId("group-title");
    setText(title.firstElementChild, name);
    setText(title.lastElementChild, subscription);
    setAttribute(title, "aria-label", `${name}, subscription ${subscription}`);
    setText(byId("group-subtitle"), `${tenant}/${namespace}`);
    byId("group-workers").href = `#${new URLSearchParams({ topic, subscription })}`;
  }

  #showStrip(one) {
    const replicas = replicasOf(one, this.#known);
    this.#colours.keep(replicas.map(({ name }) => name));
    if (!replicas.some(({ name }) => name === this.#picked)) this.#picked = null;
    const colourOf = (name) => this.#colours.css(name, themeNow());
    const places = placesOf(one, this.#known);
    this.#strip.show(places, colourOf, this.#picked);
    setText(byId("strip-count"), counted(places.length, "stream"));
    this.#legend.show(replicas.map(({ name, count }) => ({
      key: name, name, colour: colourOf(name), more: this.#own(name) + counted(count, "stream"), picked: name === this.#picked,
    })));
  }

  #showStreams({ summary, leading }) {
    this.#first = Math.min(this.#first, Math.max(0, this.#known.length - 1));
    const [first, all] = [this.#first - (this.#first % PAGE), this.#known.length];
    const shown = this.#known.slice(first, first + PAGE);
    this.#streams.show(shown);
    byId("streams").hidden = all === 0;
    const place = `${whole(first + 1)} to ${whole(first + shown.length)} of ${whole(all)}`;
    this.#pager.show(place, first === 0 ? null : first - PAGE, first + PAGE < all ? first + PAGE : null);
    show(byId("streams-note"), leading !== null ? "" : elsewhere(summary, all));
  }

  #showSessions({ summary, leading }) {
    byId("sessions").hidden = leading === null;
    if (leading !== null) this.#sessions.show(leading.sessions.map((session) => ({ ...session, key: `${session.replica}#${session.number}` })));
    setText(byId("sessions-count"), leading === null ? "" : counted(leading.sessions.length, "session"));
    show(byId("sessions-note"), leading === null ? `Only the leader knows them${atLeader(summary)}` : leading.sessions.length === 0 ? "No replica has asked for a lease yet." : "");
  }

  #own(name) {
    return name === this.#model.one.summary.replica ? "this replica, " : "";
  }

  #fillReplica(cell, name) {
    const [swatch, told, more] = cell.children;
    swatch.hidden = name === null;
    if (name !== null) swatch.style.backgroundColor = this.#colours.css(name, themeNow());
    setText(told, name ?? "no owner");
    setText(more, name !== null && this.#own(name) ? "this one" : "");
  }
}

const replicaCell = () => [el("i", { class: "swatch" }), named(""), el("span", { class: "muted" })];

const atLeader = ({ leader }) => (leader === null ? ", and none is found." : `: see ${leader}.`);

/** The streams that this replica does not know. */
function elsewhere({ streams_count, ...summary }, here) {
  const others = streams_count - here;
  if (streams_count === 0) return "The streams of the group are known with the first lease.";
  if (others <= 0) return "";
  return `${counted(others, "other stream")} ${others === 1 ? "is" : "are"} not here. Only the leader knows ${others === 1 ? "its owner" : "their owners"}${atLeader(summary)}`;
}

/** The reason why nothing is delivered here, if so. */
function warningOf(summary) {
  const { text } = groupState(summary);
  if (text === "no lease") return `Nothing of the subscription is delivered here: ${summary.leader === null ? "no leader has answered" : "this replica has no lease"}.`;
  return "";
}

/** The leader counts from the session's last message; a replica itself knows when it must stop. */
function leaseOf({ owner, heard_s, lease_left_s }) {
  if (owner === null) return NONE;
  if (heard_s !== null) return `heard ${ago(heard_s)}`;
  return lease_left_s > 0 ? `${lasted(lease_left_s)} left` : "none";
}

function fillState(cell, stream) {
  fillBadge(({ state }) => streamState(state))(cell, stream);
  setText(cell.lastElementChild, stream.more);
}

function fillHeard(cell, { heard_s }) {
  setText(cell, ago(heard_s));
  setAttribute(cell, "data-some", heard_s > SILENT_S ? "" : null);
}
