// A preview of a join or a leave: its effects in words, and a table of the changed shares.

import { el, named, table } from "./dom.js";
import { counted, percent, whole } from "./format.js";

const ROWS_MAX = 8;

/** Nodes for a dialog. */
export function previewNodes(preview) {
  return [
    el("ul", { class: "outcome" }, ...outcomes(preview).map((line) => el("li", {}, line))),
    sharesTable(preview.workers),
  ];
}

function outcomes(preview) {
  const lines = [
    `${percent(preview.share_moved)} of the hash space moves: ${counted(preview.slots_moved, "slot")} in ${counted(preview.moves_count, "range")}.`,
    preview.slots_that_would_drain > 0
      ? `${counted(preview.slots_that_would_drain, "slot")} would drain first: ${counted(preview.messages_that_would_drain, "message")} must be acknowledged before their new owner gets more.`
      : "No slot would have to drain first.",
  ];
  if (preview.messages_redelivered > 0) {
    lines.push(`${counted(preview.messages_redelivered, "message")} that it holds would be sent again, to other workers: duplicates, if it has processed them.`);
  }
  if (preview.waiting_messages_moved > 0) lines.push(`${counted(preview.waiting_messages_moved, "waiting message")} would go to another owner.`);
  return lines;
}

function sharesTable(workers) {
  const change = (worker) => worker.share_after - worker.share_before;
  const concerned = workers.filter((worker) => worker.slots_before !== worker.slots_after || worker.joins || worker.leaves);
  concerned.sort((a, b) => Math.abs(change(b)) - Math.abs(change(a)));
  if (concerned.length === 0) return "";
  const rows = concerned.slice(0, ROWS_MAX).map((worker) => [
    el("span", {}, named(worker.name), worker.joins ? " joins" : worker.leaves ? " leaves" : ""),
    percent(worker.share_before), percent(worker.share_after),
    `${change(worker) > 0 ? "+" : "−"}${percent(Math.abs(change(worker)))}`, whole(worker.messages_that_would_drain),
  ]);
  const rest = concerned.length - ROWS_MAX;
  const heads = ["Worker", "Share now", "Then", "Change", "To drain"];
  return el("div", {},
    table("Shares of the hash space before and after", heads, rows, [1, 2, 3, 4]),
    rest > 0 ? el("p", { class: "muted" }, `and ${counted(rest, "more worker")} with smaller changes`) : "",
  );
}
