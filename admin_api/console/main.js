// Connects the parts of the page: choices go to the model and the address, events cause readings, readings update views.

import * as api from "./api.js";
import { Banner } from "./banner.js";
import { Colours } from "./colours.js";
import { Dialogs } from "./dialogs.js";
import { EventStream } from "./stream.js";
import { Feed } from "./feed.js";
import { Groups } from "./groups.js";
import { Head } from "./head.js";
import { HotKeys } from "./hot_keys.js";
import { KeptOut } from "./kept_out.js";
import { KeySearch } from "./key_search.js";
import { Model } from "./model.js";
import { Home, showFirst } from "./home.js";
import { Parked } from "./parked.js";
import { Picker } from "./picker.js";
import { Producers } from "./producers.js";
import { Reader } from "./reader.js";
import { Refused } from "./api.js";
import { Stuck } from "./stuck.js";
import { Subscriptions } from "./subscriptions.js";
import { RingText } from "./ring_text.js";
import { RingView } from "./ring.js";
import { WorkersTable } from "./workers.js";
import { showWho } from "./who.js";
import { byId, setAttribute, setText } from "./dom.js";

/** A page that was hidden for this long closes its connection. */
const HIDDEN_MS = 60_000;
/** Events that change owners of slots. */
const MOVING = new Set(["worker_joined", "worker_left", "subscription_began", "subscription_ended"]);

const model = new Model();
const colours = new Colours();
// Must be the first listener: views that draw need the colours.
model.on("subscription", () => colours.keep(model.workers.map((worker) => worker.key)));

const reader = new Reader(model, () => stream.distrust());
const feed = new Feed(model);
const ring = new RingView(model, colours, (slot) => search.ask({ by: "slot", value: String(slot) }));
const search = new KeySearch(model, (slot) => ring.mark(slot));
new RingText(model, colours, ring);
new Head(model);
new Stuck(model);
/** Views beside that of subscriptions, by their names in the address. */
const views = { producers: new Producers(model), groups: new Groups(model) };
new Banner(model, () => (model.away ?? model).age());
new HotKeys(model, (slot) => search.ask({ by: "slot", value: String(slot) }));
const dialogs = new Dialogs(model, () => reader.now());
new WorkersTable(model, colours, dialogs);
new KeptOut(model, dialogs);
new Parked(model, dialogs);

// If this request fails, all others fail too and show the reason.
showWho().catch(() => {});

const stream = new EventStream({ opened, happened, missed, broken });

function opened() {
  feed.found();
  model.connected("live");
  reader.all();
}

function happened(event) {
  feed.add(event);
  reader.soon({ ring: MOVING.has(event.kind) });
}

function missed() {
  feed.note("events were missed; the page is reloaded");
  reader.all();
}

function broken(error) {
  if (error instanceof Refused) {
    // The gateway answers but has no stream for this page: read periodically.
    feed.found();
    model.connected("live", `No live events: ${error.message}.`);
    reader.now();
    return;
  }
  feed.lost();
  model.connected("broken", error.name === "TypeError" ? "no connection" : "the stream of events broke");
}

let hidden = 0;
document.addEventListener("visibilitychange", () => {
  clearTimeout(hidden);
  if (document.visibilityState === "visible") (model.away ?? stream).wake();
  else hidden = setTimeout(() => [stream, ...Object.values(views)].forEach((each) => each.sleep()), HIDDEN_MS);
});

// ---- views: subscriptions, producers, groups; only the visible one is read

function toView(name, told) {
  const view = views[name];
  if (model.away !== view) {
    if (model.away === null) stream.sleep();
    else model.away.hide();
    model.away = view;
    showView(name);
  }
  view.show(view.chosenBy(told));
}

function toSubscriptions() {
  if (model.away === null) return;
  model.away.hide();
  model.away = null;
  showView("subscriptions");
  stream.wake();
  if (model.chosen === null) subscriptions.read();
  byId("main").focus();
}

function showView(name) {
  setAttribute(document.body, "data-view", model.away === null ? null : name);
  for (const each of Object.keys(views)) byId(`${each}-view`).hidden = each !== name;
  for (const each of ["subscriptions", ...Object.keys(views)]) setAttribute(byId(`to-${each}`), "aria-current", each === name ? "page" : null);
  setText(byId("skip"), `Skip to the ${model.away === null ? "subscription" : name}`);
  document.title = "Keyline";
  // The head of a chosen subscription sets its own title.
  model.tell("connection");
}

// The address selects the view, so this link must not change it.
byId("skip").addEventListener("click", (event) => {
  event.preventDefault();
  byId("main").focus();
});

// ---- the address contains the choice, so that it can be shared

function read() {
  const told = new URLSearchParams(location.hash.slice(1));
  const view = Object.keys(views).find((name) => told.has(name));
  if (view !== undefined) {
    toView(view, told);
    return;
  }
  toSubscriptions();
  const [topic, subscription] = [told.get("topic"), told.get("subscription")];
  const by = told.has("key") ? "key" : "slot";
  const asked = told.has(by) ? { by, value: told.get(by) } : null;
  const { chosen } = model;
  if (topic === null || subscription === null) {
    if (chosen !== null) home();
    return;
  }
  if (chosen === null || chosen.topic !== topic || chosen.subscription !== subscription) follow({ topic, subscription }, asked);
  else if (asked?.by !== model.asked?.by || asked?.value !== model.asked?.value) search.ask(asked);
}

function write() {
  const { chosen, asked } = model;
  const told = new URLSearchParams(chosen);
  if (asked !== null) told.set(asked.by, asked.value);
  const hash = `#${told}`;
  if (hash !== location.hash) history.pushState(null, "", hash);
}

/** Nothing is chosen: the list of all. */
function home() {
  stream.stop();
  model.choose(null);
  model.asked = null;
  model.connected("connecting");
  document.title = "Keyline";
}

function follow(chosen, asked = null) {
  model.choose(chosen);
  model.connected("connecting");
  stream.follow(chosen);
  search.ask(asked);
}

model.on("asked", () => model.chosen !== null && model.away === null && write());
addEventListener("hashchange", read);
addEventListener("popstate", read);

// ---- begin

const subscriptions = new Subscriptions(model);
new Picker(model, subscriptions, (chosen) => follow(chosen));
new Home(model, subscriptions);
read();
for (const view of Object.values(views)) view.begun();
await subscriptions.read();

try {
  const { admin_read_only: readOnly, listen } = await api.configuration();
  showFirst(String(listen.value));
  if (readOnly?.value === true || readOnly?.value === "true") {
    model.readOnly = "this gateway takes no orders (its setting admin_read_only is true)";
    model.tell("orders");
  }
} catch {
  // The first refused order has the same effect.
}
