// What is wrong, who causes it and what helps: the gateway's verdict, the same as `keyline` shows.

import { announce, el, named } from "./dom.js";

const TONES = { none: "good", watch: "held", act: "bad" };
const CALM = new Set(["idle", "busy", "standby", "flowing", "upstream_behind"]);
/** Those in trouble first. */
export const RANK = { act: 0, watch: 1, none: 2 };

/** A state of the API as people write it. */
export const words = (state) => state.replace("look_ahead", "look-ahead").replaceAll("_", " ");

/** {text, tone} for a badge; the text alone is sufficient. */
export function stateOf({ state, urgency }) {
  return { text: words(state), tone: urgency === "none" && CALM.has(state) ? "idle" : TONES[urgency], rank: RANK[urgency] };
}

export function badge({ text, tone }) {
  return el("span", { class: "badge", "data-tone": tone }, text);
}

/** Sentences, advice and the command that helps, with a button that copies it. */
export function told(verdict) {
  const lines = [el("p", { class: "says" }, ...withName(verdict.says, verdict.worker))];
  if (verdict.advice) lines.push(el("p", { class: "advice" }, verdict.advice));
  if (verdict.command !== null) lines.push(command(verdict.command));
  return lines;
}

/** A worker's name is isolated and bold where it begins a sentence. */
function withName(says, name) {
  if (name === null || !says.startsWith(name)) return [says];
  const made = named(name);
  made.classList.add("culprit");
  return [made, says.slice(name.length)];
}

function command(text) {
  const copy = el("button", { type: "button", class: "copy", "aria-label": `Copy the command ${text}`, onclick: () => copied(text) }, "Copy");
  return el("div", { class: "command" }, el("code", {}, text), copy);
}

async function copied(text) {
  try {
    await navigator.clipboard.writeText(text);
    announce("Copied.");
  } catch {
    announce("The browser does not let this page copy.");
  }
}
