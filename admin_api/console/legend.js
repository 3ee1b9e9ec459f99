// The legend of colours: a chip for each, which highlights it. Updated in place, so that the focus stays.

import { arrange, el, named, setAttribute, setText } from "./dom.js";

export class Legend {
  #list;
  #pick;
  #chips = new Map();
  #rest = el("li", { class: "muted" });

  /** `pick(key)` is called when a person picks one. */
  constructor(list, pick) {
    this.#list = list;
    this.#pick = pick;
  }

  /** `items`: {key, name, colour, more, picked}; `rest` tells of those that are left out. */
  show(items, rest = "") {
    const here = new Set(items.map((item) => item.key));
    for (const key of this.#chips.keys()) if (!here.has(key)) this.#chips.delete(key);
    const chips = items.map((item) => {
      const chip = this.#chips.get(item.key) ?? this.#make(item);
      this.#fill(chip.firstElementChild, item);
      return chip;
    });
    setText(this.#rest, rest);
    arrange(this.#list, rest ? [...chips, this.#rest] : chips);
  }

  #make({ key, name }) {
    const button = el("button", { type: "button", class: "chip", onclick: () => this.#pick(key) },
      el("i", { class: "swatch" }), named(name), el("span", { class: "muted" }),
    );
    const chip = el("li", {}, button);
    this.#chips.set(key, chip);
    return chip;
  }

  #fill(button, { colour, more, picked }) {
    button.firstElementChild.style.backgroundColor = colour;
    setText(button.lastElementChild, more);
    setAttribute(button, "aria-pressed", String(picked));
  }
}
