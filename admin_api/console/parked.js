// The parked keys of the chosen subscription: which, since which message, and the orders that take them out.

import * as api from "./api.js";
import { Rows } from "./rows.js";
import { byId, el, setAttribute, setText, show } from "./dom.js";
import { NONE, counted, topicParts, whole } from "./format.js";
import { badge } from "./verdict.js";
import { parkedKeys, moment } from "./parked_text.js";

const LISTED = 100;
const TONES = { parked: "held", redriving: "good", dropping: "idle" };

export class Parked {
  #model;
  #dialogs;
  #card = byId("parked-card");
  #answer = null;
  #rows;

  constructor(model, dialogs) {
    this.#model = model;
    this.#dialogs = dialogs;
    this.#rows = new Rows(byId("parked-table"), "Parked keys", [
      { head: "Keys", heads: true, fill: (cell, item) => this.#write(cell, item.keys.join("\n"), () => parkedKeys(item)) },
      { head: "Slot", number: true, fill: (cell, item) => setText(cell, whole(item.slot)) },
      { head: "State", fill: (cell, item) => this.#write(cell, item.state, () => [badge({ text: item.state, tone: TONES[item.state] })]) },
      { head: "Messages", number: true, title: "In the parking topic", fill: (cell, item) => setText(cell, whole(item.messages)) },
      { head: "Attempts", number: true, title: "Of the first message", fill: (cell, item) => setText(cell, whole(item.attempts)) },
      { head: "First published", fill: (cell, item) => setText(cell, item.first_published_ms === null ? NONE : moment(item.first_published_ms)) },
      { head: "Actions", number: true, make: (item) => this.#actions(item), fill: (cell, item) => this.#allow(cell, item) },
    ]);
    model.on("subscription", () => this.#read());
    for (const what of ["chosen", "orders", "connection"]) model.on(what, () => this.#show());
  }

  async #read() {
    const { chosen, subscription } = this.#model;
    let answer = null;
    if (subscription !== null && subscription.dispatcher.parked_slots > 0) {
      try {
        answer = await api.parked(chosen, LISTED);
      } catch {
        return; // the reader's next request tells why
      }
    }
    if (chosen !== this.#model.chosen) return;
    this.#answer = answer === null ? null : { ...answer, of: chosen };
    this.#show();
  }

  #show() {
    const answer = this.#answer?.of === this.#model.chosen ? this.#answer : null;
    this.#card.hidden = answer === null || answer.parked_slots === 0;
    if (this.#card.hidden) {
      this.#rows.show([]);
      return;
    }
    const { parked_slots: slots, parked_messages: messages, parking_topic: topic } = answer;
    setText(byId("parked-count"), `${counted(slots, "slot")} with ${counted(messages, "message")} in ${topicParts(topic).name}`);
    show(byId("parked-trouble"), answer.trouble && `The parking topic does not take what is to go there, so keys wait: ${answer.trouble}`);
    this.#rows.show(answer.slots.map((item) => ({ ...item, key: item.slot })));
    const rest = slots - answer.slots.length;
    show(byId("parked-note"), rest > 0 ? `${counted(rest, "more slot")}; keyline parked lists up to 1,000` : "");
  }

  /** What was written stays while nothing differs, so that a selection of it is kept. */
  #write(cell, text, make) {
    if (cell.dataset.text === text) return;
    cell.dataset.text = text;
    cell.replaceChildren(...make());
  }

  #actions(item) {
    const now = () => this.#answer?.slots.find(({ slot }) => slot === item.slot) ?? item;
    const button = (text, act, more = {}) =>
      el("button", { type: "button", "aria-label": `${text.replace("…", "")} slot ${item.slot}`, onclick: () => act(now()), ...more }, text);
    return [
      button("Inspect", (each) => this.#dialogs.inspect(each)),
      button("Redrive…", (each) => this.#dialogs.redrive(each), { "data-order": "" }),
      button("Drop…", (each) => this.#dialogs.drop(each), { "data-order": "" }),
    ];
  }

  #allow(cell, item) {
    cell.classList.add("row-actions");
    const { connection, readOnly } = this.#model;
    for (const button of cell.children) {
      const order = "order" in button.dataset;
      button.disabled = connection === "broken" || (order && (readOnly !== "" || item.state !== "parked"));
      if (order) setAttribute(button, "title", readOnly || null);
    }
  }
}
