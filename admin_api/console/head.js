// The head of the chosen subscription: names, figures, and whether it takes orders.

import { announce, byId, el, setAttribute, setText, show, showFigures } from "./dom.js";
import { NONE, bytes, counted, duration, rate, topicParts, whole } from "./format.js";
import { groupAddress, groupEpoch, streamsOfAll } from "./groups_text.js";
import { stateOf, told, words } from "./verdict.js";
import { subscriptionState } from "./worker_facts.js";

const MODES = {
  draining_hashes: "draining hashes (PIP-379)",
  last_sent_position: "last sent position (PIP-282)",
  unordered: "without order",
};

export class Head {
  #model;
  #figures = byId("figures");

  constructor(model) {
    this.#model = model;
    for (const what of ["chosen", "subscription", "orders", "connection"]) model.on(what, () => this.#show());
  }

  #show() {
    const { chosen, subscription, absent } = this.#model;
    byId("chosen").hidden = subscription === null;
    byId("empty").hidden = chosen === null || subscription !== null;
    if (chosen === null) return;
    const { tenant, namespace, name } = topicParts(chosen.topic);
    if (!this.#model.away) document.title = `${name} / ${chosen.subscription} – Keyline`;
    if (subscription === null) {
      this.#showEmpty(absent ? "No worker consumes it now" : "Reading…", absent || chosen.topic);
      return;
    }
    const title = byId("title");
    if (title.textContent !== name + chosen.subscription) {
      title.replaceChildren(el("bdi", {}, name), el("span", { class: "slash", "aria-hidden": "true" }), el("bdi", {}, chosen.subscription));
      title.setAttribute("aria-label", `${name}, subscription ${chosen.subscription}`);
    }
    const mode = MODES[subscription.dispatcher.ordering_mode] ?? subscription.dispatcher.ordering_mode;
    const sticky = subscription.key_shared_mode === "STICKY" ? " · sticky ranges" : "";
    const served = subscription.groups_mode === "streams" ? "streams at" : "owned by";
    const owner = subscription.served_by === null ? "" : ` · ${served} ${subscription.served_by}`;
    setText(byId("subtitle"), `${tenant}/${namespace} · ${mode}${sticky}${owner}`);
    byId("in-group").hidden = subscription.group === null;
    if (subscription.group !== null) byId("to-group").href = groupAddress(chosen);
    this.#showFigures(subscription);
    this.#showVerdict(subscription.dispatcher.verdict);
    this.#showOrders(subscription);
  }

  /** Written anew only when it changes, so that a selection in it stays. */
  #showVerdict(verdict) {
    const place = byId("verdict");
    place.hidden = verdict.urgency === "none";
    setAttribute(place, "data-tone", stateOf(verdict).tone);
    const made = told(verdict);
    const text = made.map((line) => line.textContent).join("\n");
    if (place.dataset.text === text) return;
    place.dataset.text = text;
    if (verdict.urgency === "act" && place.dataset.state !== verdict.state) announce(`${words(verdict.state)}: ${verdict.says}`);
    place.dataset.state = verdict.state;
    place.replaceChildren(...made);
  }

  #showEmpty(heading, text) {
    setText(byId("empty").firstElementChild, heading);
    setText(byId("empty-text"), text);
  }

  #showOrders(subscription) {
    const { readOnly, connection } = this.#model;
    const pause = byId("pause");
    setText(pause, subscription.dispatcher.paused ? "Resume" : "Pause…");
    pause.disabled = readOnly !== "" || connection === "broken";
    setAttribute(pause, "title", readOnly || null);
    byId("preview-join").disabled = connection === "broken";
    show(byId("read-only"), readOnly && `Orders are disabled: ${readOnly}`);
  }

  #showFigures(subscription) {
    const { dispatcher, now } = subscription;
    const sum = (of) => this.#model.workers.reduce((all, worker) => all + (of(worker) ?? 0), 0);
    const rated = this.#model.workers.some((worker) => worker.acked_rate !== null);
    const waited = dispatcher.oldest_wait_since === null ? "" : `oldest ${duration(Math.max(0, now - dispatcher.oldest_wait_since))}`;
    const state = subscriptionState(subscription);
    const figures = [
      ["State", state.text, "", state.tone],
      ["Workers", whole(dispatcher.workers.length), subscription.joining > 0 ? `${whole(subscription.joining)} joining` : ""],
      ["Waiting", whole(dispatcher.waiting_messages), waited],
      ["Draining slots", whole(dispatcher.draining_hashes_count), dispatcher.draining_hashes_count > 0 ? counted(dispatcher.draining_hashes_unacked_messages, "message") : "", dispatcher.draining_hashes_count > 0 ? "held" : ""],
      ["Unacknowledged", whole(sum((worker) => worker.unacked_messages)), ""],
      ["Acked per second", rated ? rate(sum((worker) => worker.acked_rate)) : NONE, rated ? `sent ${rate(sum((worker) => worker.sent_rate))}` : ""],
      ["Held in memory", bytes(dispatcher.held_bytes), counted(dispatcher.outstanding_entries, "entry", "entries")],
    ];
    if (subscription.group !== null) figures.splice(1, 0, groupFigure(subscription.group));
    showFigures(this.#figures, figures);
  }
}

/** This replica's share, and its leader. */
function groupFigure(group) {
  const led = group.leads ? "this replica leads" : group.leader === null ? "no leader found" : `led by ${group.leader}`;
  return ["Streams here", streamsOfAll(group), group.epoch === null ? led : `${led}, epoch ${groupEpoch(group.epoch)}`];
}
