// What happened, newest first. Events of one kind that come together make one line; screen readers get a summary every
// few seconds, for hand-overs may come a thousand a second.

import { byId, el, setAttribute, setText } from "./dom.js";
import { clockTime } from "./format.js";
import { joined, told } from "./event_text.js";

const LINES_MAX = 200;
/** Events of one kind that are not further apart are one line. */
const TOGETHER_S = 1;
const SAY_MS = 3_000;

export class Feed {
  #model;
  #list;
  #hold;
  #said;
  #lines = [];
  #waiting = [];
  #unsaid = [];
  #drawn = false;
  #lost = false;
  #quietUntil = 0;

  /** `model` tells what is chosen, when it was read, and the gateway's clock; `prefix` is that of the feed's ids. */
  constructor(model, prefix = "feed") {
    this.#model = model;
    this.#list = byId(prefix);
    this.#hold = byId(`${prefix}-hold`);
    this.#said = byId(`${prefix}-said`);
    model.on("chosen", () => this.#clear());
    // Moments become times of day with the gateway's clock, which comes with the first reading.
    for (const what of ["subscription", "one"]) model.on(what, () => this.#drawSoon());
    this.#hold.addEventListener("click", () => this.#toggleHold());
    setInterval(() => this.#say(), SAY_MS);
  }

  add(event) {
    const last = this.#lines[0];
    if (last?.event?.kind === event.kind && event.at - last.event.at < TOGETHER_S && joined(last.event, event)) {
      last.event = joined(last.event, event);
      last.text = told(last.event);
      if (last.element) setText(last.element.lastChild, last.text);
      return;
    }
    this.#put({ event, at: event.at, text: told(event), kind: event.kind });
  }

  /** Of the page itself, such as a connection that broke. */
  note(text, kind = "note") {
    this.#put({ event: null, at: null, date: new Date(), text, kind });
  }

  /** The gateway is out of reach; told once, until it is `found`. */
  lost() {
    if (!this.#lost) this.note("disconnected from the gateway");
    this.#lost = true;
  }

  /** It answers. Whether another part of the page found it first does not matter: each feed tells its own story. */
  found() {
    if (this.#lost) this.note("connected again; everything is read anew");
    this.#lost = false;
  }

  #put(line) {
    this.#lines.unshift(line);
    this.#lines.length = Math.min(this.#lines.length, LINES_MAX);
    this.#waiting.push(line);
    if (performance.now() > this.#quietUntil) this.#unsaid.push(line);
    this.#drawSoon();
  }

  #clear() {
    this.#lines = [];
    this.#waiting = [];
    this.#unsaid = [];
    this.#lost = false;
    this.#list.replaceChildren();
    // History is there to be read, not to be read out.
    this.#quietUntil = performance.now() + 2_000;
  }

  #drawSoon() {
    if (this.#drawn || this.#held()) return;
    this.#drawn = true;
    requestAnimationFrame(() => {
      this.#drawn = false;
      this.#draw();
    });
  }

  #held() {
    return this.#hold.getAttribute("aria-pressed") === "true";
  }

  #toggleHold() {
    setAttribute(this.#hold, "aria-pressed", String(!this.#held()));
    this.#drawSoon();
  }

  #draw() {
    if (!this.#model.settled) return;
    for (const line of this.#waiting.splice(0)) {
      line.element = this.#element(line);
      this.#list.prepend(line.element);
    }
    while (this.#list.children.length > LINES_MAX) this.#list.lastChild.remove();
  }

  #element(line) {
    const date = line.date ?? this.#dateOf(line.at);
    const time = date === null ? "" : clockTime(date);
    return el("li", { "data-kind": line.kind }, el("time", { datetime: date?.toISOString() }, time), el("span", {}, line.text));
  }

  #dateOf(at) {
    const now = this.#model.now();
    return now === 0 ? null : new Date(Date.now() - Math.max(0, now - at) * 1000);
  }

  #say() {
    const unsaid = this.#unsaid.splice(0);
    if (unsaid.length === 0 || this.#held()) return;
    const more = unsaid.length > 3 ? `, and ${unsaid.length - 3} more` : "";
    setText(this.#said, unsaid.slice(0, 3).map((line) => line.text).join("; ") + more);
  }
}
