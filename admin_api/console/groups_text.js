// Texts for groups of replicas. `tone` selects a colour; the text alone is sufficient.

import { NONE, clockTime, counted, duration, whole } from "./format.js";

export const NOT_ENABLED =
  "Groups of replicas are not enabled on this gateway. The setting groups_enabled (KEYLINE_GROUPS_ENABLED=true) " +
  "enables them, and must be the same on all replicas.";
const OWNED =
  "This replica has no streams of it. In owner mode a subscription has one owner, or, as one of streamed_subscriptions, streams " +
  "at each replica with workers. The list of groups has all of them.";
export const NOTHING_OWNED = "No worker consumes a Key_Shared subscription through any replica.";
export const NOTHING_SHARED = "No worker consumes a Key_Shared subscription of a persistent topic through this replica.";
const ABSENT = "This replica is not in the group now: no worker of the subscription is connected to it.";

/** Why there is nothing to show under a group's address, by the way in which this gateway shares. */
export const absentBecause = (mode) => (mode === null ? NOT_ENABLED : mode === "owner" ? OWNED : ABSENT);

/** Address of a group's page. */
export const groupAddress = ({ topic, subscription }) => `#${new URLSearchParams({ groups: topic, subscription })}`;

/** States of a stream; `look` is its pattern on the strip. */
const STREAMS = {
  delivered: { text: "delivered here", tone: "good", look: "leased" },
  leased: { text: "leased", tone: "good", look: "leased" },
  opening: { text: "being opened", tone: "held", look: "opening" },
  releasing: { text: "being released", tone: "held", look: "releasing" },
  held: { text: "held, not delivered", tone: "bad", look: "held" },
  refused: { text: "refused by the broker", tone: "bad", look: "refused" },
  unowned: { text: "without an owner", tone: "bad", look: "unowned" },
  elsewhere: { text: "not here", tone: "idle", look: "elsewhere" },
};

/** The meaning of each pattern. */
export const LOOKS = { ...Object.fromEntries(Object.values(STREAMS).map(({ look, text }) => [look, text])), leased: "leased" };

const SESSIONS = {
  waiting_replaying: { text: "confirming its streams", tone: "held" },
  replaying: { text: "delivers", tone: "good" },
  waiting_updating: { text: "confirming a change", tone: "held" },
  updating: { text: "releases streams", tone: "held" },
};

export const streamState = (state) => STREAMS[state];
export const sessionState = (state) => SESSIONS[state] ?? { text: state, tone: "idle" };

/** The group's reason why a replica delivers nothing of a subscription; null if there is none. */
export function stillState({ lease_left_s, streams_here }) {
  if (lease_left_s <= 0) return { text: "no lease", tone: "bad" };
  return streams_here === 0 ? { text: "standby", tone: "idle" } : null;
}

/** The state of this replica in the group. */
export function groupState(summary) {
  if (summary.state === "disconnected") return { text: "has left", tone: "idle" };
  if (summary.lease_left_s > 0 && summary.streams_releasing > 0) return { text: "releases streams", tone: "held" };
  return stillState(summary) ?? { text: "delivers", tone: "good" };
}

export const leaderOf = ({ leads, leader }) => (leads ? "this replica" : leader ?? "not found");
export const streamsOfAll = ({ streams_here, streams_count }) => `${whole(streams_here)} of ${whole(streams_count)}`;
export const orNone = (number) => (number === null ? NONE : whole(number));

/** A leader's epoch: a name rather than a quantity, so without separators, which would not fit on one line. */
export const groupEpoch = (epoch) => (epoch === null ? NONE : String(epoch));
const some = (count, what) => (count > 0 ? `${whole(count)} ${what}` : "");

export function groupFigures(summary, leading) {
  const { text, tone } = groupState(summary);
  const { counters } = summary;
  const workers = leading?.sessions.reduce((sum, session) => sum + session.workers_count, 0);
  const problems = [some(counters.streams_overdue, "with messages at workers"), some(counters.streams_refused, "refusals by the broker")];
  return [
    ["This replica", text, summary.replica, tone],
    ["Leader", ...leaderFigure(summary)],
    ["Epoch", groupEpoch(summary.epoch), summary.version === null ? "" : `version ${whole(summary.version)} of its streams`],
    ["Lease", ...leaseFigure(summary.lease_left_s)],
    ["Streams here", streamsOfAll(summary), some(summary.streams_releasing, "to be released")],
    ["Workers here", whole(summary.workers_count), leading === null ? "" : `${counted(workers, "worker")} in all`],
    ["Streams released", whole(counters.streams_released), problems.filter(Boolean).join(", ")],
  ];
}

function leaderFigure({ leads, leader, replica }) {
  if (leads) return ["this replica", replica];
  return leader === null ? ["not found", ""] : ["another replica", leader];
}

function leaseFigure(left) {
  if (left <= 0) return ["none", "nothing is delivered here", "bad"];
  const until = new Date(Date.now() + left * 1000);
  return [`${duration(left)} left`, `until ${clockTime(until)}`, ""];
}
