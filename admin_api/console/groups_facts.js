// Derives the streams and replicas of a group from an answer. A replica knows its own streams; the leader knows all.

/** Each with `owner`, `state` and `more` in the broker's words, `version` and `heard_s` of the session that has it. */
export function streamsOf({ summary, streams, leading }) {
  const here = new Map(streams.map((stream) => [`${stream.stream}:${stream.first_slot}`, stream]));
  const keyed = (stream) => ({ ...stream, key: `${stream.stream}:${stream.first_slot}` });
  const all = (leading?.streams ?? []).map(keyed).map((stream) => ledStream(stream, here.get(stream.key), summary, leading.sessions));
  const told = new Set(all.map((stream) => stream.key));
  // Unknown here because this replica does not lead, or from an earlier cut.
  const others = streams.map(keyed).filter(({ key }) => !told.has(key)).map((stream) => ownStream(stream, summary));
  return [...all, ...others];
}

function ownStream(here, summary) {
  return {
    ...here, owner: summary.replica, ...ownState(here, summary), more: here.upstream_error,
    version: summary.version, heard_s: null,
  };
}

function ownState({ holding, upstream_state }, { lease_left_s }) {
  if (holding === "releasing") return { state: "releasing" };
  if (holding === "held" || lease_left_s <= 0) return { state: "held" };
  return { state: upstream_state === "ready" ? "delivered" : "opening" };
}

function ledStream(stream, here, summary, sessions) {
  const session = sessions.find((each) => each.streams.includes(stream.stream) || each.streams_releasing.includes(stream.stream));
  const known = { version: session?.version ?? null, heard_s: session?.heard_s ?? null, more: here?.upstream_error ?? "" };
  // A stream that is here without an owner is kept for the next lease.
  if (here !== undefined && (session === undefined || session.replica === summary.replica)) {
    const own = { ...stream, ...here, ...known, owner: summary.replica, ...ownState(here, summary) };
    return stream.refused && own.state === "opening" ? { ...own, state: "refused" } : own;
  }
  return { ...stream, ...known, state: ledState(stream, session) };
}

function ledState({ stream, refused }, session) {
  if (session === undefined) return "unowned";
  if (session.streams_releasing.includes(stream)) return "releasing";
  if (refused) return "refused";
  return session.state === "waiting_replaying" ? "opening" : "leased";
}

/** The strip: a place for each stream of the current cut, with or without a known owner. */
export function placesOf({ summary, leading }, streams) {
  const count = leading?.streams.length ?? summary.streams_count;
  // Streams of an earlier cut come last and have no place in it.
  const known = new Map(streams.toReversed().map((stream) => [stream.stream, stream]));
  return Array.from({ length: count }, (_, stream) => known.get(stream) ?? { stream, key: null, owner: null, state: "elsewhere" });
}

/** All known replicas, this one first, each with the number of its streams, including those that it releases. */
export function replicasOf({ summary, leading }, streams) {
  const counts = new Map([[summary.replica, 0]]);
  for (const name of [...(leading?.sessions ?? []).map((session) => session.replica), ...streams.map((stream) => stream.owner)]) {
    if (name !== null && !counts.has(name)) counts.set(name, 0);
  }
  for (const { owner } of streams) if (owner !== null) counts.set(owner, counts.get(owner) + 1);
  return [...counts].map(([name, count]) => ({ name, count }));
}
