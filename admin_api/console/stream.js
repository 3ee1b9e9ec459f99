// The stream of events, with reconnects.
//
// `fetch` and not `EventSource`: only so can the first request ask for the events that the gateway has kept
// (`Last-Event-ID: 0`), which fills the feed at once; are the gateway's signs of life seen, so that a connection that
// is dead without being closed is noticed; and is the reason readable when the stream is refused.

import { Refused, checkKnown } from "./api.js";

const RETRY_MS = 2_000;
/** The gateway gives a sign of life every 15 s. */
const SILENCE_MS = 40_000;

export class EventStream {
  #handlers;
  #ending = new AbortController();
  #connection = new AbortController();
  #awake = Promise.resolve();
  #wake = null;

  /** `handlers`: opened(), happened(event), missed(), broken(error), each called for the last `follow` only. */
  constructor(handlers) {
    this.#handlers = handlers;
  }

  /** Follow a subscription from the oldest event that is kept, until `stop` or another `follow`. */
  follow(chosen) {
    this.stop();
    this.#ending = new AbortController();
    this.#run(chosen, this.#ending.signal);
  }

  stop() {
    this.#ending.abort();
    this.#connection.abort();
  }

  /** Another part of the page found the gateway unreachable: reconnect. */
  distrust() {
    this.#connection.abort();
  }

  /** Close the connection for now: browsers allow six per host, and hidden tabs would use them up. */
  sleep() {
    if (this.#wake !== null) return;
    this.#awake = new Promise((wake) => (this.#wake = wake));
    this.#connection.abort();
  }

  /** Go on after the last event that was seen. */
  wake() {
    this.#wake?.();
    this.#wake = null;
  }

  async #run(chosen, ending) {
    const place = { number: 0, first: true };
    while (!ending.aborted) {
      await this.#awake;
      let problem = new Error("the gateway ended the stream");
      try {
        await this.#listen(chosen, place, ending);
      } catch (error) {
        problem = error;
      }
      if (ending.aborted) return;
      if (this.#wake !== null) continue;
      this.#handlers.broken(problem);
      await new Promise((resume) => setTimeout(resume, RETRY_MS));
    }
  }

  async #listen(chosen, place, ending) {
    const connection = (this.#connection = new AbortController());
    const silence = { timer: 0 };
    const alive = () => {
      clearTimeout(silence.timer);
      silence.timer = setTimeout(() => connection.abort(), SILENCE_MS);
    };
    alive();
    try {
      const answer = await fetch(this.#url(chosen), {
        headers: { accept: "text/event-stream", "last-event-id": String(place.number) },
        cache: "no-store", credentials: "same-origin", signal: connection.signal,
      });
      checkKnown(answer.status);
      if (!answer.ok) throw new Refused(answer.status, (await answer.json()).detail);
      if (ending.aborted) return;
      this.#handlers.opened();
      for await (const block of blocks(answer.body)) {
        if (ending.aborted) return;
        alive();
        this.#take(block, place);
      }
    } finally {
      clearTimeout(silence.timer);
      connection.abort();
    }
  }

  #url(chosen) {
    const url = new URL("api/v1/events", document.baseURI);
    url.hash = "";
    url.search = new URLSearchParams({ topic: chosen.topic, subscription: chosen.subscription }).toString();
    return url;
  }

  #take(block, place) {
    if (block.event === "missed") {
      // Events lost before the first reading are not kept anywhere, and need no reload.
      if (!place.first) this.#handlers.missed();
    } else if (block.data !== undefined) {
      const event = JSON.parse(block.data);
      place.number = event.number;
      this.#handlers.happened(event);
    } else {
      return;
    }
    place.first = false;
  }
}

/** Fields of each block; one that is a comment only has none. */
async function* blocks(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const pieces = (text + value).split("\n\n");
    text = pieces.pop();
    for (const piece of pieces) yield fields(piece);
  }
}

function fields(piece) {
  const found = {};
  for (const line of piece.split("\n")) {
    const at = line.indexOf(": ");
    if (at > 0) found[line.slice(0, at)] = line.slice(at + 2);
  }
  return found;
}
