// Elements. Text goes in as text nodes only: names and keys come from clients, and are never markup.

export const byId = (id) => document.getElementById(id);

/** An element with properties (`class`, `onclick`, ARIA and data attributes) and children, strings as text. */
export function el(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

/** A name that a client chose: isolated, so that right-to-left marks in it do not reorder the text around it. */
export const named = (text) => el("bdi", { class: "name" }, text);

/** Writes only what differs: a selection or a screen reader's place in unchanged text stays. */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
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
