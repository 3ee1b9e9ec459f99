// Numbers, ages and names as people read them. `dom.js` keeps a number and its unit on one line.

const WHOLE = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });
const FINE = new Intl.NumberFormat("en-US", { minimumFractionDigits: 2, maximumFractionDigits: 2 });
const TENTH = new Intl.NumberFormat("en-US", { minimumFractionDigits: 1, maximumFractionDigits: 1 });

export const NONE = "–";

export const whole = (value) => WHOLE.format(value);

/** "1 worker", "3 workers". */
export const counted = (count, one, many = `${one}s`) => `${whole(count)} ${count === 1 ? one : many}`;

/** A share of 1 as percent; what is little is told with two digits, for 300 workers have 0.33 % each. */
export function percent(share) {
  const value = share * 100;
  return `${value !== 0 && Math.abs(value) < 1 ? FINE.format(value) : TENTH.format(value)} %`;
}

/** Seconds, short: 0.3 s, 12 s, 4 min 10 s, 3 h 2 min, 5 d. */
export function duration(seconds) {
  if (seconds < 0.001) return "0 s";
  if (seconds < 0.1) return `${WHOLE.format(seconds * 1000)} ms`;
  if (seconds < 10) return `${TENTH.format(seconds)} s`;
  if (seconds < 60) return `${WHOLE.format(Math.floor(seconds))} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${Math.floor(seconds % 60)} s`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`;
  return `${Math.floor(seconds / 86400)} d`;
}

/** For tables: whole seconds, so that cells do not flicker. */
export function lasted(seconds) {
  const rounded = Math.max(0, Math.floor(seconds));
  return rounded < 10 ? `${rounded} s` : duration(rounded);
}

/** Since a moment, likewise. */
export function ago(seconds) {
  return seconds < 1 ? "now" : `${lasted(seconds)} ago`;
}

/** Messages per second; null if two readings are not there yet. */
export function rate(value) {
  if (value === null || value === undefined) return NONE;
  if (value > 0 && value < 10) return TENTH.format(value);
  return WHOLE.format(value);
}

export function bytes(count) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let place = 0;
  let value = count;
  while (value >= 1024 && place < units.length - 1) {
    value /= 1024;
    place += 1;
  }
  return place === 0 ? `${count} B` : `${(value < 100 ? TENTH : WHOLE).format(value)} ${units[place]}`;
}

/** persistent://tenant/namespace/name in its parts; the local name is shown, the rest is beside it. */
export function topicParts(topic) {
  const domain = topic.startsWith("non-persistent:") ? "non-persistent" : "persistent";
  const [tenant, namespace, ...name] = topic.replace(`${domain}://`, "").split("/");
  return { domain, tenant, namespace, name: name.join("/") };
}

/** "a, b and 3 more". */
export function listed(names, most = 4) {
  const rest = names.length - most;
  return rest > 0 ? `${names.slice(0, most).join(", ")} and ${rest} more` : names.join(", ");
}

export const clockTime = (date) => date.toLocaleTimeString([], { hour12: false });
