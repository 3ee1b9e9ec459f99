// The state of a view with a list and a page for each item: changed by `listed_reader.js`, read by a view. Answers
// have the gateway's clock: `now` of each item in the list, and of the open item's `summary`.

import { Telling } from "./telling.js";

export class ListedModel extends Telling {
  /** {topic, subscription} of the open item; null for the list. */
  chosen = null;
  /** The list's last answer, with `items` of all pages that were asked for, and `more`; null before it was read. */
  list = null;
  /** The answer about the chosen item; null before it was read, and while there is none. */
  one = null;
  /** The gateway knows no such item now. */
  absent = false;
  /** Number of requested pages of the list. */
  pages = 1;
  /** Grows with each choice: an answer to an earlier one is ignored. */
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

  /** Returns whether it could be shown; if not, read again at once. */
  tookOne(one) {
    this.one = one;
    this.absent = false;
    this.#clock(one.summary.now);
    this.tell("one");
    return true;
  }

  /** Clears what was shown. */
  lost() {
    this.one = null;
    this.absent = true;
    this.#clock();
    this.tell("one");
  }

  /** The chosen item was read, or does not exist. */
  get settled() {
    return this.one !== null || this.absent;
  }

  /** The gateway's clock now; 0 before the first reading. */
  now() {
    return this.#now === 0 ? 0 : this.#now + performance.now() / 1000;
  }

  /** Seconds since the open item was read; null before that. */
  age() {
    const known = this.chosen === null ? this.list !== null : this.settled;
    return known ? (performance.now() - this.#readAt) / 1000 : null;
  }

  /** The clock difference is kept: events keep their times of day when no item is left. */
  #clock(now = null) {
    this.#readAt = performance.now();
    if (now !== null) this.#now = now - this.#readAt / 1000;
  }
}
