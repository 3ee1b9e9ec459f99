// The gateway's API. Paths are relative, so that the console also works behind a proxy that adds a prefix.

import { topicParts } from "./format.js";

const PATIENCE_MS = 10_000;

const UNAUTHORIZED = 401;

/** When the login has expired, the gateway serves the login page instead of this one. */
export function checkKnown(status) {
  if (status === UNAUTHORIZED) location.reload();
}

/** The gateway refused the request; the message is its own sentence (RFC 9457 `detail`). */
export class Refused extends Error {
  constructor(status, detail) {
    super(detail);
    this.status = status;
  }
}

/** No answer, or not in time. */
export class Unreachable extends Error {}

async function ask(method, path, { query = [], body } = {}) {
  const url = new URL(`api/v1${path}`, document.baseURI);
  url.hash = "";
  url.search = new URLSearchParams(query).toString();
  const headers = body === undefined ? {} : { "content-type": "application/json" };
  let answer;
  let text;
  try {
    answer = await fetch(url, {
      method, headers, cache: "no-store", credentials: "same-origin", signal: AbortSignal.timeout(PATIENCE_MS),
      body: body === undefined ? undefined : JSON.stringify(body),
    });
    text = await answer.text();
  } catch (error) {
    throw new Unreachable(error.name === "TimeoutError" ? `no answer in ${PATIENCE_MS / 1000} s` : "no connection");
  }
  checkKnown(answer.status);
  if (answer.ok) return text ? JSON.parse(text) : null;
  throw new Refused(answer.status, detailOf(text) ?? `status ${answer.status}`);
}

function detailOf(text) {
  try {
    return JSON.parse(text).detail;
  } catch {
    return null;
  }
}

function named(chosen) {
  const { tenant, namespace, name } = topicParts(chosen.topic);
  return [tenant, namespace, name, chosen.subscription].map(encodeURIComponent).join("/");
}

const below = (chosen, rest = "") => `/subscriptions/${named(chosen)}${rest}`;

const worker = (chosen, name, rest) => below(chosen, `/workers/${encodeURIComponent(name)}${rest}`);

/** The caller: `name`, `role`, and whether the gateway requires a login. */
export const me = () => ask("GET", "/me");

export async function logOut() {
  await fetch(new URL("logout", document.baseURI), { method: "POST", credentials: "same-origin", redirect: "manual" });
  checkKnown(UNAUTHORIZED);
}

const PAGE = 100;
/** Waiting producers in one answer. */
export const WAITING = 100;

const page = (path, after, limit = PAGE, more = []) =>
  ask("GET", path, { query: [["limit", limit], ...more, ...(after ? [["after", after]] : [])] });
/** Adds the listed items under one common name. */
const listed = async (path, name, after) => {
  const answer = await page(path, after);
  return { ...answer, items: answer[name] };
};

/** Without their workers, which are counted. */
export const subscriptions = (after, limit) => page("/subscriptions", after, limit, [["workers", false]]);
export const subscription = (chosen) => ask("GET", below(chosen));
export const hotKeys = (chosen) => ask("GET", below(chosen, "/hot-keys"));
export const ring = (chosen) => ask("GET", below(chosen, "/ring"));

export const elections = (after) => listed("/exclusive-producers", "elections", after);
/** A page of a topic's waiting producers; `first` producers come before it. */
export const election = (topic, first) => {
  const { domain, tenant, namespace, name } = topicParts(topic);
  const path = [tenant, namespace, name].map(encodeURIComponent).join("/");
  return ask("GET", `/exclusive-producers/${path}`, { query: [["first", first], ["limit", WAITING], ["domain", domain]] });
};

export const groups = (after) => listed("/groups", "groups", after);
export const deployment = () => ask("GET", "/deployment");
export const group = (chosen) => ask("GET", `/groups/${named(chosen)}`);

export const configuration = () => ask("GET", "/configuration");

/** `by` is "key" or "slot". */
export const explain = (chosen, by, value) => ask("GET", below(chosen, "/explain"), { query: [[by, value]] });
/** Slots that wait, oldest first. */
export const stuck = (chosen, limit) => ask("GET", below(chosen, "/stuck"), { query: [["limit", limit]] });
/** The first `limit` parked slots of a subscription, or messages of one. */
export const parked = (chosen, limit) => ask("GET", below(chosen, "/parked"), { query: [["limit", limit]] });
export const parkedMessages = (chosen, slot, limit) =>
  ask("GET", below(chosen, "/parked/messages"), { query: [["slot", slot], ["limit", limit]] });
export const previewJoin = (chosen, name, sticky_ranges) =>
  ask("POST", below(chosen, "/preview/join"), { body: { worker: name, sticky_ranges } });
export const previewLeave = (chosen, name) => ask("GET", below(chosen, "/preview/leave"), { query: [["worker", name]] });

export const pause = (chosen) => ask("POST", below(chosen, "/pause"));
export const resume = (chosen) => ask("POST", below(chosen, "/resume"));
export const drain = (chosen, name) => ask("POST", worker(chosen, name, "/drain"));
export const endDrain = (chosen, name) => ask("DELETE", worker(chosen, name, "/drain"));
export const exclude = (chosen, name) => ask("POST", worker(chosen, name, "/exclude"));
export const readmit = (chosen, name) => ask("DELETE", worker(chosen, name, "/exclude"));
/** `order` is "redrive" or "drop". */
export const takeOut = (chosen, slot, order) => ask("POST", below(chosen, `/parked/${order}`), { query: [["slot", slot]] });
export const evict = (chosen, name) => ask("POST", worker(chosen, name, "/evict"));
