// The API's documentation, made of openapi.json in the browser: nothing is loaded from elsewhere.

import { byId, el, setText, table } from "./dom.js";

const CHANGES = new Set(["post", "put", "patch", "delete"]);

const answer = await fetch("openapi.json", { credentials: "same-origin" });
const document_ = await answer.json();
const named = document_.components?.schemas ?? {};
setText(byId("title"), `${document_.info.title} ${document_.info.version}: API`);
setText(byId("about"), document_.info.description.trim());
byId("filter").addEventListener("input", show);
show();

function show() {
  const wanted = byId("filter").value.trim().toLowerCase().split(/\s+/);
  const sections = new Map();
  for (const [path, methods] of Object.entries(document_.paths)) {
    for (const [method, operation] of Object.entries(methods)) {
      const text = `${method} ${path} ${operation.summary} ${operation.description}`.toLowerCase();
      if (!wanted.every((word) => text.includes(word))) continue;
      const tag = operation.tags?.[0] ?? "other";
      sections.set(tag, [...(sections.get(tag) ?? []), operationOf(path, method, operation)]);
    }
  }
  const made = [...sections].map(([tag, operations]) => el("section", {}, el("h2", {}, tag), ...operations));
  byId("operations").replaceChildren(...(made.length > 0 ? made : [el("p", { class: "muted" }, "No match.")]));
}

/** Its details are made when they are opened. */
function operationOf(path, method, operation) {
  const head = el("summary", {},
    el("span", { class: "method", "data-changes": CHANGES.has(method) }, method.toUpperCase()),
    el("span", { class: "path" }, path),
    el("span", { class: "muted" }, operation.summary ?? ""),
  );
  const details = el("details", { class: "operation" }, head);
  details.addEventListener("toggle", () => details.open && details.children.length === 1 && details.append(bodyOf(operation)));
  return details;
}

function bodyOf(operation) {
  const parts = [el("p", {}, operation.description ?? "")];
  const parameters = operation.parameters ?? [];
  if (parameters.length > 0) {
    const rows = parameters.map((each) => [code(each.name), each.in, typeOf(each.schema), each.required ? "yes" : "", each.description ?? each.schema?.description ?? ""]);
    parts.push(el("h3", {}, "Parameters"), fields("Parameters", ["Name", "In", "Type", "Required", "Meaning"], rows));
  }
  const asked = schemaIn(operation.requestBody);
  if (asked !== null) parts.push(el("h3", {}, "Body"), ...schemaTable(asked));
  for (const [status, told] of Object.entries(operation.responses ?? {})) {
    const schema = schemaIn(told);
    parts.push(el("h3", {}, `${status} ${told.description ?? ""}`), ...(schema === null ? [] : schemaTable(schema)));
  }
  return el("div", {}, ...parts);
}

const schemaIn = (holder) => Object.values(holder?.content ?? {})[0]?.schema ?? null;
const code = (text) => el("code", {}, text);
const fields = (caption, heads, rows) => el("div", { class: "fields" }, table(caption, heads, rows));
const nameOf = (reference) => reference.slice(reference.lastIndexOf("/") + 1);

/** The schema itself, and each that it names, once. */
function schemaTable(schema, seen = new Set()) {
  const made = [];
  const inner = [];
  const visit = (one) => {
    if (one.$ref !== undefined) {
      const name = nameOf(one.$ref);
      if (!seen.has(name)) {
        seen.add(name);
        inner.push(name);
      }
    }
    for (const each of [...(one.anyOf ?? []), ...(one.allOf ?? []), ...(one.prefixItems ?? []), ...(one.items ? [one.items] : [])]) visit(each);
  };
  visit(schema);
  if (schema.$ref === undefined) made.push(el("p", {}, code(typeOf(schema))));
  while (inner.length > 0) {
    const name = inner.shift();
    const { properties = {}, description = "", required = [] } = named[name] ?? {};
    const rows = Object.entries(properties).map(([field, of]) => {
      visit(of);
      return [code(field), typeOf(of), required.includes(field) ? "yes" : "", of.description ?? ""];
    });
    made.push(el("p", {}, code(name), ` ${description}`), fields(name, ["Field", "Type", "Required", "Meaning"], rows));
  }
  return made;
}

function typeOf(schema = {}) {
  if (schema.$ref !== undefined) return nameOf(schema.$ref);
  if (schema.anyOf !== undefined) return schema.anyOf.map(typeOf).join(" or ");
  if (schema.enum !== undefined) return schema.enum.map((each) => JSON.stringify(each)).join(", ");
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.type === "array") return schema.items === undefined ? "list" : `list of ${typeOf(schema.items)}`;
  const bounds = [];
  if (schema.minimum !== undefined) bounds.push(`from ${schema.minimum}`);
  if (schema.maximum !== undefined) bounds.push(`to ${schema.maximum}`);
  return [schema.type ?? "any", ...bounds].join(" ");
}
