// Parked slots and messages in words.

import { el, named, table } from "./dom.js";
import { NONE, bytes, counted, whole } from "./format.js";

/** Messages of a slot that are shown. */
export const FIRST = 50;

/** Nodes: the slot's keys, as many as fit. */
export function parkedKeys({ keys, slot }, most = 3) {
  if (keys.length === 0) return [`slot ${whole(slot)}`];
  const shown = keys.slice(0, most).flatMap((key) => [", ", named(key || "(no key)")]).slice(1);
  return keys.length > most ? [...shown, ` and ${keys.length - most} more`] : shown;
}

/** A moment as people write it, in the browser's zone. */
export const moment = (ms) => new Date(ms).toLocaleString([], { hour12: false });

export function messagesTable(messages, all) {
  if (messages.length === 0) return [el("p", {}, "Nothing of it is in the parking topic yet.")];
  const heads = ["Message", "In batch", "Key", "Attempts", "Size", "Published", "Parked as"];
  const rows = messages.map((each) => [
    each.position, each.batch_index === null ? NONE : whole(each.batch_index), named(each.key || "(no key)"), whole(each.attempts),
    bytes(each.size_bytes), moment(each.published_ms), each.parked_position,
  ]);
  const rest = all - messages.length;
  return [
    el("div", { class: "scroll messages", tabindex: "0", role: "region", "aria-label": "Parked messages" }, table("Parked messages, in order", heads, rows, [1, 3, 4])),
    rest > 0 ? el("p", { class: "muted" }, `The first ${whole(messages.length)}; ${counted(rest, "more message")} behind them.`) : "",
  ];
}
