// What is known of things that are listed, and looked at one by one: one place, changed by `listed_reader.js`, read by
// a view. Answers tell the gateway's clock: `now` of each item in the list, and of `summary` of the one.

import { Telling } from "./telling.js";

export class ListedModel extends Telling {
  /** {topic, subscription} of the one that is looked at; null for the list. */
  chosen = null;
  /** The list's last answer, with `items` of all pages that were asked for, and `more`; null before it was read. */
  list = null;
  /** The answer about the one that is chosen; null before it was read, and while there is none. */
  one = null;
  /** There is none now, as far as the gateway knows. */
  absent = false;
  /** So many pages of the list were asked for. */
  pages = 1;
  /** One more with each choice: an answer to an earlier one is not taken. */
  choices = 0;
  #now = 0;
  #readAt = 0;

  choose(chosen) {
    this.chosen = chosen;
    this.one = null;
    this.absent = false;
    this.choices += 1;
    this.tell("chosen");
  }

  tookList(list) {
    this.list = list;
    this.#clock(list.items[0]?.now);
    this.tell("list");
  }

  /** Gives whether it could be shown; if not, another is to be read at once. */
  tookOne(one) {
    this.one = one;
    this.absent = false;
    this.#clock(one.summary.now);
    this.tell("one");
    return true;
  }

  /** What was is shown no longer. */
  lost() {
    this.one = null;
    this.absent = true;
    this.#clock();
    this.tell("one");
  }

  /** What there is to know of the one was read, or is not to be had. */
  get settled() {
    return this.one !== null || this.absent;
  }

  /** The gateway's clock now, as far as it was read; 0 if it was not. */
  now() {
    return this.#now === 0 ? 0 : this.#now + performance.now() / 1000;
  }

  /** Seconds since what is looked at was read; null if it was not. */
  age() {
    const known = this.chosen === null ? this.list !== null : this.settled;
    return known ? (performance.now() - this.#readAt) / 1000 : null;
  }

  /** The difference of both clocks is kept: events have their times of day also when there is nothing else any more. */
  #clock(now = null) {
    this.#readAt = performance.now();
    if (now !== null) this.#now = now - this.#readAt / 1000;
  }
}
