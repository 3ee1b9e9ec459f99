// The list of a view as one of its tables sees it: empty while it has items of another kind.

export class ListOf {
  #model;
  #wanted;

  /** `wanted(mode)` says whether the items of a list in this mode are the table's. */
  constructor(model, wanted) {
    this.#model = model;
    this.#wanted = wanted;
  }

  get list() {
    const { list } = this.#model;
    return list === null || this.#wanted(list.mode) ? list : { ...list, items: [], more: false };
  }

  get pages() {
    return this.#model.pages;
  }

  set pages(pages) {
    this.#model.pages = pages;
  }

  on(what, told) {
    this.#model.on(what, told);
  }
}
