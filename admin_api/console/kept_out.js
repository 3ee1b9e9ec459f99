// Workers of the chosen subscription that own no keys: excluded by an operator, or quarantined for their ack leases.

import { Rows } from "./rows.js";
import { byId, el, named, setAttribute, setText } from "./dom.js";
import { NONE, counted, lasted } from "./format.js";
import { badge } from "./verdict.js";

const UNTIL = { excluded: "an operator readmits it", quarantined: "its quarantine is over" };

export class KeptOut {
  #model;
  #dialogs;
  #card = byId("kept-out-card");
  #rows;

  constructor(model, dialogs) {
    this.#model = model;
    this.#dialogs = dialogs;
    this.#rows = new Rows(byId("kept-out-table"), "Workers without keys", [
      { head: "Worker", heads: true, make: (item) => [named(item.name)], fill: () => {} },
      { head: "Address", fill: (cell, item) => setText(cell, item.address ?? "not connected") },
      { head: "State", make: (item) => [badge({ text: item.reason, tone: "held" })], fill: () => {} },
      { head: "Until", fill: (cell, item) => setText(cell, this.#until(item)) },
      { head: "Actions", number: true, make: (item) => [this.#readmit(item)], fill: (cell) => this.#allow(cell) },
    ]);
    for (const what of ["chosen", "subscription", "orders", "connection"]) model.on(what, () => this.#show());
  }

  #show() {
    // A replica of an earlier release does not tell.
    const workers = this.#model.subscription?.kept_out ?? [];
    this.#card.hidden = workers.length === 0;
    setText(byId("kept-out-count"), workers.length > 0 ? counted(workers.length, "worker") : "");
    this.#rows.show(workers.map((item) => ({ ...item, key: `${item.reason}\n${item.name}\n${item.address ?? NONE}` })));
  }

  #until({ reason, ends_at: ends }) {
    return ends === null ? UNTIL[reason] : `${UNTIL[reason]}, in ${lasted(ends - this.#model.subscription.now)}`;
  }

  #readmit(item) {
    return el("button", { type: "button", "aria-label": `Readmit ${item.name}`, onclick: () => this.#dialogs.readmit(item.name) }, "Readmit");
  }

  #allow(cell) {
    cell.classList.add("row-actions");
    const [button] = cell.children;
    button.disabled = this.#model.readOnly !== "" || this.#model.connection === "broken";
    setAttribute(button, "title", this.#model.readOnly || null);
  }
}
