// What is known of exclusive producers (PIP-440). Of a topic's queue a part is looked at.

import { ListedModel } from "./listed_model.js";

export class ProducersModel extends ListedModel {
  /** So many of those that wait are before the first that is shown. */
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
    // The queue got so short that this page of it is gone; the first one never is.
    this.turn(0);
    return false;
  }

  lost() {
    this.first = 0;
    super.lost();
  }
}
