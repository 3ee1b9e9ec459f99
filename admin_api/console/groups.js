// The view of replicas that share subscriptions, put together: by owners, or by streams (EIP-0028).

import * as api from "./api.js";
import { GroupsDetail } from "./groups_detail.js";
import { ListedModel } from "./listed_model.js";
import { ListedView } from "./listed_view.js";
import { groupKey, groupsTable } from "./groups_list.js";
import { ownersTables } from "./owners_list.js";
import { topicParts } from "./format.js";

/** Drains of keys do not change the owners of streams, and are frequent. */
const OTHERS = new Set(["drains_began", "drains_ended"]);

class GroupsModel extends ListedModel {
  /** How this gateway shares, according to the last reading: "owner", "streams" or null. */
  mode = "streams";
}

export class Groups extends ListedView {
  constructor(page) {
    const model = new GroupsModel();
    const more = () => this.read();
    const list = groupsTable(model, more);
    super(page, model, {
      name: "groups",
      one: "group",
      title: "Groups",
      titleOf: ({ topic, subscription }) => `${topicParts(topic).name} / ${subscription}, group`,
      source: { page: (after) => shared(model, after), one: (chosen) => oneGroup(model, chosen) },
      wanted: ({ kind }) => !OTHERS.has(kind),
      focus: (chosen) => list.focus(groupKey(chosen)),
    });
    ownersTables(model, more);
    new GroupsDetail(model);
  }

  /** The item in the address: a topic's subscription, or all of them. */
  chosenBy(told) {
    const [topic, subscription] = [told.get("groups"), told.get("subscription")];
    return topic === "" || subscription === null ? null : { topic, subscription };
  }
}

/** A page of groups, or in owner mode of all subscriptions, with all replicas. */
async function shared(model, after) {
  const groups = await api.groups(after);
  model.mode = groups.mode;
  if (groups.mode !== "owner") return groups;
  const [deployment, page] = await Promise.all([api.deployment(), api.subscriptions(after)]);
  return { ...page, mode: groups.mode, items: page.subscriptions, deployment };
}

/** A replica that is not in the group gives the reason only in its list. */
async function oneGroup(model, chosen) {
  try {
    return await api.group(chosen);
  } catch (error) {
    if (error.status === 404) model.mode = (await api.groups(null)).mode;
    throw error;
  }
}
