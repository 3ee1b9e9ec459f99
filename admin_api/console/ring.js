// The ring on the page: keeps its picture up to date, and describes the slot under the mouse or the keyboard.
// For assistive technology it is a slider over the slots, whose value is a sentence; the table beside it has the rest.

import { paint } from "./ring_paint.js";
import { SLOTS, ownersOf, rangeAt, slotAtPoint, slotsOfPixels } from "./ring_geometry.js";
import { byId, el, named, setAttribute } from "./dom.js";
import { counted, duration, percent, whole } from "./format.js";
import { keysOf } from "./worker_facts.js";
import { themeNow } from "./colours.js";

const NO_RING = { hash_space: 65_535, workers: [], ranges: [], draining_hashes_count: 0 };
const REDRAW_MS = 1_000;

export class RingView {
  #model;
  #colours;
  #explain;
  #canvas = byId("ring");
  #centre = byId("ring-centre");
  #ring = NO_RING;
  #keys = [];
  #owners = ownersOf(NO_RING);
  #counts = [];
  #pixels = null;
  #asked = -1;
  #pointed = -1;
  #due = false;

  /** `explain(slot)` is asked for when a slot is chosen. */
  constructor(model, colours, explain) {
    this.#model = model;
    this.#colours = colours;
    this.#explain = explain;
    model.on("ring", () => this.#took());
    model.on("subscription", () => this.redraw());
    model.on("picked", () => this.redraw());
    document.addEventListener("themechange", () => this.redraw());
    new ResizeObserver(() => this.redraw()).observe(this.#canvas);
    this.#listen();
    // Rays grow with age.
    setInterval(() => this.#draining().length > 0 && document.visibilityState === "visible" && this.redraw(), REDRAW_MS);
  }

  /** The slot that was searched for, or -1. */
  mark(slot) {
    this.#asked = slot;
    this.redraw();
  }

  redraw() {
    if (this.#due) return;
    this.#due = true;
    requestAnimationFrame(() => {
      this.#due = false;
      this.#draw();
    });
  }

  #took() {
    this.#ring = this.#model.ring ?? NO_RING;
    this.#keys = keysOf(this.#ring.workers);
    this.#owners = ownersOf(this.#ring);
    this.#counts = this.#keys.map(() => ({ ranges: 0, slots: 0 }));
    for (const [start, end, place] of this.#ring.ranges) {
      this.#counts[place].ranges += 1;
      this.#counts[place].slots += end - start + 1;
    }
    this.redraw();
  }

  /** Per worker {key, name, ranges, slots}, in join order. */
  shares() {
    return this.#ring.workers.map((name, place) => ({ name, key: this.#keys[place], ...this.#counts[place] }));
  }

  #draining() {
    const now = this.#model.now();
    return this.#model.workers.flatMap((worker) => worker.draining_hashes.map((item) => [item.hash, now - item.since]));
  }

  #draw() {
    const size = Math.round(this.#canvas.clientWidth * Math.min(2, devicePixelRatio));
    if (size === 0) return;
    if (this.#canvas.width !== size || this.#pixels === null) {
      this.#canvas.width = this.#canvas.height = size;
      this.#pixels = slotsOfPixels(size);
    }
    const theme = themeNow();
    paint(this.#canvas.getContext("2d"), this.#pixels, {
      theme,
      owners: this.#owners,
      colours: this.#keys.map((key) => this.#colours.of(key, theme)),
      picked: this.#keys.indexOf(this.#model.picked),
      draining: this.#draining(),
      pointer: this.#pointed >= 0 ? this.#pointed : this.#asked,
    });
    this.#tell();
  }

  #listen() {
    const canvas = this.#canvas;
    canvas.addEventListener("pointermove", (event) => this.#point(this.#slotUnder(event)));
    canvas.addEventListener("pointerleave", () => this.#point(-1));
    canvas.addEventListener("click", (event) => {
      const slot = this.#slotUnder(event);
      if (slot >= 0) this.#explain(slot);
    });
    canvas.addEventListener("focus", () => canvas.matches(":focus-visible") && this.#point(Math.max(0, this.#asked)));
    canvas.addEventListener("blur", () => this.#point(-1));
    canvas.addEventListener("keydown", (event) => this.#key(event));
  }

  #slotUnder(event) {
    const half = this.#canvas.clientWidth / 2;
    return Math.min(this.#ring.hash_space, slotAtPoint(event.offsetX - half, event.offsetY - half, half));
  }

  #point(slot) {
    if (slot === this.#pointed) return;
    this.#pointed = slot;
    this.redraw();
  }

  #key(event) {
    const slot = Math.max(0, this.#pointed);
    const to = this.#target(event.key, event.shiftKey, slot);
    if (to === null) return;
    event.preventDefault();
    if (event.key === "Enter" || event.key === " ") this.#explain(slot);
    else this.#point(Math.min(this.#ring.hash_space, Math.max(0, to)));
  }

  /** Arrows move by range, with Shift by slot; pages by a sixteenth. Null for any other key. */
  #target(key, fine, slot) {
    const ranges = this.#ring.ranges;
    const place = rangeAt(ranges, slot);
    const next = fine ? slot + 1 : (ranges[place + 1]?.[0] ?? slot);
    const before = fine ? slot - 1 : (ranges[place - 1]?.[0] ?? slot);
    const targets = {
      ArrowRight: next, ArrowUp: next, ArrowLeft: before, ArrowDown: before, Home: 0, End: SLOTS,
      PageUp: slot + 4096, PageDown: slot - 4096, Enter: slot, " ": slot,
    };
    return targets[key] ?? null;
  }

  #tell() {
    const slot = this.#pointed >= 0 ? this.#pointed : this.#asked;
    setAttribute(this.#canvas, "aria-valuemax", String(this.#ring.hash_space));
    setAttribute(this.#canvas, "aria-valuenow", String(Math.max(0, slot)));
    const told = slot >= 0 ? this.#slotFacts(slot) : this.#wholeFacts();
    setAttribute(this.#canvas, "aria-valuetext", told.map((line) => line.text).join(", "));
    this.#centre.replaceChildren(
      ...told.map((line) => el("p", { class: line.kind }, line.name === undefined ? line.text : named(line.name))),
    );
  }

  #wholeFacts() {
    const { workers, ranges } = this.#ring;
    const draining = this.#model.subscription?.dispatcher.draining_hashes_count ?? 0;
    return [
      { kind: "big", text: counted(workers.length, "worker") },
      { text: counted(ranges.length, "range") },
      { kind: draining > 0 ? "drains" : "muted", text: draining > 0 ? `${counted(draining, "slot")} draining` : "nothing drains" },
    ];
  }

  #slotFacts(slot) {
    const lines = [{ kind: "muted", text: `slot ${whole(slot)}` }];
    const range = this.#ring.ranges[rangeAt(this.#ring.ranges, slot)];
    if (range === undefined || range[1] < slot) return [...lines, { kind: "big", text: "no owner" }];
    const [start, end, place] = range;
    const share = this.#counts[place].slots / this.#ring.hash_space;
    const name = this.#ring.workers[place];
    lines.push({ kind: "big", text: name, name });
    lines.push({ text: `in ${whole(start)} to ${whole(end)}` });
    lines.push({ text: `owns ${percent(share)} of all` });
    return [...lines, ...this.#drainFacts(slot)];
  }

  #drainFacts(slot) {
    for (const worker of this.#model.workers) {
      const found = worker.draining_hashes.find((item) => item.hash === slot);
      if (found !== undefined) {
        return [
          { kind: "drains", text: `drains at ${worker.name}` },
          { kind: "drains", text: `for ${duration(this.#model.now() - found.since)}` },
        ];
      }
    }
    return [];
  }
}

