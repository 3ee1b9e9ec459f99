// The view of exclusive producers (PIP-440): what the address says is read, followed and shown while it is looked at.

import { EventStream } from "./stream.js";
import { Feed } from "./feed.js";
import { ProducersDetail } from "./producers_detail.js";
import { ProducersList } from "./producers_list.js";
import { ProducersModel } from "./producers_model.js";
import { ProducersReader } from "./producers_reader.js";
import { Refused } from "./api.js";
import { byId } from "./dom.js";
import { topicParts } from "./format.js";

export class Producers {
  #model;
  #shown = false;
  #begun = false;
  #producers = new ProducersModel();
  #feed = new Feed(this.#producers, "election-feed");
  #list = new ProducersList(this.#producers, () => this.#more());
  /** Why there is no stream; readings go on by the clock then. */
  #streamless = "";
  #reader = new ProducersReader(this.#producers, {
    read: () => this.#reached(),
    refused: (sentence) => this.#model.refused(sentence),
    failed: (error) => this.#failed(error),
  });
  #stream = new EventStream({
    opened: () => this.#opened(),
    happened: (event) => this.#happened(event),
    missed: () => this.#missed(),
    broken: (error) => this.#broken(error),
  });

  /** `model` is told whether the gateway is reached: there is one connection, whichever view is looked at. */
  constructor(model) {
    this.#model = model;
    new ProducersDetail(this.#producers, (first) => this.#turn(first));
  }

  /** A topic, or all of them if it is empty. */
  show(topic) {
    const before = this.#producers.topic;
    if (this.#shown && topic === before) return;
    const moved = this.#shown || this.#begun;
    this.#shown = true;
    this.#streamless = "";
    byId("producers-list").hidden = topic !== "";
    byId("producers-detail").hidden = topic === "";
    this.#producers.choose(topic);
    document.title = topic === "" ? "Producers – Keyline" : `${topicParts(topic).name}, producers – Keyline`;
    if (moved) this.#focus(topic, before);
    if (topic === "") this.#stream.stop();
    else this.#stream.follow({ topic, subscription: "" });
    this.#stream.wake();
    this.#reader.start();
  }

  hide() {
    this.#shown = false;
    this.#stream.stop();
    this.#reader.stop();
    this.#model.refused("");
  }

  /** The page is there: from now on who comes here pressed something, and the focus goes along. */
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
    return this.#producers.age();
  }

  // ---- what a person does

  /** What had the focus is shown no longer; a screen reader would begin at the top. */
  #focus(topic, before) {
    if (topic !== "") byId("election-title").focus();
    else if (before === "" || !this.#list.focus(before)) byId("producers-title").focus();
  }

  #more() {
    this.#producers.pages += 1;
    this.#reader.now();
  }

  #turn(first) {
    this.#producers.first = first;
    this.#reader.now();
  }

  // ---- what the gateway tells

  #opened() {
    this.#streamless = "";
    this.#reached();
    this.#reader.now();
  }

  #happened(event) {
    this.#feed.add(event);
    this.#reader.soon();
  }

  #missed() {
    this.#feed.note("events were missed; everything is read anew");
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
    if (this.#model.connection === "broken") this.#feed.note("connected again; everything is read anew");
    this.#model.connected("live", this.#streamless);
    this.#model.refused("");
  }

  #lost(problem) {
    if (this.#model.connection !== "broken") this.#feed.note("disconnected from the gateway");
    this.#model.connected("broken", problem);
  }
}
