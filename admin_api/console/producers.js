// The view of exclusive producers (PIP-440), put together.

import * as api from "./api.js";
import { ListedView } from "./listed_view.js";
import { ProducersDetail } from "./producers_detail.js";
import { ProducersModel } from "./producers_model.js";
import { producersTable } from "./producers_list.js";
import { topicParts } from "./format.js";

export class Producers extends ListedView {
  constructor(page) {
    const model = new ProducersModel();
    const list = producersTable(model, () => this.read());
    super(page, model, {
      name: "producers",
      one: "election",
      title: "Producers",
      titleOf: ({ topic }) => `${topicParts(topic).name}, producers`,
      source: { page: api.elections, one: ({ topic }) => api.election(topic, model.first) },
      focus: ({ topic }) => list.focus(topic),
    });
    new ProducersDetail(model, () => this.read());
  }

  /** The item in the address: a topic, or all of them. Its events have no subscription. */
  chosenBy(told) {
    return told.get("producers") === "" ? null : { topic: told.get("producers"), subscription: "" };
  }
}
