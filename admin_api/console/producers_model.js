// What is known of exclusive producers (PIP-440): one place, changed by `producers_reader.js`, read by the view.

export class ProducersModel extends EventTarget {
  /** The topic that is looked at; empty for all of them. */
  topic = "";
  /** {summary, elections, more}; null before they were read. */
  list = null;
  /** {summary, waiting, next} of the topic; null before it was read, and while nobody wants the topic. */
  page = null;
  /** Nobody wants the topic now, as far as the gateway knows. */
  absent = false;
  /** So many of those that wait are before the first that is shown. */
  first = 0;
  /** So many pages of topics were asked for. */
  pages = 1;
  #now = 0;
  #readAt = 0;

  tell(what) {
    this.dispatchEvent(new Event(what));
  }

  on(what, listener) {
    this.addEventListener(what, listener);
  }

  choose(topic) {
    this.topic = topic;
    this.page = null;
    this.absent = false;
    this.first = 0;
    this.tell("chosen");
  }

  tookList(list) {
    this.list = list;
    this.#clock(list.elections[0]?.now);
    this.tell("list");
  }

  tookPage(page) {
    this.page = page;
    this.absent = false;
    this.#clock(page.summary.now);
    this.tell("election");
  }

  /** What was is shown no longer. */
  lost() {
    this.page = null;
    this.absent = true;
    this.first = 0;
    this.#clock();
    this.tell("election");
  }

  /** What there is to know of the topic was read, or is not to be had. */
  get settled() {
    return this.page !== null || this.absent;
  }

  /** The gateway's clock now, as far as it was read; 0 if it was not. */
  now() {
    return this.#now === 0 ? 0 : this.#now + performance.now() / 1000;
  }

  /** Seconds since what is looked at was read; null if it was not. */
  age() {
    const known = this.topic === "" ? this.list !== null : this.settled;
    return known ? (performance.now() - this.#readAt) / 1000 : null;
  }

  /** The difference of both clocks is kept: events have their times of day also after the last of a topic's producers. */
  #clock(now = null) {
    this.#readAt = performance.now();
    if (now !== null) this.#now = now - this.#readAt / 1000;
  }
}
