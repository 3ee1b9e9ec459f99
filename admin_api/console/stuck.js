// The keys of the chosen subscription that wait, oldest first: why, and for which worker. `keyline stuck` lists the same.

import * as api from "./api.js";
import { Rows } from "./rows.js";
import { byId, el, named, setAttribute, setText } from "./dom.js";
import { NONE, counted, lasted, whole } from "./format.js";
import { stateOf, words } from "./verdict.js";

/** Listed at first, so that the workers stay near, and on request. */
const FEW = 5;
const MANY = 100;
/** The gateway looks at everything that waits: a slow answer is requested less often. */
const SPARE = 8;

export class Stuck {
  #model;
  #rows;
  #card = byId("stuck-card");
  #most = FEW;
  #busy = false;
  #againAt = 0;

  constructor(model) {
    this.#model = model;
    this.#rows = new Rows(byId("stuck"), "Keys that wait, oldest first", [
      { head: "Key", heads: true, make: () => [el("a", {}, named(""))], fill: (cell, item) => this.#fillKey(cell, item) },
      { head: "Slot", number: true, fill: (cell, { slot }) => setText(cell, whole(slot)) },
      { head: "Waits for", number: true, fill: (cell, { waiting_s }) => setText(cell, lasted(waiting_s)) },
      { head: "Messages", number: true, fill: (cell, { waiting_messages }) => setText(cell, whole(waiting_messages)) },
      { head: "Why", fill: (cell, { state }) => setText(cell, words(state)) },
      { head: "Worker", make: () => [named("")], fill: (cell, { worker }) => setText(cell.firstElementChild, worker ?? NONE) },
      { head: "Worker is", make: () => [el("span", { class: "badge" })], fill: fillWorkerState },
      { head: "First message", fill: (cell, { position }) => setText(cell, position) },
    ]);
    byId("stuck-more").addEventListener("click", () => {
      this.#most = MANY;
      this.#againAt = 0;
      this.#read();
    });
    model.on("chosen", () => {
      this.#most = FEW;
      this.#clear();
    });
    model.on("subscription", () => this.#read());
  }

  #clear() {
    this.#againAt = 0;
    this.#card.hidden = true;
    this.#rows.show([]);
  }

  async #read() {
    const { chosen, subscription } = this.#model;
    if (subscription === null || subscription.dispatcher.waiting_messages === 0) {
      this.#clear();
      return;
    }
    const began = performance.now();
    if (this.#busy || began < this.#againAt) return;
    this.#busy = true;
    let answer = null;
    try {
      answer = await api.stuck(chosen, this.#most);
    } catch {
      // The reading of the subscription says what is wrong; the list of before turns grey with it.
    }
    this.#busy = false;
    this.#againAt = began + (performance.now() - began) * SPARE;
    if (answer !== null && chosen === this.#model.chosen && !this.#model.absent) this.#show(answer);
  }

  #show({ slots, waiting_slots, waiting_messages }) {
    this.#card.hidden = slots.length === 0;
    this.#rows.show(slots.map((item) => ({ ...item, key: item.slot, message_key: item.key })));
    const all = `${counted(waiting_slots, "hash slot")} with ${counted(waiting_messages, "message")}`;
    const rest = waiting_slots - slots.length;
    byId("stuck-pager").hidden = rest <= 0 || this.#most === MANY;
    const more = this.#most === MANY ? "; keyline stuck --limit lists more" : "";
    setText(byId("stuck-count"), rest > 0 ? `${all}, the ${slots.length} oldest shown${more}` : all);
  }

  /** A key that is not known, or is empty, cut off or no text, is asked for by its slot. */
  #fillKey(cell, { slot, message_key: key }) {
    const link = cell.firstElementChild;
    const asked = key && !/[…\uFFFD]/.test(key) ? { key } : { slot };
    setText(link.firstElementChild, key || `slot ${slot}`);
    setAttribute(link, "href", `#${new URLSearchParams({ ...this.#model.chosen, ...asked })}`);
    setAttribute(link, "title", `Explain why ${key || `slot ${slot}`} waits`);
  }
}

function fillWorkerState(cell, { worker_state: state, urgency }) {
  const badge = cell.firstElementChild;
  badge.hidden = state === null;
  if (state === null) return;
  const { text, tone } = stateOf({ state, urgency });
  setText(badge, text);
  setAttribute(badge, "data-tone", tone);
}
