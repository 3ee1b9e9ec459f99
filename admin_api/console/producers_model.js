// The state of the view of exclusive producers (PIP-440), with one page of a topic's queue.

import { ListedModel } from "./listed_model.js";

export class ProducersModel extends ListedModel {
  /** Number of waiting producers before the first one shown. */
  first = 0;

  choose(chosen) {
    this.first = 0;
    super.choose(chosen);
  }

  turn(first) {
    this.first = first;
    this.choices += 1;
  }

  tookOne(election) {
    if (this.first === 0 || election.waiting.length > 0) return super.tookOne(election);
    // The queue became too short for this page; the first page always exists.
    this.turn(0);
    return false;
  }

  lost() {
    this.first = 0;
    super.lost();
  }
}
