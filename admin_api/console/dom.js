// Elements. Text goes in as text nodes only: names and keys come from clients, and are never markup.

/** What is copied, typed in or chosen by a client is shown as it is. */
const VERBATIM = new Set(["bdi", "code", "pre"]);
/** A number that stands alone, and the word behind it: "1 message", "1.5 s", "33 %", but not "2 of 3". */
const COUNTED = /(?<![^\s(])(\d(?:[\d,.]*\d)?) (?=%|[KMGT]?i?B\b|(?!(?:of|to|and|or)\b)[a-zµ])/g;

export const byId = (id) => document.getElementById(id);

/** All text passes here, also the gateway's sentences: a no-break space keeps a number and its unit on one line. */
const written = (tag, text) => (VERBATIM.has(tag) ? text : text.replace(COUNTED, "$1\u00a0"));

/** An element with properties (`class`, `onclick`, ARIA and data attributes) and children, strings as text. */
export function el(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  const there = children.filter((child) => child !== null && child !== undefined);
  element.append(...there.map((child) => (typeof child === "string" ? written(tag, child) : child)));
  return element;
}

/** A name that a client chose: isolated, so that right-to-left marks in it do not reorder the text around it. */
export const named = (text) => el("bdi", { class: "name" }, text);

/** Writes only what differs: a selection or a screen reader's place in unchanged text stays. */
export function setText(element, text) {
  const wanted = written(element.localName, text);
  if (element.textContent !== wanted) element.textContent = wanted;
}

/** An attribute that is there with a value, or absent. */
export function setAttribute(element, name, value) {
  if (value === null) element.removeAttribute(name);
  else if (element.getAttribute(name) !== value) element.setAttribute(name, value);
}

/** These children in this order, and no others. Only what is elsewhere is moved: moving takes the focus away. */
export function arrange(parent, children) {
  const wanted = new Set(children);
  for (const child of [...parent.children]) if (!wanted.has(child)) child.remove();
  children.forEach((child, place) => {
    const there = parent.children[place] ?? null;
    if (there !== child) parent.insertBefore(child, there);
  });
}

/** Tells a screen reader. */
export const announce = (text) => setText(byId("said"), text);

export function show(element, text) {
  element.hidden = !text;
  setText(element, text);
}

/** A term and what it is, for description lists. */
export const fact = (term, ...told) => el("div", {}, el("dt", {}, term), el("dd", {}, ...told));

/** Figures in a description list, each [term, value, more, tone]; written in place. */
export function showFigures(list, figures) {
  if (list.children.length !== figures.length) {
    list.replaceChildren(...figures.map(([term]) => fact(term, el("b", {}), el("small", {}))));
  }
  figures.forEach(([, value, more, tone], place) => {
    const told = list.children[place].lastElementChild;
    setText(told.firstElementChild, value);
    setText(told.lastElementChild, more);
    setAttribute(told, "data-tone", tone || null);
  });
}

/** A table with heads and rows of strings or nodes; columns named in `numeric` are set to the right. */
export function table(caption, heads, rows, numeric = []) {
  const kind = (place) => (numeric.includes(place) ? "number" : undefined);
  return el("table", { class: "plain" },
    el("caption", { class: "unseen" }, caption),
    el("thead", {}, el("tr", {}, ...heads.map((head, place) => el("th", { scope: "col", class: kind(place) }, head)))),
    el("tbody", {}, ...rows.map((row) => el("tr", {}, ...row.map((cell, place) => el("td", { class: kind(place) }, cell))))),
  );
}
