// The view of groups of replicas (EIP-0028), put together.

import * as api from "./api.js";
import { GroupsDetail } from "./groups_detail.js";
import { ListedModel } from "./listed_model.js";
import { ListedView } from "./listed_view.js";
import { groupKey, groupsTable } from "./groups_list.js";
import { topicParts } from "./format.js";

/** Drains of keys do not change the owners of streams, and are frequent. */
const OTHERS = new Set(["drains_began", "drains_ended"]);

class GroupsModel extends ListedModel {
  /** Whether groups are enabled at this gateway, according to the last reading. */
  enabled = true;
}

export class Groups extends ListedView {
  constructor(page) {
    const model = new GroupsModel();
    const list = groupsTable(model, () => this.read());
    super(page, model, {
      name: "groups",
      one: "group",
      title: "Groups",
      titleOf: ({ topic, subscription }) => `${topicParts(topic).name} / ${subscription}, group`,
      source: { page: api.groups, one: (chosen) => oneGroup(model, chosen) },
      wanted: ({ kind }) => !OTHERS.has(kind),
      focus: (chosen) => list.focus(groupKey(chosen)),
    });
    new GroupsDetail(model);
  }

  /** The item in the address: a topic's subscription, or all of them. */
  chosenBy(told) {
    const [topic, subscription] = [told.get("groups"), told.get("subscription")];
    return topic === "" || subscription === null ? null : { topic, subscription };
  }
}

/** A replica that is not in the group gives the reason only in its list. */
async function oneGroup(model, chosen) {
  try {
    return await api.group(chosen);
  } catch (error) {
    if (error.status === 404) model.enabled = (await api.groups(null)).replica !== null;
    throw error;
  }
}
