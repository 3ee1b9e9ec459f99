// The list of a view: rows with a filter, and more rows on request.

import { byId, el, setText, show } from "./dom.js";
import { counted, topicParts, whole } from "./format.js";
import { Rows } from "./rows.js";

export class ListedTable {
  #model;
  #parts;
  #rows;
  #filter;

  /**
   * `parts`: `id` is the id of the table and the prefix of other ids; `name` and `columns` as in `Rows`; `keyOf(item)`;
   * `noun` for one item; `none(list)` is the text of an empty list. `totalOf(list)` is the total number of items, null
   * if unknown. `more()` is called when more items are wanted.
   */
  constructor(model, parts) {
    this.#model = model;
    this.#parts = parts;
    this.#rows = new Rows(byId(parts.id), parts.name, parts.columns);
    this.#filter = byId(`${parts.id}-filter`);
    this.#filter.addEventListener("input", () => this.#show());
    byId(`${parts.id}-more`).addEventListener("click", () => {
      model.pages += 1;
      parts.more();
    });
    model.on("list", () => this.#show());
  }

  /** Focuses the row of the item that was open. Returns whether there is one. */
  focus(key) {
    const row = this.#rows.row(key);
    row?.querySelector("a").focus();
    return row !== null;
  }

  #show() {
    const { list } = this.#model;
    if (list === null) return;
    const { id, keyOf } = this.#parts;
    const wanted = this.#filter.value.trim().toLowerCase();
    const found = list.items.filter((item) => `${item.topic}\n${item.subscription ?? ""}`.toLowerCase().includes(wanted));
    this.#rows.show(found.map((item) => ({ ...item, key: keyOf(item) })));
    byId(id).hidden = found.length === 0;
    byId(`${id}-pager`).hidden = !list.more;
    setText(byId(`${id}-count`), this.#count(list, found.length));
    const covered = list.more && wanted ? "The filter covers the rows shown so far." : "";
    const none = list.items.length === 0 ? this.#parts.none(list) : `No match. ${covered}`;
    show(byId(`${id}-note`), found.length === 0 ? none : covered);
  }

  #count(list, found) {
    const { noun, totalOf } = this.#parts;
    const total = totalOf(list);
    if (total === null) return `${whole(found)} of more than ${counted(list.items.length, noun)}`;
    return found === total ? counted(total, noun) : `${whole(found)} of ${counted(total, noun)}`;
  }
}

/** A cell with a link to a topic's page, and the topic's namespace. */
export function topicLink(address, topic) {
  const { domain, tenant, namespace, name } = topicParts(topic);
  const place = `${domain === "persistent" ? "" : "non-persistent · "}${tenant}/${namespace}`;
  return [el("a", { href: address, title: topic }, el("bdi", { class: "name" }, name)), el("bdi", { class: "muted place" }, place)];
}
