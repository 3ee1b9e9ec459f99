// Turning the pages of a table.

import { byId, setText } from "./dom.js";

export class Pager {
  #id;
  #targets = { before: null, next: null };

  /** `turn(target)` is called with what `show` was given. */
  constructor(id, turn) {
    this.#id = id;
    for (const way of ["before", "next"]) byId(`${id}-${way}`).addEventListener("click", () => turn(this.#targets[way]));
  }

  /** `place` is the current position; `before` and `next` are the neighbouring pages, null at the ends. */
  show(place, before, next) {
    this.#targets = { before, next };
    byId(`${this.#id}-pager`).hidden = before === null && next === null;
    for (const way of ["before", "next"]) byId(`${this.#id}-${way}`).disabled = this.#targets[way] === null;
    setText(byId(`${this.#id}-place`), place);
  }
}
