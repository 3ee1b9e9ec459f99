// The keys with the most messages of the last minute, below the workers: read every few seconds while it is visible.

import * as api from "./api.js";
import { Rows } from "./rows.js";
import { byId, el, named, setText } from "./dom.js";
import { NONE, lasted, percent, rate, whole } from "./format.js";
import { words } from "./verdict.js";

const READ_MS = 5_000;

export class HotKeys {
  #model;
  #rows;
  #readAt = 0;
  #busy = false;

  /** `ask(slot)` explains why a slot waits. */
  constructor(model, ask) {
    this.#model = model;
    this.#rows = new Rows(byId("hot-keys"), "Hot keys", [
      { head: "Key", heads: true, make: ({ text, slot }) => [keyButton(text, () => ask(slot))], fill: () => {} },
      { head: "Slot", number: true, fill: (cell, { slot }) => setText(cell, String(slot)) },
      { head: "Messages/s", number: true, fill: (cell, { messages_per_s }) => setText(cell, rate(messages_per_s)) },
      { head: "Share", number: true, fill: (cell, { share_percent }) => setText(cell, percent(share_percent / 100)) },
      { head: "Waiting", number: true, fill: (cell, { waiting_messages }) => setText(cell, whole(waiting_messages)) },
      { head: "Unacked", number: true, fill: (cell, { unacked_messages }) => setText(cell, whole(unacked_messages)) },
      { head: "Oldest", number: true, fill: (cell, { oldest_s }) => setText(cell, oldest_s === null ? NONE : lasted(oldest_s)) },
      { head: "State", fill: (cell, { state }) => setText(cell, words(state)) },
      { head: "Worker", make: () => [named("")], fill: (cell, { worker }) => setText(cell.firstElementChild, worker ?? NONE) },
    ]);
    model.on("chosen", () => {
      this.#readAt = 0;
      this.#show([]);
    });
    model.on("subscription", () => this.#read());
  }

  async #read() {
    const { chosen, subscription } = this.#model;
    if (chosen === null || subscription === null) {
      this.#show([]);
      return;
    }
    if (this.#busy || performance.now() - this.#readAt < READ_MS) return;
    this.#busy = true;
    try {
      const { keys } = await api.hotKeys(chosen);
      if (chosen === this.#model.chosen) this.#show(keys);
    } catch {
      // The reading of the subscription says what is wrong.
    }
    this.#busy = false;
    this.#readAt = performance.now();
  }

  #show(keys) {
    byId("hot-keys-card").hidden = keys.length === 0;
    // Keys that were shortened alike differ in their slots.
    this.#rows.show(keys.map((item) => ({ ...item, key: `${item.slot} ${item.key}`, text: item.key })));
  }
}

const keyButton = (text, onclick) =>
  el("button", { type: "button", class: "pick", title: "Why its slot waits, or who has it", onclick }, named(text));
