// The hash space divided into streams, each in the colour of its replica. A stream that is not simply leased has a
// pattern, so that colour is not needed; pointing at a stream shows its state in words.

import { LOOKS, streamState } from "./groups_text.js";
import { arrange, byId, el, setAttribute, setText } from "./dom.js";
import { whole } from "./format.js";

const HINT = "arrow keys: by stream, Enter: its row in the table";
/** Up to this number of streams, each has room for its number. */
const NUMBERED_MAX = 64;
/** Streams in a line, [wide, narrow]: few streams fill the width, many form a grid. */
const LINES = { few: [32, 16], many: [64, 32] };
const STEPS = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: 1, ArrowUp: -1 };

export class GroupsStrip {
  #strip = byId("strip");
  #told = byId("strip-told");
  #looks = byId("strip-looks");
  #cells = [];
  #places = [];
  #at = 0;
  #choose;

  /** `choose(place)` is called when a stream is chosen. */
  constructor(choose) {
    this.#choose = choose;
    this.#strip.addEventListener("keydown", (event) => this.#key(event));
    const numberOf = (event) => this.#cells.indexOf(event.target.closest("button"));
    this.#strip.addEventListener("pointerover", (event) => this.#point(numberOf(event)));
    this.#strip.addEventListener("focusin", (event) => this.#stop(numberOf(event)));
    for (const kind of ["pointerleave", "focusout"]) this.#strip.addEventListener(kind, () => this.#point(-1));
  }

  /** `places`: each stream with owner and state; `colourOf(owner)`; `picked` is an owner that stands out, or null. */
  show(places, colourOf, picked) {
    this.#places = places;
    if (places.length !== this.#cells.length) this.#cut(places.length);
    places.forEach((place, number) => {
      const cell = this.#cells[number];
      setAttribute(cell, "data-look", streamState(place.state).look);
      setAttribute(cell, "data-dimmed", picked !== null && place.owner !== picked ? "" : null);
      setAttribute(cell, "aria-label", inWords(place));
      if (place.owner === null) cell.firstElementChild.style.removeProperty("--whose");
      else cell.firstElementChild.style.setProperty("--whose", colourOf(place.owner));
    });
    this.#showLooks();
    this.#point(this.#cells.indexOf(document.activeElement));
  }

  #cut(count) {
    const numbered = count <= NUMBERED_MAX;
    this.#cells = Array.from({ length: count }, (_, number) =>
      el("button", { type: "button", class: "stream", tabindex: number === 0 ? 0 : -1, onclick: () => this.#choose(this.#places[number]) },
        el("i", {}), numbered ? el("span", { "aria-hidden": "true" }, whole(number)) : null),
    );
    this.#at = 0;
    const [wide, narrow] = numbered ? LINES.few : LINES.many;
    this.#strip.style.setProperty("--wide", Math.min(wide, count));
    this.#strip.style.setProperty("--narrow", Math.min(narrow, count));
    setAttribute(this.#strip, "data-numbered", numbered ? "" : null);
    arrange(this.#strip, this.#cells);
  }

  /** The meaning of each visible pattern, with its number of streams. */
  #showLooks() {
    const counts = new Map();
    for (const { state } of this.#places) counts.set(streamState(state).look, (counts.get(streamState(state).look) ?? 0) + 1);
    const shown = JSON.stringify([...counts]);
    if (this.#looks.dataset.shown === shown) return;
    this.#looks.dataset.shown = shown;
    this.#looks.replaceChildren(...Object.keys(LOOKS).filter((look) => counts.has(look)).map((look) =>
      el("li", { "data-look": look }, el("i", {}), el("span", {}, `${LOOKS[look]}: ${whole(counts.get(look))}`)),
    ));
  }

  #point(number) {
    const place = this.#places[number];
    setText(this.#told, place === undefined ? HINT : inWords(place));
  }

  #key(event) {
    const last = this.#cells.length - 1;
    const to = event.key === "Home" ? 0 : event.key === "End" ? last : this.#at + (STEPS[event.key] ?? NaN);
    if (Number.isNaN(to)) return;
    event.preventDefault();
    this.#cells[Math.min(last, Math.max(0, to))].focus();
  }

  /** Only the last focused stream is in the tab order. */
  #stop(number) {
    setAttribute(this.#cells[this.#at], "tabindex", "-1");
    setAttribute(this.#cells[number], "tabindex", "0");
    this.#at = number;
    this.#point(number);
  }
}

function inWords({ stream, first_slot: first, last_slot: last, owner, state }) {
  const slots = first === undefined ? "" : `, slots ${whole(first)} to ${whole(last)}`;
  return `stream ${whole(stream)}${slots}${owner === null ? "" : `, ${owner}`}, ${streamState(state).text}`;
}
