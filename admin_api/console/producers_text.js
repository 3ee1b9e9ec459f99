// Texts for elections. `tone` selects a colour; the text alone is sufficient.

import { NONE, bytes, counted, duration, lasted, whole } from "./format.js";

const MODES = {
  exclusive: "exclusive",
  wait_for_exclusive: "exclusive, having waited",
  exclusive_with_fencing: "exclusive, fencing others off",
};

const STAGES = {
  waiting: { text: "waits at the gateway", tone: "idle" },
  asked: { text: "is being promoted", tone: "good" },
  parked: { text: "waits at the broker", tone: "held" },
  withdrawing: { text: "makes way for a better one", tone: "held" },
};

const HOLDS = {
  none: "",
  newcomers: "New producers wait for the owner to return.",
  all: "No producer is promoted while the broker reports errors for the topic.",
};

export const modeOf = (mode) => MODES[mode] ?? mode.replaceAll("_", " ");
export const holdOf = (held) => HOLDS[held] ?? held;
export const priorityOf = (priority) => (priority === null ? NONE : whole(priority));
export const epochOf = (epoch) => (epoch === null ? NONE : whole(epoch));

export function stageOf({ stage, returning }) {
  const { text, tone } = STAGES[stage] ?? { text: stage, tone: "idle" };
  return { text: returning ? `${text}, former owner` : text, tone };
}

/** The owner of the topic: `state` in a word or two, and details. */
export function ownershipOf({ owner, vacant_s, waiting_count, held }) {
  if (owner !== null) return { state: "owned", text: owner.producer_name, more: "", tone: "good" };
  if (vacant_s > 0) {
    const more = held === "newcomers" ? ", kept for its owner" : "";
    return { state: "vacant", text: "no owner", more: `for ${lasted(vacant_s)}${more}`, tone: "bad" };
  }
  if (waiting_count > 0) return { state: "elsewhere", text: "connected elsewhere", more: "", tone: "held" };
  return { state: "free", text: "no owner", more: "", tone: "idle" };
}

/** Counters as figures, the same for one topic and for all. */
export function countersAsFigures(counters) {
  const { promotions_total, resumptions_total, failed_promotions_total, fencings_total, vacancy_seconds_total } = counters;
  return [
    ["Promotions", whole(promotions_total), resumptions_total > 0 ? `${counted(resumptions_total, "owner")} came back` : ""],
    ["Failed promotions", whole(failed_promotions_total), ""],
    ["Fencings", whole(fencings_total), ""],
    ["Without an owner", duration(vacancy_seconds_total), "in all"],
  ];
}

export const heldBytes = (count) => (count > 0 ? `${bytes(count)} held` : "");
