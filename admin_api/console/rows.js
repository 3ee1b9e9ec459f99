// A table whose rows belong to items and are updated in place: focus, selections and a screen reader's place stay.
//
// Roles are set although the elements have them: small screens show rows as cards, and elements that are laid out as
// something else are no table to a screen reader any more.

import { arrange, el } from "./dom.js";

export class Rows {
  #columns;
  #body = el("tbody", { role: "rowgroup" });
  #rows = new Map();

  /**
   * `columns`: {head, fill(cell, item)}, with `make(item)` what a cell begins with, `heads` if its cell is the row's
   * head, `number`, `title`. `name` is the table's accessible one.
   */
  constructor(table, name, columns) {
    this.#columns = columns;
    const heads = columns.map(({ head, number, title }) =>
      el("th", { scope: "col", role: "columnheader", class: number && "number", title }, head),
    );
    table.setAttribute("role", "table");
    table.append(
      el("caption", { class: "unseen" }, name),
      el("thead", { role: "rowgroup" }, el("tr", { role: "row" }, ...heads)),
      this.#body,
    );
  }

  /** Items in their order, each with a `key`. */
  show(items) {
    const here = new Set(items.map((item) => item.key));
    for (const key of this.#rows.keys()) if (!here.has(key)) this.#rows.delete(key);
    const rows = items.map((item) => {
      const row = this.#rows.get(item.key) ?? this.#make(item);
      this.#columns.forEach((column, number) => column.fill(row.children[number], item));
      return row;
    });
    arrange(this.#body, rows);
  }

  row(key) {
    return this.#rows.get(key) ?? null;
  }

  #make(item) {
    const cells = this.#columns.map(({ head, heads, number, make }) =>
      el(heads ? "th" : "td", {
        role: heads ? "rowheader" : "cell", scope: heads && "row", class: number && "number", "data-label": head,
      }, ...(make?.(item) ?? [])),
    );
    const row = el("tr", { role: "row" }, ...cells);
    this.#rows.set(item.key, row);
    return row;
  }
}
