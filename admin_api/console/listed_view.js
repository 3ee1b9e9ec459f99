// A view with a list and a page for each item: reads, follows and shows the item in the address while the view is
// visible. The open item has a stream of events; the list is read periodically.

import { EventStream } from "./stream.js";
import { Feed } from "./feed.js";
import { ListedReader } from "./listed_reader.js";
import { Refused } from "./api.js";
import { byId } from "./dom.js";

export class ListedView {
  #page;
  #model;
  #parts;
  #shown = false;
  #begun = false;
  #feed;
  #reader;
  #stream;
  /** The reason why there is no stream; the page then reads periodically. */
  #streamless = "";

  /**
   * `page` gets the state of the connection, which all views share. `parts`: `name` and `one` are the id prefixes of the
   * view and of an item's page; `source` is the reader's; `title` and `titleOf(chosen)` are the page's titles;
   * `wanted(event)` selects events; `focus(chosen)` focuses that item's row in the list, and returns whether it has one.
   */
  constructor(page, model, parts) {
    this.#page = page;
    this.#model = model;
    this.#parts = { wanted: () => true, ...parts };
    this.#feed = new Feed(model, `${parts.one}-feed`);
    this.#reader = new ListedReader(model, parts.source, {
      read: () => this.#reached(),
      refused: (sentence) => page.refused(sentence),
      failed: (error) => this.#failed(error),
    });
    this.#stream = new EventStream({
      opened: () => this.#opened(),
      happened: (event) => this.#happened(event),
      missed: () => this.#missed(),
      broken: (error) => this.#broken(error),
    });
  }

  /** {topic, subscription} of one, or null for all. */
  show(chosen) {
    const before = this.#model.chosen;
    if (this.#shown && chosen?.topic === before?.topic && chosen?.subscription === before?.subscription) return;
    const moved = this.#shown || this.#begun;
    this.#shown = true;
    this.#streamless = "";
    byId(`${this.#parts.name}-list`).hidden = chosen !== null;
    byId(`${this.#parts.name}-detail`).hidden = chosen === null;
    this.#model.choose(chosen);
    document.title = `${chosen === null ? this.#parts.title : this.#parts.titleOf(chosen)} – Keyline`;
    if (moved) this.#focus(chosen, before);
    if (chosen === null) this.#stream.stop();
    else this.#stream.follow(chosen);
    this.#stream.wake();
    this.#reader.start();
  }

  hide() {
    this.#shown = false;
    this.#stream.stop();
    this.#reader.stop();
    this.#page.refused("");
  }

  /** The page is loaded: later visits come from user actions, and the focus follows. */
  begun() {
    this.#begun = true;
  }

  /** See `EventStream`. */
  sleep() {
    this.#stream.sleep();
  }

  wake() {
    this.#stream.wake();
  }

  age() {
    return this.#model.age();
  }

  /** The page shows another item than the chosen one: read at once. */
  read() {
    this.#reader.now();
  }

  /** The focused element is hidden now; without a new focus, a screen reader would start at the top. */
  #focus(chosen, before) {
    const { name, one, focus } = this.#parts;
    if (chosen !== null) byId(`${one}-title`).focus();
    else if (before === null || !focus(before)) byId(`${name}-title`).focus();
  }

  // ---- events of the gateway

  #opened() {
    this.#streamless = "";
    this.#reached();
    this.#reader.now();
  }

  #happened(event) {
    if (!this.#parts.wanted(event)) return;
    this.#feed.add(event);
    this.#reader.soon();
  }

  #missed() {
    this.#feed.note("events were missed; the page is reloaded");
    this.#reader.now();
  }

  #broken(error) {
    if (error instanceof Refused) {
      this.#streamless = `No live events: ${error.message}.`;
      this.#reader.now();
    } else {
      this.#lost(error.name === "TypeError" ? "no connection" : "the stream of events broke");
    }
  }

  #failed(error) {
    this.#lost(error.message);
    this.#stream.distrust();
  }

  #reached() {
    this.#feed.found();
    this.#page.connected("live", this.#streamless);
    this.#page.refused("");
  }

  #lost(problem) {
    this.#feed.lost();
    this.#page.connected("broken", problem);
  }
}
