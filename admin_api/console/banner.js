// Shows whether the page is up to date. While it is not, values are greyed and their age is shown.

import { byId, el, setAttribute, setText, show } from "./dom.js";
import { duration } from "./format.js";

const STATES = { connecting: "connecting", live: "live", broken: "disconnected" };

export class Banner {
  #model;
  #ageOf;
  #banner = byId("banner");

  /** `ageOf()`: the age in seconds of the values shown; null if there are none. */
  constructor(model, ageOf) {
    this.#model = model;
    this.#ageOf = ageOf;
    model.on("connection", () => this.#show());
    // The age is updated every second but not read out: it is in the last part of the alert, outside its text.
    setInterval(() => this.#model.connection === "broken" && this.#age(), 1_000);
  }

  #show() {
    const { connection, problem, refusal, warning } = this.#model;
    const place = byId("connection");
    setText(place, STATES[connection]);
    place.dataset.state = connection;
    setAttribute(document.body, "data-stale", connection === "broken" ? "" : null);
    if (connection !== "broken") {
      show(this.#banner, [problem, refusal, warning].filter(Boolean).join(" "));
      return;
    }
    this.#banner.hidden = false;
    this.#banner.replaceChildren(
      `Disconnected from the gateway (${problem}), reconnecting.`, el("span", { "aria-live": "off" }),
    );
    this.#age();
  }

  #age() {
    const age = this.#ageOf();
    setText(this.#banner.lastElementChild, age === null ? "" : ` Values are ${duration(Math.floor(age))} old.`);
  }
}
