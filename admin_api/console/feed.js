// The feed of events, newest first. Simultaneous events of one kind share a line; screen readers get a summary every
// few seconds, because there may be a thousand hand-overs a second.

import { byId, el, setAttribute, setText } from "./dom.js";
import { clockTime } from "./format.js";
import { joined, told } from "./event_text.js";

const LINES_MAX = 200;
/** Events of one kind within this time share a line. */
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

  /** `model` has the chosen item, the time of its reading, and the gateway's clock; `prefix` is that of the feed's ids. */
  constructor(model, prefix = "feed") {
    this.#model = model;
    this.#list = byId(prefix);
    this.#hold = byId(`${prefix}-hold`);
    this.#said = byId(`${prefix}-said`);
    model.on("chosen", () => this.#clear());
    // Event times need the gateway's clock, which is known after the first reading.
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

  /** A line of the page itself, such as a lost connection. */
  note(text, kind = "note") {
    this.#put({ event: null, at: null, date: new Date(), text, kind });
  }

  /** The gateway is unreachable; one line until it is `found`. */
  lost() {
    if (!this.#lost) this.note("disconnected from the gateway");
    this.#lost = true;
  }

  /** The gateway answers again. Each feed has its own line, regardless of other parts of the page. */
  found() {
    if (this.#lost) this.note("connected again; the page is reloaded");
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
    // Screen readers do not announce earlier events.
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
