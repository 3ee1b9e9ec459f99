// Explains why a key waits: the gateway's answer in words, repeated with every reading, and the slot on the ring.

import * as api from "./api.js";
import { announce, byId, el, fact, named, table } from "./dom.js";
import { NONE, counted, duration, whole } from "./format.js";
import { badge, stateOf, told, words } from "./verdict.js";

const HINT =
  "Enter a message key, or choose a slot on the ring, to see its owner, the holder of its messages, and what must happen " +
  "before the next one is delivered.";

const SMALL = matchMedia("(max-width: 1100px)");

export class KeySearch {
  #model;
  #mark;
  #answer = byId("key-answer");
  #kind = byId("key-kind");
  #text = byId("key-text");
  #shown = "";
  #said = "";
  /** The answer is to be scrolled to: on a small screen it may be below. */
  #toShow = false;
  /** Where the page was scrolled to for it; null if it was not yet. */
  #scrolledTo = null;

  /** `mark(slot)` shows a slot on the ring, -1 none. */
  constructor(model, mark) {
    this.#model = model;
    this.#mark = mark;
    byId("key-form").addEventListener("submit", (event) => {
      event.preventDefault();
      this.ask(this.#text.value === "" ? null : { by: this.#kind.value, value: this.#text.value });
    });
    this.#kind.addEventListener("change", () => this.#label());
    this.#text.addEventListener("search", () => this.#text.value === "" && this.ask(null));
    model.on("subscription", () => this.#refresh());
    model.on("asked", () => this.#take());
  }

  /** A question {by, value}, or null to stop asking. */
  ask(asked) {
    this.#model.asked = asked;
    this.#model.tell("asked");
  }

  #take() {
    const { asked } = this.#model;
    this.#kind.value = asked?.by ?? this.#kind.value;
    if (asked !== null || document.activeElement !== this.#text) this.#text.value = asked?.value ?? "";
    this.#label();
    this.#shown = this.#said = "";
    this.#toShow = asked !== null && SMALL.matches;
    this.#scrolledTo = null;
    this.#answer.replaceChildren();
    this.#mark(-1);
    if (this.#model.asked === null) this.#answer.append(el("p", { class: "muted" }, HINT));
    this.#refresh();
  }

  #label() {
    const what = this.#kind.value === "slot" ? "Slot, 0 to 65535" : "Message key";
    this.#text.placeholder = what;
    this.#text.setAttribute("aria-label", what);
    this.#text.inputMode = this.#kind.value === "slot" ? "numeric" : "text";
  }

  async #refresh() {
    const { asked, chosen, absent } = this.#model;
    if (asked === null || chosen === null || absent) return;
    let told;
    try {
      told = this.#explained(asked, await api.explain(chosen, asked.by, asked.value));
    } catch (error) {
      told = [el("p", { class: "problem" }, error.message)];
    }
    if (asked !== this.#model.asked || chosen !== this.#model.chosen) return;
    this.#replace(told);
  }

  /** Announced when the answer changes, not each time an age in it grows. */
  #say(answer, state) {
    const gist = [answer.verdict.state, answer.owner, answer.holder].join("\n");
    if (gist === this.#said) return;
    this.#said = gist;
    announce(`Slot ${answer.slot}: ${state.text}. ${answer.verdict.says}`);
  }

  /** Unchanged text stays, so that a selection of it is kept. */
  #replace(told) {
    const made = el("div", {}, ...told);
    if (made.textContent !== this.#shown) {
      this.#shown = made.textContent;
      this.#answer.replaceChildren(made);
    }
    // What stands above it is only there when the subscription was read.
    if (this.#toShow && this.#model.subscription !== null) this.#scroll();
  }

  /** Again when what stands above has grown, until the page was scrolled otherwise. */
  #scroll() {
    this.#toShow = this.#scrolledTo === null || Math.abs(scrollY - this.#scrolledTo) < 1;
    if (!this.#toShow) return;
    byId("key-title").scrollIntoView({ block: "start" });
    this.#scrolledTo = scrollY;
  }

  #explained(asked, answer) {
    this.#mark(answer.slot);
    const state = stateOf(answer.verdict);
    this.#say(answer, state);
    const subject = asked.by === "key" ? asked.value : `slot ${asked.value}`;
    return [
      el("p", { class: "verdict" }, el("bdi", { class: "name" }, subject), badge(state)),
      el("div", { class: "told", "data-tone": state.tone }, ...told(answer.verdict)),
      el("dl", { class: "facts" },
        fact("Slot", whole(answer.slot)),
        fact("Owner", answer.owner === null ? NONE : named(answer.owner)),
        fact("Held by", answer.holder === null ? NONE : named(answer.holder)),
        fact("Waiting", ...waiting(answer)),
        fact("Waits because of", answer.waiting_messages > 0 ? words(answer.state) : NONE),
        fact("Pending", answer.unacked_messages > 0 ? counted(answer.unacked_messages, "message") : "nothing"),
        ...(answer.join_position === null ? [] : [fact("Join position", `${answer.join_position}, ${counted(answer.join_position_entries, "entry", "entries")} to go`)]),
      ),
      el("p", { class: "muted" }, `To unblock it: ${answer.unblocks}.`),
      blockingTable(answer.blocking),
    ];
  }
}

function waiting(answer) {
  if (answer.waiting_messages === 0) return ["nothing"];
  return [`${counted(answer.waiting_messages, "message")} `, el("small", { class: "muted" }, `for ${duration(answer.waiting_age_s)}`)];
}

function blockingTable(blocking) {
  if (blocking.length === 0) return "";
  const rows = blocking.map((item) => [
    item.position, whole(item.messages), item.holder === null ? "waits itself" : named(item.holder),
    item.sent_age_s === null ? NONE : duration(item.sent_age_s), whole(item.attempts),
  ]);
  const heads = ["Message", "Count", "Held by", "Sent", "Attempts"];
  return el("div", { class: "blocking" }, el("h3", {}, "Blocking deliveries"), table("Deliveries that block the key", heads, rows, [1, 3, 4]));
}
