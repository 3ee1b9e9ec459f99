// The ring in words: a legend of the largest shares, and a table of all of them.

import { Legend } from "./legend.js";
import { byId, named, table } from "./dom.js";
import { counted, percent, whole } from "./format.js";
import { themeNow } from "./colours.js";

const LEGEND_MAX = 6;

export class RingText {
  #model;
  #colours;
  #ring;
  #legend = new Legend(byId("legend"), (key) => this.#model.pick(key));
  #details = byId("ring-details");

  constructor(model, colours, ring) {
    this.#model = model;
    this.#colours = colours;
    this.#ring = ring;
    for (const what of ["ring", "picked"]) model.on(what, () => this.#show());
    document.addEventListener("themechange", () => this.#show());
    this.#details.addEventListener("toggle", () => this.#showTable());
  }

  #show() {
    const largest = this.#ring.shares().sort((a, b) => b.slots - a.slots);
    // The highlighted worker is always listed.
    const shown = largest.filter((share, place) => place < LEGEND_MAX || share.key === this.#model.picked);
    const rest = largest.length - shown.length;
    const items = shown.map((share) => ({
      ...share, colour: this.#colours.css(share.key, themeNow()), more: percent(this.#part(share)), picked: share.key === this.#model.picked,
    }));
    this.#legend.show(items, rest > 0 ? `${counted(rest, "more worker")} with less` : "");
    this.#showTable();
  }

  #part(share) {
    return share.slots / (this.#model.ring?.hash_space ?? 1);
  }

  #showTable() {
    if (!this.#details.open) return;
    const draining = new Map(this.#model.workers.map((worker) => [worker.key, worker.draining_hashes_count]));
    const rows = this.#ring.shares().map((share) => [
      named(share.name), whole(share.ranges), whole(share.slots), percent(this.#part(share)), whole(draining.get(share.key) ?? 0),
    ]);
    const made = table("Owners of the hash space", ["Worker", "Ranges", "Slots", "Share", "Draining"], rows, [1, 2, 3, 4]);
    made.id = "ring-table";
    byId("ring-table").replaceWith(made);
  }
}
