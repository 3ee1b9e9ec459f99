// Confirms and sends orders. Every dialog shows the expected effect, as the gateway computes it.

import * as api from "./api.js";
import { byId, el, named, setText, show } from "./dom.js";
import { counted, percent, whole } from "./format.js";
import { FIRST, parkedKeys, messagesTable } from "./parked_text.js";
import { previewNodes } from "./previews.js";

export class Dialogs {
  #model;
  #reread;
  #dialog = byId("dialog");
  #shown = 0;

  /** `reread()` is called when something was ordered. */
  constructor(model, reread) {
    this.#model = model;
    this.#reread = reread;
    byId("preview-join").addEventListener("click", () => this.#previewJoin());
    byId("pause").addEventListener("click", () => this.#pauseOrResume());
  }

  // ---- of a worker

  previewLeave(worker) {
    this.#open(["If ", named(worker.name), " leaves"], [el("p", {}, "Computed on a copy; nothing changes.")], []);
    this.#showLeave(worker);
  }

  // An order is for the subscription that was chosen when the dialog opened, even if the page has changed since.

  drain(worker) {
    const { chosen } = this.#model;
    const text = [
      el("p", {}, "It gets nothing new until this is undone, also after a reconnect. It keeps its slots, ",
        `${percent(worker.hash_space_share)} of all, so their messages wait. `,
        `It holds ${counted(worker.unacked_messages, "unacknowledged message")}: when they are acknowledged, it can stop without a duplicate.`),
      el("h3", {}, "When it leaves"),
    ];
    this.#open(["Drain ", named(worker.name), "?"], text, [
      this.#orderButton("Drain", "primary", () => api.drain(chosen, worker.name), `${worker.name} is drained: it gets nothing new`),
    ]);
    this.#showLeave(worker);
  }

  /** Undoing is harmless, so there is no confirmation. */
  endDrain(worker) {
    const { chosen } = this.#model;
    this.#order(() => api.endDrain(chosen, worker.name), `${worker.name} gets messages again`);
  }

  evict(worker) {
    const { chosen } = this.#model;
    const text = [
      el("p", {}, "Its consumer is closed, and its messages go to other workers. ",
        worker.drained_by_operator ? "It is drained: if its client reconnects, it gets nothing." : "Official clients reconnect at once, and it gets its keys back; exclude it to keep them from it."),
      el("h3", {}, "While it is disconnected"),
    ];
    this.#open(["Evict ", named(worker.name), "?"], text, [
      this.#orderButton("Evict", "danger", () => api.evict(chosen, worker.name), `${worker.name} was evicted`),
    ]);
    this.#showLeave(worker);
  }

  exclude(worker) {
    const { chosen } = this.#model;
    const text = [
      el("p", {}, "Its consumer is closed, and its keys and messages go to other workers. If its client reconnects, it owns no keys until it is readmitted."),
      el("h3", {}, "While it is excluded"),
    ];
    this.#open(["Exclude ", named(worker.name), "?"], text, [
      this.#orderButton("Exclude", "danger", () => api.exclude(chosen, worker.name), `${worker.name} is excluded: its keys are at other workers`),
    ]);
    this.#showLeave(worker);
  }

  /** As `endDrain`. */
  readmit(name) {
    const { chosen } = this.#model;
    this.#order(() => api.readmit(chosen, name), `${name} may own keys again`);
  }

  #showLeave(worker) {
    const { chosen } = this.#model;
    this.#showPreview(() => api.previewLeave(chosen, worker.name));
  }

  // ---- of a parked slot

  async inspect(parked) {
    this.#open(["Parked: ", ...parkedKeys(parked)], [el("p", { class: "muted" }, `Slot ${whole(parked.slot)}. Contents are in the parking topic, by the position in the last column.`)], []);
    const { chosen } = this.#model;
    this.#fill(async () => messagesTable(await api.parkedMessages(chosen, parked.slot, FIRST), parked.messages));
  }

  redrive(parked) {
    const text = el("p", {}, `${counted(parked.messages, "parked message")} of slot ${whole(parked.slot)} will be delivered in order, before anything newer of it, which waits meanwhile. `,
      "If one of them uses its attempts again, it and the rest stay parked: remove the cause first.");
    this.#takeOut(parked, "redrive", "Redrive", "primary", text, "the parked messages are delivered");
  }

  drop(parked) {
    const text = el("p", {}, `${counted(parked.messages, "parked message")} of slot ${whole(parked.slot)} will be deleted. No worker gets them, and this cannot be undone. The slot goes on with what is newer.`);
    this.#takeOut(parked, "drop", "Drop", "danger", text, "the parked messages are deleted");
  }

  #takeOut(parked, order, word, kind, text, done) {
    const { chosen } = this.#model;
    this.#open([`${word} `, ...parkedKeys(parked), "?"], [text], [
      this.#orderButton(word, kind, () => api.takeOut(chosen, parked.slot, order), done),
    ]);
  }

  // ---- of the subscription

  #pauseOrResume() {
    const { chosen, subscription } = this.#model;
    if (subscription.dispatcher.paused) {
      this.#order(() => api.resume(chosen), "deliveries are resumed");
      return;
    }
    const { workers, waiting_messages } = subscription.dispatcher;
    const text = el("p", {}, `${counted(workers.length, "worker")} get nothing new until it is resumed. Acknowledgements, joins and leaves continue. `,
      `${counted(waiting_messages, "message")} wait now; the number will grow.`);
    this.#open(["Pause ", named(chosen.subscription), "?"], [text], [
      this.#orderButton("Pause", "danger", () => api.pause(chosen), "deliveries are paused"),
    ]);
  }

  #previewJoin() {
    const sticky = this.#model.subscription.key_shared_mode === "STICKY";
    const name = el("input", { type: "text", id: "join-name", value: "new-worker", autocomplete: "off", spellcheck: "false" });
    const ranges = el("input", { type: "text", id: "join-ranges", placeholder: "0-1000, 5000-6000", autocomplete: "off" });
    const ask = () => this.#showPreview(() => api.previewJoin(this.#model.chosen, name.value, sticky ? rangesIn(ranges.value) : []));
    const form = el("form", { class: "join-form", onsubmit: (event) => { event.preventDefault(); ask(); } },
      el("label", { for: "join-name" }, "Name of the worker"), name,
      ...(sticky ? [el("label", { for: "join-ranges" }, "Its ranges"), ranges] : []),
      el("button", { type: "submit", class: "primary" }, "Preview"),
    );
    this.#open(["If a worker joins"], [el("p", {}, "Computed on a copy; nothing changes. Its place on the ring follows from its name."), form], []);
    name.select();
    if (!sticky) ask();
  }

  // ---- the dialog

  /** With a title, text above the preview, and buttons beside "Cancel" ("Close", if there is nothing to cancel). */
  #open(title, text, buttons) {
    this.#shown += 1;
    this.#dialog.replaceChildren(
      el("h2", { id: "dialog-title" }, ...title),
      ...text,
      el("div", { id: "preview", "aria-live": "polite" }),
      el("p", { id: "dialog-problem", class: "note problem", role: "alert", hidden: true }),
      el("div", { class: "dialog-buttons" }, el("button", { type: "button", onclick: () => this.#dialog.close() }, buttons.length > 0 ? "Cancel" : "Close"), ...buttons),
    );
    this.#dialog.showModal();
  }

  #showPreview(ask) {
    return this.#fill(async () => previewNodes(await ask()));
  }

  /** Below the text: nodes that take a request to make. */
  async #fill(make) {
    const asked = (this.#shown += 1);
    const place = byId("preview");
    setText(place, "Reading…");
    let nodes;
    try {
      nodes = await make();
    } catch (error) {
      nodes = [el("p", { class: "problem" }, error.message)];
    }
    if (asked === this.#shown) place.replaceChildren(...nodes);
  }

  #orderButton(text, kind, act, done) {
    const button = el("button", { type: "button", class: kind, onclick: async () => {
      button.disabled = true;
      const problem = await this.#order(act, done);
      if (problem === "") this.#dialog.close();
      else if (button.isConnected) show(byId("dialog-problem"), problem);
      button.disabled = false;
    } }, text);
    return button;
  }

  /** Sends an order; returns the error text, or an empty string. A 403 disables all orders. */
  async #order(act, done) {
    show(byId("notice"), "");
    let problem = "";
    try {
      await act();
    } catch (error) {
      problem = error.message;
      if (error.status === 403) {
        this.#model.readOnly = problem;
        this.#model.tell("orders");
      }
      if (!this.#dialog.open) show(byId("notice"), problem);
    }
    if (problem === "") setText(byId("said"), done);
    this.#reread();
    return problem;
  }
}

/** "0-100, 200-300" as pairs; the gateway refuses other text. */
function rangesIn(text) {
  return text.split(",").map((piece) => piece.split("-").map((end) => Number.parseInt(end.trim(), 10)));
}
