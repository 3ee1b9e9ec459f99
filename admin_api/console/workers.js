// The table of workers: sorted, filtered, fifty to a page, written in place.
// Rows belong to workers and not to places, and they do not move while the mouse or the focus is in the table: with
// rates changing every two seconds, "Evict" would otherwise jump to another worker before it is pressed.

import { Pager } from "./pager.js";
import { arrange, byId, el, named, setAttribute, setText } from "./dom.js";
import { NONE, ago, counted, lasted, percent, rate, whole } from "./format.js";
import { themeNow } from "./colours.js";

const PAGE = 50;
const BY_NAME = new Intl.Collator("en", { numeric: true });

/** Of each column: its key to sort by, its head, whether it begins with the largest. */
const COLUMNS = [
  { id: "name", head: "Worker", of: (worker) => worker.name },
  { id: "state", head: "State", of: (worker) => `${worker.state.rank} ${worker.state.text}` },
  { id: "share", head: "Share", of: (worker) => worker.hash_space_share, number: true, title: "Share of the hash space" },
  { id: "permits", head: "Permits", of: (worker) => worker.available_permits, number: true, title: "Messages it has asked for and not got" },
  { id: "pending", head: "Pending", of: (worker) => worker.pending_acks, number: true, title: "Deliveries not completely acknowledged" },
  { id: "unacked", head: "Unacked", of: (worker) => worker.unacked_messages, number: true, title: "Messages not acknowledged" },
  { id: "oldest", head: "Oldest", of: (worker) => worker.health.oldest_unacked_s ?? -1, number: true, title: "Age of the delivery that it has held longest" },
  { id: "waiting", head: "Wait for it", of: (worker) => worker.health.waiting_for_it, number: true, title: "Messages that go on only if it acknowledges, asks for more or reads" },
  { id: "rate", head: "Acked/s", of: (worker) => worker.acked_rate ?? -1, number: true, title: "Messages acknowledged per second" },
  { id: "sent", head: "Sent/s", of: (worker) => worker.sent_rate ?? -1, number: true, title: "Messages sent to it per second" },
  { id: "acked", head: "Last ack", of: (worker) => worker.last_acked_at, number: true },
  { id: "position", head: "Joined at", of: (worker) => worker.last_sent_position_when_joining ?? "", title: "lastSentPositionWhenJoining (PIP-282)" },
  { id: "draining", head: "Draining", of: (worker) => worker.draining_hashes_count, number: true, title: "Slots that moved away while it still holds their messages" },
];

export class WorkersTable {
  #model;
  #colours;
  #dialogs;
  #table = byId("workers");
  #body = el("tbody", { role: "rowgroup" });
  #heads = new Map();
  #rows = new Map();
  #order = [];
  #page = 0;
  #pager = new Pager("workers", (page) => this.#turnTo(page));
  #largest = 1;
  /** Those in trouble first. */
  #sort = { column: COLUMNS[1], down: false };

  constructor(model, colours, dialogs) {
    this.#model = model;
    this.#colours = colours;
    this.#dialogs = dialogs;
    this.#build();
    for (const what of ["subscription", "orders", "picked"]) model.on(what, () => this.show());
    model.on("connection", () => this.show());
    model.on("chosen", () => this.#arrange());
    document.addEventListener("themechange", () => this.show());
  }

  // ---- built once

  #build() {
    const heads = COLUMNS.map((column) => {
      const button = el("button", { type: "button", title: column.title, onclick: () => this.#sortBy(column) }, column.head);
      const head = el("th", { scope: "col", role: "columnheader", class: column.number ? "number" : undefined }, button);
      this.#heads.set(column.id, head);
      return head;
    });
    const last = el("th", { scope: "col", role: "columnheader" }, el("span", { class: "unseen" }, "Actions"));
    this.#table.setAttribute("role", "table");
    this.#table.setAttribute("aria-labelledby", "workers-title");
    this.#table.append(el("thead", { role: "rowgroup" }, el("tr", { role: "row" }, ...heads, last)), this.#body);
    const select = byId("workers-sort");
    select.append(...COLUMNS.map((column) => el("option", { value: column.id }, column.head)));
    select.value = this.#sort.column.id;
    select.addEventListener("change", () => this.#sortBy(COLUMNS.find((column) => column.id === select.value)));
    byId("workers-filter").addEventListener("input", () => this.#turnTo(0));
  }

  #sortBy(column) {
    const down = this.#sort.column === column ? !this.#sort.down : Boolean(column.number);
    this.#sort = { column, down };
    byId("workers-sort").value = column.id;
    this.#turnTo(0);
  }

  #turnTo(page) {
    this.#page = page;
    this.#arrange();
    this.show();
  }

  // ---- which, and in which order

  #matching() {
    const wanted = byId("workers-filter").value.trim().toLowerCase();
    if (!wanted) return this.#model.workers;
    return this.#model.workers.filter((worker) =>
      `${worker.name}\n${worker.address}\n${worker.state.text}`.toLowerCase().includes(wanted),
    );
  }

  #sorted(workers) {
    const { column, down } = this.#sort;
    const compare = (one, other) => {
      const [a, b] = [column.of(one), column.of(other)];
      const order = typeof a === "number" ? a - b : BY_NAME.compare(a, b);
      return (down ? -order : order) || BY_NAME.compare(one.name, other.name);
    };
    return [...workers].sort(compare).map((worker) => worker.key);
  }

  #arrange() {
    this.#order = this.#sorted(this.#matching());
  }

  /** The mouse or the focus is in it. */
  #held() {
    return this.#body.matches(":hover") || this.#body.contains(document.activeElement);
  }

  #keepOrder() {
    const here = new Set(this.#matching().map((worker) => worker.key));
    const kept = this.#order.filter((key) => here.has(key));
    for (const key of kept) here.delete(key);
    this.#order = [...kept, ...here];
  }

  // ---- shown

  show() {
    if (this.#held()) this.#keepOrder();
    else this.#arrange();
    const pages = Math.max(1, Math.ceil(this.#order.length / PAGE));
    this.#page = Math.min(Math.max(0, this.#page), pages - 1);
    this.#largest = Math.max(1e-9, ...this.#model.workers.map((worker) => worker.hash_space_share));
    const workers = new Map(this.#model.workers.map((worker) => [worker.key, worker]));
    this.#showRows(this.#order.slice(this.#page * PAGE, (this.#page + 1) * PAGE).map((key) => workers.get(key)));
    this.#showHeads();
    this.#showCounts(pages);
  }

  #showRows(workers) {
    const here = new Set(workers.map((worker) => worker.key));
    for (const key of this.#rows.keys()) if (!here.has(key)) this.#rows.delete(key);
    const rows = workers.map((worker) => {
      const row = this.#rows.get(worker.key) ?? this.#makeRow(worker);
      this.#fill(row, worker);
      return row.element;
    });
    arrange(this.#body, rows);
  }

  #showHeads() {
    for (const [id, head] of this.#heads) {
      const order = this.#sort.down ? "descending" : "ascending";
      setAttribute(head, "aria-sort", id === this.#sort.column.id ? order : null);
    }
  }

  #showCounts(pages) {
    const all = this.#model.workers.length;
    const found = this.#order.length;
    setText(byId("workers-count"), found === all ? counted(all, "worker") : `${whole(found)} of ${counted(all, "worker")}`);
    const [before, next] = [this.#page - 1, this.#page + 1];
    this.#pager.show(`Page ${next} of ${pages}`, before < 0 ? null : before, next < pages ? next : null);
  }

  // ---- a row

  #makeRow(worker) {
    const cells = new Map(COLUMNS.map((column) => [column.id, this.#makeCell(column)]));
    const swatch = el("i", { class: "swatch" });
    const pick = el("button", { type: "button", class: "pick", title: "Show on the ring", onclick: () => this.#model.pick(worker.key) }, swatch, named(worker.name));
    const address = el("span", { class: "address muted" });
    cells.get("name").append(pick, address);
    const badge = el("span", { class: "badge" });
    cells.get("state").append(badge);
    const bar = el("i", { class: "bar", "aria-hidden": "true" });
    const share = el("span", {});
    cells.get("share").append(bar, share);
    const held = el("span", {});
    const lease = el("small", { class: "lease muted" });
    cells.get("oldest").append(held, lease);
    const actions = this.#makeActions(worker);
    const element = el("tr", { role: "row" }, ...cells.values(), el("td", { role: "cell", class: "row-actions" }, ...Object.values(actions)));
    const row = { element, cells, swatch, pick, address, badge, bar, share, held, lease, ...actions };
    this.#rows.set(worker.key, row);
    return row;
  }

  #makeCell(column) {
    const role = column.id === "name" ? "rowheader" : "cell";
    const tag = column.id === "name" ? "th" : "td";
    const scope = column.id === "name" ? "row" : undefined;
    return el(tag, { role, scope, "data-label": column.head, class: column.number ? "number" : column.id });
  }

  #makeActions(worker) {
    const button = (text, act, more = {}) =>
      el("button", { type: "button", "aria-label": `${text.replace("…", "")} ${worker.name}`, onclick: act, ...more }, text);
    const now = () => this.#model.workers.find((item) => item.key === worker.key) ?? worker;
    return {
      preview: button("Preview", () => this.#dialogs.previewLeave(now()), { "aria-label": `Preview that ${worker.name} leaves`, title: "What would move if it left" }),
      drain: button("Drain…", () => (now().drained_by_operator ? this.#dialogs.endDrain(now()) : this.#dialogs.drain(now())), { "data-order": "" }),
      evict: button("Evict…", () => this.#dialogs.evict(now()), { "data-order": "" }),
      exclude: button("Exclude…", () => this.#dialogs.exclude(now()), { "data-order": "" }),
    };
  }

  #fill(row, worker) {
    row.swatch.style.backgroundColor = this.#colours.css(worker.key, themeNow());
    setAttribute(row.pick, "aria-pressed", String(worker.key === this.#model.picked));
    setAttribute(row.element, "data-picked", worker.key === this.#model.picked ? "" : null);
    setText(row.address, worker.address);
    setText(row.badge, worker.state.text);
    setAttribute(row.badge, "data-tone", worker.state.tone);
    setAttribute(row.badge, "title", worker.health.says);
    // Relative to the largest share, which shows workers with more than others.
    row.bar.style.setProperty("--part", worker.hash_space_share / this.#largest);
    setText(row.share, percent(worker.hash_space_share));
    this.#fillNumbers(row.cells, worker);
    this.#fillOldest(row, worker);
    setText(row.drain, worker.drained_by_operator ? "Undo drain" : "Drain…");
    setAttribute(row.drain, "aria-label", `${worker.drained_by_operator ? "Undo drain of" : "Drain"} ${worker.name}`);
    for (const button of [row.drain, row.evict, row.exclude]) this.#allow(button);
    row.preview.disabled = this.#model.connection === "broken";
  }

  #fillNumbers(cells, worker) {
    const now = this.#model.subscription.now;
    setText(cells.get("permits"), whole(worker.available_permits));
    setText(cells.get("pending"), whole(worker.pending_acks));
    setText(cells.get("unacked"), whole(worker.unacked_messages));
    setText(cells.get("waiting"), whole(worker.health.waiting_for_it));
    setAttribute(cells.get("waiting"), "data-some", worker.health.waiting_for_it > 0 ? "" : null);
    setText(cells.get("rate"), rate(worker.acked_rate));
    setText(cells.get("sent"), rate(worker.sent_rate));
    setText(cells.get("acked"), worker.last_acked_at > 0 ? ago(now - worker.last_acked_at) : NONE);
    setText(cells.get("position"), worker.last_sent_position_when_joining ?? NONE);
    setText(cells.get("draining"), whole(worker.draining_hashes_count));
    setAttribute(cells.get("draining"), "data-some", worker.draining_hashes_count > 0 ? "" : null);
  }

  /** With an ack lease: when it loses its keys. */
  #fillOldest(row, worker) {
    const { oldest_unacked_s: held } = worker.health;
    const ends = worker.ack_lease_ends_at ?? null;
    setText(row.held, held === null ? NONE : lasted(held));
    setText(row.lease, ends === null ? "" : `lease: ${lasted(ends - this.#model.subscription.now)}`);
    setAttribute(row.lease, "title", ends === null ? null : "Then it loses its keys, unless it acknowledges or asks for more time");
  }

  #allow(button) {
    button.disabled = this.#model.readOnly !== "" || this.#model.connection === "broken";
    setAttribute(button, "title", this.#model.readOnly || null);
  }
}
